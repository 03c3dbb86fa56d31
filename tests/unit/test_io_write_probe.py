"""The unit that is rewritten as a whole, on devices whose result is known; and the probe on a real file."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import HostError, UsageError
from octavo.io import write_probe as probing
from octavo.io.engine import make, measure
from octavo.io.job import Job
from octavo.io.render_write_probe import sentences
from octavo.io.write_probe import WriteProbe, write_probe
from octavo.io.write_unit import ShiftedWrite, break_even_seconds, unit_of_bytes, unit_of_shifts

if TYPE_CHECKING:
    from octavo._core import IoOutcome

KB, MB = 1024, 1024**2


def unseen(phase: str, done: float, total: int) -> None:
    """Ignores progress."""


class Flash:
    """A device that writes pages of one size, and first reads a page of which a part is written. With a `cache` every
    write takes the same time. With O_DIRECT it accepts only whole sectors."""

    def __init__(self, page: int, *, cache: bool = False, sector: int = 512) -> None:
        self.page, self.cache, self.sector = page, cache, sector

    def seconds(self, offset: int, size: int) -> float:
        if self.cache:
            return 40e-6
        first, last = offset // self.page, (offset + size - 1) // self.page
        partial = {
            page for page in (first, last) if offset > page * self.page or offset + size < (page + 1) * self.page
        }
        return 20e-6 + 30e-6 * (last - first + 1) + 50e-6 * len(partial)

    def measure(self, job: Job, observe: object) -> "IoOutcome":
        assert job.write and job.durable
        if job.direct and job.block % self.sector:
            raise HostError("write: Invalid argument")
        offset, size = 0, job.block
        if job.pattern == "list" and "-" in (job.block_list or ""):
            start, end = (job.block_list or "").splitlines()[0].split("-")
            offset, size = int(start) * job.block, (int(end) - int(start) + 1) * job.block
        took = self.seconds(offset, size)
        written = size if job.direct else max(size, 4 * KB)

        def latency(quantile: float) -> float:
            return took

        found = SimpleNamespace(
            file_bytes=1024 * MB, requests=100, bytes=100 * size, seconds=100 * took, device=(0, 0, 100, 100 * written),
            latency=latency,
        )  # fmt: skip
        return cast("IoOutcome", found)


@pytest.fixture
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(paths: Sequence[Path], *_: object, **__: object) -> tuple[str, ...]:
        return tuple(map(str, paths))

    monkeypatch.setattr(probing, "prepare", prepare)


def probed(monkeypatch: pytest.MonkeyPatch, device: Flash) -> dict[str, object]:
    monkeypatch.setattr(probing, "measure", device.measure)
    return write_probe(WriteProbe(Path("/"), 1.0, 1, unseen))


@pytest.mark.usefixtures("no_file")
@pytest.mark.parametrize("page", [4 * KB, 8 * KB, 16 * KB])
def test_the_page_of_a_device_is_found(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    document = probed(monkeypatch, Flash(page))
    assert document["rewritten_unit_bytes"] == page
    assert document["page_cache_unit_bytes"] == 4 * KB
    assert any(f"rewrites {page // KB} kB as a whole" in line for line in sentences(document))


@pytest.mark.usefixtures("no_file")
def test_a_cache_and_a_page_that_is_too_large_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = probed(monkeypatch, Flash(16 * KB, cache=True))
    assert cached["rewritten_unit_bytes"] is None and "a cache acknowledges" in str(cached["rewritten_unit_reason"])
    large = probed(monkeypatch, Flash(64 * KB))
    assert large["rewritten_unit_bytes"] is None and "65536 bytes or more" in str(large["rewritten_unit_reason"])


@pytest.mark.usefixtures("no_file")
def test_a_device_whose_sector_leaves_no_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    document = probed(monkeypatch, Flash(64 * KB, sector=64 * KB))
    assert document["smallest_write_bytes"] == 64 * KB
    assert (document["shifted"], document["rewritten_unit_bytes"]) == ([], None)
    assert "no write that is shifted" in str(document["rewritten_unit_reason"])
    assert sentences(document)


def test_shifts_that_contradict_each_other_tell_nothing() -> None:
    shifts = [ShiftedWrite(512 << at, (ratio,) * 9) for at, ratio in enumerate((1.5, 1.0, 1.5, 1.0))]
    assert unit_of_shifts(shifts, 64 * KB).bytes is None
    # Two pairs of nine are as fast when shifted: scatter, not a cost, and no sign of a cache either.
    scattered = unit_of_shifts([ShiftedWrite(512, (1.0, 1.0, *[1.4] * 7))], 64 * KB)
    assert scattered.bytes is None and "scatter" in scattered.reason


def test_a_shift_that_costs_in_all_pairs_but_two_is_not_free() -> None:
    """Seen on a device of 16 kB pages: at 8 kB one pair was as fast as not shifted, but the page is not 8 kB."""
    dear = [ShiftedWrite(512 << at, (1.25,) * 9) for at in range(4)]
    unsure = ShiftedWrite(8 * KB, (0.98, 1.0, *[1.2] * 7))
    free = [ShiftedWrite(16 * KB, (1.0,) * 9), ShiftedWrite(32 * KB, (1.05, *[1.0] * 8))]
    assert unit_of_shifts([*dear, unsure, *free], 64 * KB).bytes is None
    surely = ShiftedWrite(8 * KB, (0.98, *[1.2] * 8))
    assert unit_of_shifts([*dear, surely, *free], 64 * KB).bytes == 16 * KB


@given(st.integers(0, 7), st.floats(1.0, 1.2))
def test_the_unit_of_the_page_cache_is_where_writes_are_written_once(power: int, overhead: float) -> None:
    sizes = [512 << at for at in range(9)]
    unit = 512 << power
    assert unit_of_bytes(sizes, [max(unit, size) * overhead for size in sizes]) == unit


def test_counters_that_are_not_there_tell_nothing() -> None:
    assert unit_of_bytes([512, 1024], [None, None]) is None


def test_the_published_five_minutes_and_what_page_size_does_to_them() -> None:
    """4 kB at 67,000 requests a second: 5 minutes in "The Five-minute Rule Thirty Years Later" (2019)."""
    price, bytes_per_second = 77 * 1024**3, 534 * MB
    ages = {
        page: break_even_seconds(page, min(67_000, bytes_per_second / page), price)
        for page in (KB << power for power in range(7))
    }
    assert ages[4 * KB] == pytest.approx(5 * 60, rel=0.01)
    assert ages[KB] == pytest.approx(4 * ages[4 * KB])
    assert ages[16 * KB] == pytest.approx(ages[64 * KB]) == pytest.approx(148, rel=0.01)


def test_a_real_file_is_written_and_can_still_be_checked() -> None:
    # Not in /tmp, which may be a tmpfs without O_DIRECT.
    path = Path(os.environ.get("OCTAVO_PROBE_DIRECTORY", "/var/tmp")) / f"octavo-write-probe-{os.getpid()}"  # noqa: S108
    make(path, 8 * MB, unseen)
    try:
        document = write_probe(WriteProbe(path, 0.5, 1, unseen))
        check = Job((str(path),), 4096, "sequential", verify=True, once=True, cache="found")
        assert measure(check, unseen).bytes == 8 * MB
    except HostError as error:
        pytest.skip(str(error))
    finally:
        path.unlink()
    assert [point["bytes"] for point in document["through_page_cache"]] == [512 << at for at in range(9)]
    assert all(point["latency_us"] > 0 for point in document["past_page_cache"])
    assert document["shifted"][0]["shift_bytes"] == document["smallest_write_bytes"]
    assert document["local"]["ratio"] > 0 and document["sustained"]["writes_per_second"] > 0
    assert any("cannot be told" in line or "whole" in line for line in sentences(document))


def test_what_is_not_ours_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "somebodys").write_bytes(bytes(8 * MB))
    with pytest.raises(UsageError, match=r"octavo io .* files that it made"):
        write_probe(WriteProbe(tmp_path / "somebodys", 1.0, 1, unseen))
    make(tmp_path / "small", MB, unseen)
    with pytest.raises((UsageError, HostError), match=r"too small|O_DIRECT"):
        write_probe(WriteProbe(tmp_path / "small", 1.0, 1, unseen))
