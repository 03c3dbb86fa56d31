"""Parts that need no server: pinned settings, versioned SQL, limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.postgres import sql
from octavo.postgres.limits import DATA_BLOCKS
from octavo.postgres.pinned import not_pinned, pinned_settings
from octavo.units import parse_size


@pytest.mark.parametrize("block", DATA_BLOCKS)
def test_pages_that_are_counted_make_the_same_bytes_at_every_block_size(block: str) -> None:
    settings = pinned_settings("18.6", block)
    assert int(settings["bgwriter_lru_maxpages"]) * parse_size(block) == 800 * 1024
    assert settings["effective_cache_size"] == "4GB"


def test_settings_appear_with_the_version_that_has_them() -> None:
    assert "transaction_buffers" not in pinned_settings("16", "8kB")
    assert "transaction_buffers" in pinned_settings("17", "8kB")
    assert "io_max_combine_limit" not in pinned_settings("17.2", "8kB")
    assert all(entry["reason"] for entry in not_pinned())
    # Its default follows the number of buffers (AioChooseMaxConcurrency, aio_init.c).
    assert "io_max_concurrency" in {entry["name"] for entry in not_pinned()}


@given(st.integers(min_value=140000, max_value=200000))
def test_the_query_with_the_highest_floor_serves(version: int) -> None:
    text = sql.load("checkpoints", version)
    assert ("pg_stat_checkpointer" in text) == (version >= 170000)


@pytest.mark.parametrize(("version", "done"), [(150000, False), (170004, False), (180000, True), (190000, True)])
def test_skipped_checkpoints_do_not_count_where_the_server_counts_those_that_were_done(
    version: int, done: bool
) -> None:
    text = sql.load("checkpointer", version)
    assert ("SELECT num_done::float8 AS checkpoints" in text) == done


def test_a_query_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="nothing"):
        sql.load("nothing", 180000)
