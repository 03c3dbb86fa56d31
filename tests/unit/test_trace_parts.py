"""A trace in parts compared with the whole trace."""

import math
import random
from pathlib import Path

import pytest

from octavo import _core
from octavo.trace.files import ignore_progress
from octavo.trace.parts import MOST_PARTS, Share, assembled, merged, shares
from octavo.trace.surface import SurfaceRequest, surface

kB = 1024
ALL_SIZES = tuple(kB << power for power in range(6))
COUNT, PAGES = 200_000, 20_000
CAPACITIES = [size * 8192 for size in (400, 1000, 3000, 10_000, 20_000)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "t.octrace"
    drawn = random.Random(7)
    writer = _core.TraceWriter(path, 8192)
    writer.push([(number, 1, 1663, 5, 16384, 0, int(drawn.random() ** 3 * PAGES), 0, 0) for number in range(COUNT)])
    writer.finish()
    return path


def curves(trace: Path, rate: float | None = None, part: tuple[int, int] = (0, 1)):
    return _core.trace_curves(
        trace, 8192, [4096, 8192, 16384], CAPACITIES, rate=rate, seed=1, threads=1, observe=ignore_progress, part=part
    )[1]


@pytest.mark.parametrize("count", [2, 5, 16])
def test_all_parts_together_are_the_whole(trace: Path, count: int) -> None:
    whole = curves(trace)
    for one, other in zip(whole, merged([curves(trace, part=(part, count)) for part in range(count)]), strict=True):
        assert (one["page_size"], one["layout"]) == (other["page_size"], other["layout"])
        assert other["pages"] == pytest.approx(one["pages"], rel=0.02)
        for exact, mean, error in zip(one["hit_ratios"], other["hit_ratios"], other["standard_errors"], strict=True):
            assert abs(exact - mean) <= 4 * error + 0.002


def test_parts_of_a_sample_are_nearer_than_one_of_them(trace: Path) -> None:
    whole = curves(trace)
    parts = [curves(trace, 0.2, (part, 4)) for part in range(4)]
    together = merged(parts)
    for one, single, other in zip(whole, parts[0], together, strict=True):
        assert max(other["standard_errors"]) < max(single["standard_errors"])
        for exact, mean, error in zip(one["hit_ratios"], other["hit_ratios"], other["standard_errors"], strict=True):
            assert abs(exact - mean) <= 4 * error + 0.002


def of_share(trace: Path, share: Share):
    return _core.trace_curves(
        trace, 8192, list(share.sizes), CAPACITIES, rate=None, seed=1, threads=1, observe=ignore_progress,
        part=share.part, concentrated=list(share.concentrated),
    )[1]  # fmt: skip


@pytest.mark.parametrize("sizes", [(4 * kB, 8 * kB, 16 * kB), (4 * kB, 16 * kB), (8 * kB, 16 * kB), (2 * kB, 4 * kB)])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_no_more_workers_than_sizes_find_what_one_does(trace: Path, sizes: tuple[int, ...], workers: int) -> None:
    whole = _core.trace_curves(
        trace, 8192, list(sizes), CAPACITIES, rate=None, seed=1, threads=1, observe=ignore_progress
    )[1]  # fmt: skip
    planned = shares(8192, sizes, min(workers, len({*sizes, 8192})))
    found = assembled(sizes, [of_share(trace, share) for share in planned])
    place = {(one["page_size"], one["layout"]): one for one in found}
    assert len(found) == len(whole)
    assert [place[one["page_size"], one["layout"]] for one in whole] == whole


def test_more_workers_than_sizes_find_it_within_their_error(trace: Path) -> None:
    sizes = (4 * kB, 8 * kB, 16 * kB)
    planned = shares(8192, sizes, 8)
    assert len(planned) == 8
    found = assembled(sizes, [of_share(trace, share) for share in planned])
    place = {(one["page_size"], one["layout"]): one for one in found}
    for one in curves(trace):
        other = place[one["page_size"], one["layout"]]
        for exact, mean, error in zip(one["hit_ratios"], other["hit_ratios"], other["standard_errors"], strict=True):
            assert abs(exact - mean) <= 4 * error + 0.002


@pytest.mark.parametrize("workers", [1, 2, 5, 6, 7, 16, 128, 1 << 20])
def test_shares_are_every_page_of_every_size_once(workers: int) -> None:
    planned = shares(8 * kB, ALL_SIZES, workers)
    assert len(planned) <= min(workers, MOST_PARTS)
    for size in ALL_SIZES:
        parts = [share.part for share in planned if size in share.sizes]
        assert sorted(parts) == [(part, len(parts)) for part in range(len(parts))]
    # An estimate that saves no time is not used: with one worker more than sizes all stay exact.
    assert workers > 7 or {share.part for share in planned} == {(0, 1)}


def test_parts_that_are_asked_for_are_those_of_every_size() -> None:
    for workers in (1, 3, 4, 9):
        planned = shares(8 * kB, ALL_SIZES, workers, 4)
        assert {share.part for share in planned} == {(part, 4) for part in range(4)}
        assert sum(len(share.sizes) for share in planned) == 4 * len(ALL_SIZES)
    assert len(shares(8 * kB, ALL_SIZES, 9, 4)) == 8


@pytest.mark.parametrize("part", [(1, 1), (4, 4), (0, 0), (0, 5000)])
def test_a_part_that_there_is_not(trace: Path, part: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no such part"):
        curves(trace, part=part)


def test_curves_of_other_sizes_are_not_merged(trace: Path) -> None:
    found = curves(trace)
    with pytest.raises(ValueError, match="different curves"):
        merged([found, list(reversed(found))])


def test_the_document_says_in_how_many_parts(trace: Path) -> None:
    document = surface(SurfaceRequest(trace, page_sizes=(8192,)))
    assert document["parts"] == 1
    assert not math.isnan(document["curves"][0]["hit_ratios"][0])
