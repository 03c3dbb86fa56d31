"""What needs no server: pinned settings, versioned SQL, sources, limits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.postgres import sql
from octavo.postgres.limits import DATA_BLOCKS
from octavo.postgres.pinned import not_pinned, pinned_settings
from octavo.postgres.source import find_source
from octavo.units import parse_size


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path


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


@given(st.integers(min_value=140000, max_value=200000))
def test_the_query_with_the_highest_floor_serves(version: int) -> None:
    text = sql.load("checkpoints", version)
    assert ("pg_stat_checkpointer" in text) == (version >= 170000)


def test_a_query_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="nothing"):
        sql.load("nothing", 180000)


def test_a_local_tarball_is_taken_with_its_digest(home: Path) -> None:
    tarball = home / "postgresql-18.3.tar.bz2"
    tarball.write_bytes(b"not much")
    with Journal() as journal:
        source = find_source("18", journal, tarball)
        assert (source.version, len(source.sha256)) == ("18.3", 64)
        with pytest.raises(UsageError, match="not a tarball of PostgreSQL 17"):
            find_source("17", journal, tarball)
        with pytest.raises(UsageError, match="no such file"):
            find_source("18", journal, home / "absent.tar.bz2")


def test_a_fetched_source_that_changed_is_not_used(home: Path) -> None:
    (home / "sources").mkdir()
    (home / "sources" / "postgresql-18.9.tar.gz").write_bytes(b"tampered")
    (home / "sources" / "postgresql-18.9.tar.origin").write_text(f"{'0' * 64} somewhere\n")
    with Journal() as journal, pytest.raises(OctavoError, match="sha256 differs"):
        find_source("18", journal)
