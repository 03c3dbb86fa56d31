"""A server that is killed in the middle of TPC-B: at another block size, too, recovery has every acknowledged
commit."""

import pytest

from octavo.errors import OctavoError
from octavo.home import octavo_home
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import crash_test as crashing
from octavo.postgres.builds.cache import Build
from octavo.postgres.crash_test import crash_test

pytestmark = pytest.mark.beside


@pytest.mark.parametrize("block", ["4kB", "32kB"])
def test_a_killed_server_comes_back_with_all_that_was_acknowledged(
    block: str, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    outcome = crash_test(builds[block], journal, account)
    assert outcome.found >= outcome.acknowledged >= 1000
    assert outcome.recovery_seconds > 0
    assert not list((octavo_home() / "scratch").glob("????????????????"))


def test_acknowledged_commits_that_are_lost_are_told(
    builds: dict[str, Build], journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check can fail: with commits that do not wait for the disk, the last ones before the kill are lost."""
    lazy = {
        "synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "wal_buffers": "32MB",
        "shared_buffers": "128MB",
    }  # fmt: skip
    monkeypatch.setattr(crashing, "_SETTINGS", {**crashing._SETTINGS, **lazy})  # pyright: ignore[reportPrivateUsage]
    # The end of a segment is flushed, too, and of small ones perhaps just before the kill.
    monkeypatch.setattr(crashing, "_WAL_SEGMENT", 16 * 1024**2)
    with pytest.raises(
        OctavoError, match=r"fails its crash test: \d+ commits were acknowledged, but only \d+ survived"
    ):
        crash_test(builds["8kB"], journal, account)
    assert not list((octavo_home() / "scratch").glob("????????????????"))
