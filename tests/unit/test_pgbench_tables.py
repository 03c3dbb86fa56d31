"""pgbench's tables: scales as text, row width, fill factor, and their sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import changed_plan, small_plan

from octavo.errors import UsageError
from octavo.plan.cells import make_cells
from octavo.plan.impossible import impossible_cells
from octavo.postgres.limits import DATA_BLOCKS
from octavo.workload_support import pgbench_tables

LEVELS = {
    "scale": "25", "row_width": "121", "fillfactor": "100", "data_block": "8kB",
    "shared_buffers": "128MB", "memory": "1GB",
}  # fmt: skip
MB = 1024**2


def size(**levels: str) -> int:
    return pgbench_tables.database_bytes({**LEVELS, **levels})


def test_the_words_mean_what_the_talk_means() -> None:
    assert size(scale="small") < 128 * MB
    assert 128 * MB < size(scale="medium") < 1024 * MB - 128 * MB
    assert size(scale="large") > 1024 * MB


@given(
    block=st.sampled_from(DATA_BLOCKS),
    buffers=st.integers(160, 4096),
    times=st.integers(4, 64),
    fillfactor=st.integers(50, 100),
    width=st.integers(41, 300),
)
def test_the_words_hold_at_every_block_and_row(
    block: str, buffers: int, times: int, fillfactor: int, width: int
) -> None:
    levels = {
        "data_block": block, "shared_buffers": f"{buffers}MB", "memory": f"{buffers * times}MB",
        "row_width": str(width), "fillfactor": str(fillfactor),
    }  # fmt: skip
    most = 2 * 1.02  # a page holds whole rows: at 1 kB up to half of it may stay empty
    small, medium, large = (size(scale=word, **levels) for word in ("small", "medium", "large"))
    assert small <= buffers * MB * most / 2
    assert medium > buffers * MB
    assert large > 1.5 * buffers * times * MB
    assert small < medium < large


@given(block=st.sampled_from(DATA_BLOCKS), word=st.sampled_from(["small", "medium", "large"]))
def test_every_block_has_the_same_accounts(block: str, word: str) -> None:
    levels = {**LEVELS, "scale": word}
    assert pgbench_tables.scale_of({**levels, "data_block": block}) == pgbench_tables.scale_of(levels)


def test_sizes_are_those_that_were_seen() -> None:
    # PostgreSQL 18.6 at 8 kB, scale 1: the index, and accounts with the empty pages from COPY's extending.
    assert size(scale="1") == pytest.approx(13_664_256 + 2_260_992, rel=0.02)


def test_medium_without_room_is_told() -> None:
    with pytest.raises(UsageError, match=r"medium has to fit memory but not shared_buffers: 400 MB .* 4 times"):
        make_cells(small_plan(scale=["medium"], memory=["400MB"], shared_buffers=["128MB"]))


def test_buffers_that_hold_less_than_scale_1_are_told() -> None:
    with pytest.raises(UsageError, match=r"scale small: .* are less than pgbench's scale 1 with such rows, "):
        size(scale="small", shared_buffers="16MB")


def test_a_dataset_of_before_is_named_as_before() -> None:
    assert pgbench_tables.contents(LEVELS) == (("scale", "25"),)
    assert pgbench_tables.contents({"scale": "25"}) == (("scale", "25"),)
    wide = pgbench_tables.contents({**LEVELS, "row_width": "500", "fillfactor": "90"})
    assert wide == (("scale", "25"), ("row_width", "500"), ("fillfactor", "90"))


def test_a_row_wider_than_a_page_is_refused() -> None:
    plan = changed_plan({'["4kB", "8kB"]': '["1kB", "8kB"]'}, row_width=["993"])
    found = impossible_cells(plan, make_cells(plan))
    assert {each.cell.label for each in found} == {"1kB"}
    assert found[0].reason == "a row of 993 bytes does not fit a page of 1kB, which holds 992"


@pytest.mark.parametrize("scale", ["0", "huge", "1.5"])
def test_another_scale_is_no_level(scale: str) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1 to 1000000, or small, medium, large"):
        small_plan(scale=[scale])


def test_pages_that_are_left_half_empty_take_twice_the_room() -> None:
    heap = size(scale="1") - 2_260_992
    assert size(scale="1", fillfactor="50") - 2_260_992 == pytest.approx(2 * heap, rel=0.05)
