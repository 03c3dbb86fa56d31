"""A sample of a trace's pages, simulated in miniature, compared with all of them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, made

from octavo.predict.assumptions import Assumptions
from octavo.predict.conditions import Conditions
from octavo.predict.counts import COUNTS
from octavo.predict.device import device_of
from octavo.predict.model import figures
from octavo.predict.predict import Request, predict
from octavo.predict.recorded import Recorded, recorded
from octavo.predict.render import facts
from octavo.predict.sampling import Caches, Sample, sample_of
from octavo.predict.simulation import simulate
from octavo.predict.size import Size

SAMPLE = Sample(4, 8)


def large(tmp_path: Path, **made_as: Any) -> Recorded:
    """156 MB in 312 extents."""
    return recorded(made(tmp_path / "t.octrace", pages=20_000, transactions=60_000, seconds=60.0, **made_as))


@pytest.mark.parametrize("made_as", [{"writes": True}, {"hot": True}])
def test_a_sample_counts_what_all_pages_do(tmp_path: Path, made_as: dict[str, Any]) -> None:
    """Within its own error estimates, at larger and smaller blocks; accesses are those of the trace."""
    trace = large(tmp_path, **made_as)
    sizes = [Size(block, 32 * MB, 96 * MB) for block in (4096, BLOCK, 4 * BLOCK)]
    cycle = 20.0 if "writes" in made_as else None
    exact, sampled = (simulate(trace, sizes, cycle, sample=sample) for sample in (None, SAMPLE))
    checked, missed = 0, list[tuple[int, str]]()
    for size in sizes:
        for one, other in zip(exact[size], sampled[size], strict=True):
            assert not one.errors and other.each["accesses"] == pytest.approx(one.each["accesses"], rel=0.001)
            assert other.each["hits"] + other.each["reads"] == pytest.approx(other.each["accesses"])
            for name in set(COUNTS) - {"accesses", "hits"}:
                if one.each[name] * trace.transactions < 2000:
                    continue
                checked += 1
                off = abs(other.each[name] / one.each[name] - 1) / other.errors[name]
                assert off < 3, (size.data_block, name)
                missed += [(size.data_block, name)] * (off > 1)
    assert checked > 20 and len(missed) <= 0.1 * checked, missed


def test_large_traces_with_large_caches_are_sampled(tmp_path: Path) -> None:
    trace = recorded(made(tmp_path / "t.octrace"))
    relations = [{**trace.summary["relations"][0], "blocks": 2_000_000}]

    def of(accesses: int, buffers: float = 1e6, page_cache: float | None = 1e9) -> Sample:
        summary: Any = {**trace.summary, "reads": accesses, "relations": relations}
        grown = dataclasses.replace(trace, summary=summary)
        return sample_of(grown, [Caches(buffers, page_cache, 128 * 1024)])

    assert [of(10**6 * millions).scale for millions in (19, 20, 40, 100, 1000)] == [1, 8, 16, 32, 64]
    assert of(10**8).share == 1 / 8
    assert [of(10**8, buffers).scale for buffers in (1023, 1024, 2048, 1e4)] == [1, 8, 16, 32]
    assert of(10**8, page_cache=8.0 * MB) == Sample() and of(10**8, page_cache=None).scale == 32
    assert sample_of(trace, []) == Sample()


def test_the_document_says_what_was_sampled_and_intervals_have_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(tmp_path).path
    asked = Request(path, (BLOCK,), (), (32 * MB,))

    def always(_: Recorded, __: Sequence[Size]) -> Sample:
        return SAMPLE

    monkeypatch.setattr("octavo.predict.predict.chosen_sample", always)
    sampled, exact = predict(asked), predict(dataclasses.replace(asked, exact=True))
    assert exact["sample"] is None and "simulated on" not in " ".join(facts(exact))
    told = sampled["sample"]
    assert (told["share"], told["extent_bytes"]) == (0.5, 64 * BLOCK) and 0.02 <= told["reads_error"] < 0.2
    assert "simulated on 1/2 of the pages" in facts(sampled)[-1]
    wide, narrow = (
        (one["high"] - one["low"]) / one["value"]
        for one in (document["sizes"][0]["figures"]["reads_per_transaction"] for document in (sampled, exact))
    )
    assert wide > narrow


def test_its_ends_widen_reads_writes_and_images(tmp_path: Path) -> None:
    trace = large(tmp_path, writes=True)
    size = Size(BLOCK, 32 * MB, 96 * MB)
    own = dataclasses.replace(size, is_as_recorded=True)
    rates = simulate(trace, [own, size], 20.0, sample=SAMPLE)
    given = Conditions(trace, own, rates[own], size, rates[size], device_of(None), device_of(None), 4, 20.0)
    low, high = (figures(size, rates[size], 8192, Assumptions(sample=end), given) for end in (-1.0, 1.0))
    for name in ("reads", "device_reads", "device_written_bytes", "full_page_images", "wal_image_bytes"):
        ends = low[f"{name}_per_transaction"], high[f"{name}_per_transaction"]
        assert ends[0] is not None and ends[1] is not None and ends[0] < 0.99 * ends[1], name
