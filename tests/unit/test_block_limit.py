"""Limits on a device, on planted files that keep a line for each device, like the kernel's."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planted import plant

from octavo.host import block_limit
from octavo.host.block_limit import DeviceLimits
from octavo.host.journal import Journal, restore
from octavo.host.kernel_value import KernelValue
from octavo.knobs.credits import DeviceTotals
from octavo.knobs.enforcer import PERIOD_SECONDS, Enforcer
from octavo.knobs.volume_types import VolumeType, parse_device

_FILES = tuple(f"blkio/blkio.throttle.{way}_{what}_device" for way in ("read", "write") for what in ("iops", "bps"))
_OTHERS = "8:0 77\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    made = plant(tmp_path / "cgroup", dict.fromkeys(_FILES, _OTHERS))

    def write(self: KernelValue, text: str) -> None:
        lines = [line for line in self.path.read_text().splitlines() if not line.startswith(f"{self.device} ")]
        self.path.write_text("".join(f"{line}\n" for line in [*lines, *([f"{self.device} {text}"] if text else [])]))

    monkeypatch.setattr(KernelValue, "write", write)
    return made


def limits(root: Path) -> list[str]:
    return [(root / name).read_text().removeprefix(_OTHERS).strip() for name in _FILES]


def volume(level: str) -> VolumeType:
    parsed = parse_device(level)
    assert parsed is not None
    return parsed


def test_a_new_device_is_rid_of_the_limits_of_the_one_before(root: Path) -> None:
    for name in _FILES:
        KernelValue(root / name, "device", "7:999").write("304")
    block_limit.lift("7:999", root)
    assert {(root / name).read_text() for name in _FILES} == {_OTHERS}
    block_limit.lift("7:999", root)  # nothing to do
    assert {(root / name).read_text() for name in _FILES} == {_OTHERS}


def test_version_2_has_nothing_to_lift(tmp_path: Path) -> None:
    block_limit.lift("7:999", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("root")
def test_a_group_of_version_2_has_no_limit_after_the_context(tmp_path: Path) -> None:
    """The server is started in the group after the probe, and is limited only later."""
    group = plant(tmp_path / "group", {"io.max": ""})
    chosen = volume("iops=300,mbps=125").highest
    with Journal() as journal, block_limit.throttled("7:999", chosen, journal, group, root=group) as throttle:
        throttle.limit(chosen, chosen)
        assert "riops=300 wiops=300" in (group / "io.max").read_text()
    assert (group / "io.max").read_text() == "7:999 rbps=max wbps=max riops=max wiops=max\n"


def test_an_enforcer_that_an_interrupt_left_running_writes_no_more(root: Path) -> None:
    """Ctrl-C while waiting for the thread: the limits are restored, but it continues to request others."""
    burst = volume("gp2:100,credits=600")
    waits, goes_on = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def counters() -> DeviceTotals:
        if threading.current_thread() not in threads:
            return DeviceTotals()
        waits.set()
        assert goes_on.wait(60)
        return DeviceTotals(reads=600.0)

    def interrupted() -> None:
        with Journal() as journal, block_limit.throttled("7:999", burst.highest, journal, root=root) as throttle:
            keeper = Enforcer(burst, throttle, counters)
            keeper.begin()
            threads.append(threading.Thread(target=keeper.step))
            threads[0].start()
            assert waits.wait(60)
            assert limits(root)[0] == "7:999 3000"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    goes_on.set()
    threads[0].join()
    assert limits(root) == ["", "", "", ""]


@given(
    level=st.sampled_from(["gp2:100,credits=50", "gp2:200,credits=600", "gp3:3000/125", "iops=300,mbps=125", "hdd"]),
    served=st.lists(st.tuples(*[st.floats(0, 1e5)] * 2, *[st.floats(0, 1e9)] * 2), min_size=1, max_size=20),
)
def test_no_limit_is_outside_of_what_the_journal_has_as_ours(
    level: str, served: list[tuple[float, float, float, float]]
) -> None:
    chosen = volume(level)
    asked = Asked()
    clock, done = [0.0], [0.0] * 4
    keeper = Enforcer(chosen, asked, lambda: DeviceTotals(*done), lambda: clock[0])
    keeper.begin()
    for one in served:
        clock[0] += PERIOD_SECONDS
        done[:] = [before + now for before, now in zip(done, one, strict=True)]
        keeper.step()
    for made in asked.limits:
        for limit, highest in zip(made.whole(), chosen.highest.whole(), strict=True):
            assert (limit is None) == (highest is None)
            assert limit is None or highest is None or 1 <= limit <= highest


class Asked:
    """The requests of an enforcer."""

    def __init__(self) -> None:
        self.limits: list[DeviceLimits] = []

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        self.limits += [reads, writes]


def test_a_restore_puts_back_what_was_changed_since_it_was_set(root: Path) -> None:
    chosen = volume("gp2:100,credits=50")
    with Journal() as journal, block_limit.throttled("7:999", chosen.highest, journal, root=root) as throttle:
        throttle.limit(DeviceLimits(304.4, 133605435.0), DeviceLimits(2999.0, 1.0))
        assert limits(root) == ["7:999 304", "7:999 133605435", "7:999 2999", "7:999 1"]
        # What a kill at this moment would leave, replayed by the next command.
        journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
        assert {one.what for one in restore()} == {"put back"}
        assert limits(root) == ["", "", "", ""]
