"""What a build reports about its huge pages, and how much of the host's memory they may use."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import pytest
from tests.unit.plans import small_plan

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.knobs import huge_pages
from octavo.lab.huge_page_pools import HugePagePools, Need, reported_pages
from octavo.plan.cells import make_cells

_MB2, _GB = 2**21, 2**30


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[int, int]]:
    """The requests to the kernel, which grants all of them."""
    asked: list[Mapping[int, int]] = []

    @contextmanager
    def pools(wanted: Mapping[int, int], _journal: Journal) -> Generator[dict[int, huge_pages.Pool], None, None]:
        asked.append(wanted)
        yield {page: huge_pages.Pool(page, pages, pages) for page, pages in wanted.items()}

    monkeypatch.setattr(huge_pages, "pools", pools)
    return asked


def test_no_build_takes_more_than_the_memory(journal: Journal, taken: list[Mapping[int, int]]) -> None:
    pools = HugePagePools(journal)
    needs = {
        "honest": Need(_MB2, 100, "a"),
        "hostile": Need(_MB2, 10**9, "a"),
        "together": Need(_GB, 2, "b"),
    }
    pools.take(needs, room=_GB, memory=2 * _GB)
    assert taken == [{_MB2: 100}]
    assert pools.cannot("honest", {"huge_pages": "2MB"}) is None
    assert "needs 1000000000 huge pages of 2MB" in str(pools.cannot("hostile", {"huge_pages": "2MB"}))
    assert "the kernel gave 0" in str(pools.cannot("together", {"huge_pages": "1GB"}))
    pools.close()


def test_what_fits_is_taken_for_all_at_once(journal: Journal, taken: list[Mapping[int, int]]) -> None:
    pools = HugePagePools(journal)
    pools.take({"one": Need(_MB2, 100, "a"), "two": Need(_MB2, 50, "a")}, room=_GB, memory=2 * _GB)
    assert taken == [{_MB2: 150}]
    pools.close()


def test_cells_that_were_not_to_run_at_once_have_too_few_pages_for_that(
    journal: Journal, taken: list[Mapping[int, int]]
) -> None:
    """When a run is resumed, the cell that kept a condition from slices may be decided, or skipped."""
    one, two, _ = make_cells(small_plan(mode=["read-only"]))
    pools = HugePagePools(journal)
    pools.take({one.id: Need(_MB2, 100, one.id), two.id: Need(_MB2, 50, two.id)}, room=_GB, memory=2 * _GB)
    assert taken == [{_MB2: 100}]
    assert pools.not_at_once([one]) is None
    assert str(pools.not_at_once([one, two])).startswith("the cells together need 150 huge pages of 2MB")
    pools.close()


@pytest.mark.parametrize("text", ["", "-5", "9" * 5000, "1e9", "٣"])
def test_a_number_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(OctavoError, match="huge pages; rebuild it") as raised:
        reported_pages(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200
