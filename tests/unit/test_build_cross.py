"""Builds for another machine: which compilers make them, with which options, and whether they run here."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import HostError, OctavoError, UsageError
from octavo.lab import runnable
from octavo.plan.factors import build_of
from octavo.postgres.builds import cross
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.spec import BuildSpec

ARM = "aarch64-linux-gnu-gcc"


@pytest.fixture(autouse=True)
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uname:
        machine = "x86_64"

    monkeypatch.setattr("octavo.postgres.builds.cross.os.uname", Uname)


def test_a_compiler_s_name_says_its_machine() -> None:
    assert cross.machine_of(ARM) == cross.machine_of(f"{ARM}-12") == "aarch64"
    for own in ("gcc", "clang-16", "x86_64-linux-gnu-gcc", "my-aarch64-linux-gnu-gcc", f"{ARM}-x"):
        assert cross.machine_of(own) is None
        assert cross.meson_file(own) is None


def test_meson_gets_the_other_machine() -> None:
    text = cross.meson_file(f"{ARM}-12") or ""
    for line in (f"c = '{ARM}-12'", "ar = 'aarch64-linux-gnu-ar'", "cpu_family = 'aarch64'", "endian = 'little'"):
        assert line in text.splitlines()
    assert "endian = 'big'" in (cross.meson_file("s390x-linux-gnu-gcc") or "")


@pytest.mark.parametrize(("version", "uring"), [("18.6", True), ("17.11", False)])
def test_such_a_build_has_the_c_library_alone(version: str, uring: bool) -> None:
    said = options(BuildSpec(version, compiler=ARM), version)
    assert said.index("-Dicu=disabled") > said.index("-Dicu=enabled")  # the later one takes effect
    assert ("-Dliburing=disabled" in said) is uring
    assert "-Dicu=disabled" not in options(build_of({"version": version}), version)


def test_what_it_makes_runs_where_the_kernel_has_an_emulator(tmp_path: Path) -> None:
    assert not cross.runs_here("aarch64", tmp_path)
    (tmp_path / "qemu-aarch64").write_text("disabled\n")
    assert not cross.runs_here("aarch64", tmp_path)
    (tmp_path / "qemu-aarch64").write_text("enabled\ninterpreter /usr/bin/qemu-aarch64\n")
    assert cross.runs_here("aarch64", tmp_path)


def test_a_cell_of_another_machine_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from octavo.plan.cells import make_cells
    from octavo.plan.presets import find_plan

    monkeypatch.setattr("octavo.lab.runnable.shutil.which", lambda *_, **__: "/usr/bin/x")  # pyright: ignore
    plan, _ = find_plan("pgio-lio", changes={"compiler": [ARM]})
    reason = runnable.cannot_run(make_cells(plan)[0], tmp_path)
    assert reason == f"{ARM} compiles for aarch64; this host is x86_64 and has no emulator in binfmt_misc"


@pytest.mark.parametrize(
    ("action", "kind", "said"),
    [
        (("--package", "deb"), UsageError, f"--package: {ARM} compiles for aarch64"),
        (("--smoke-test",), HostError, "has no emulator in binfmt_misc; build without tests"),
        (("--check-operations",), HostError, "has no emulator in binfmt_misc; build without tests"),
    ],
)
def test_what_cannot_be_done_with_it_here_is_refused_before_it_is_made(
    action: tuple[str, ...], kind: type[OctavoError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*_: object, **__: object) -> None:
        raise AssertionError("it is made")

    def never(_: str) -> bool:
        return False

    monkeypatch.setattr("octavo.postgres.builds.make.ensure_builds", make)
    monkeypatch.setattr(cross, "runs_here", never)
    ran = CliRunner().invoke(app, ["build", "--compiler", ARM, *action])
    assert isinstance(ran.exception, kind) and said in str(ran.exception)
