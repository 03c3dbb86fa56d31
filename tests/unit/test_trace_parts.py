"""A trace in parts against the whole of it."""

import math
import random
from pathlib import Path

import pytest

from octavo import _core
from octavo.trace.files import nobody
from octavo.trace.parts import merged
from octavo.trace.surface import SurfaceRequest, surface

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
        trace, 8192, [4096, 8192, 16384], CAPACITIES, rate=rate, seed=1, threads=1, observe=nobody, part=part
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


@pytest.mark.parametrize("part", [(1, 1), (4, 4), (0, 0), (0, 5000)])
def test_a_part_that_there_is_not(trace: Path, part: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="there is no part"):
        curves(trace, part=part)


def test_curves_of_other_sizes_are_not_merged(trace: Path) -> None:
    found = curves(trace)
    with pytest.raises(ValueError, match="different curves"):
        merged([found, list(reversed(found))])


def test_the_document_says_in_how_many_parts(trace: Path) -> None:
    document = surface(SurfaceRequest(trace, page_sizes=(8192,)))
    assert document["parts"] == 1
    assert not math.isnan(document["curves"][0]["hit_ratios"][0])
