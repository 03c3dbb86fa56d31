"""Which hosts a build made on one of them may be sent to."""

# pyright: reportPrivateUsage=false

from pathlib import Path

from tests.unit import planted

from octavo.fleet.builds import _place
from octavo.postgres.builds.spec import BuildSpec

NATIVE = BuildSpec("18", flags=("-march=native",))
_CPU = "Features\t: fp asimd {}\nCPU implementer\t: 0x41\nCPU part\t: {}\n"


def place(directory: Path, name: str, cpuinfo: str, spec: BuildSpec = NATIVE) -> str:
    planted.plant(directory / name, {"cpuinfo": cpuinfo})
    return _place(spec, directory / name)


def test_a_build_for_this_cpu_goes_to_no_other_one(tmp_path: Path) -> None:
    """Arm CPUs have no names, and a hypervisor may hide instruction sets: the server would die of SIGILL."""
    mine = place(tmp_path, "mine", _CPU.format("atomics", "0xd0c"))
    assert place(tmp_path, "same", _CPU.format("atomics", "0xd0c")) == mine
    assert place(tmp_path, "newer", _CPU.format("atomics", "0xd4f")) != mine
    assert place(tmp_path, "more", _CPU.format("atomics sve", "0xd0c")) != mine


def test_any_other_build_goes_to_every_cpu(tmp_path: Path) -> None:
    first, second = (
        place(tmp_path, part, _CPU.format("atomics", part), BuildSpec("18")) for part in ("0xd0c", "0xd4f")
    )
    assert first == second
