"""Tests of builds in a scratch directory: whose fault an error is, and what it says."""

# pyright: reportPrivateUsage=false

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from octavo.cli import build as command
from octavo.cli.build_extension import with_extension
from octavo.errors import HostError, OctavoError
from octavo.host import children, trees
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.scratch import build_test, scratch_directory

BUILD = Build("18.6-b4w8", Path("/nowhere"), {})
FULL = "initdb failed (exit 1): FATAL:  could not write to file: No space left on device"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OctavoError("it did not start; its log is /x.log"), OctavoError, "18.6-b4w8 fails its test: it did not start"),
        (psycopg.errors.DataCorrupted("invalid page\nCONTEXT"), OctavoError, "18.6-b4w8 fails its test: invalid page"),
        (HostError("octavo cannot enter /root"), HostError, "octavo cannot enter /root"),
        (OctavoError(FULL), HostError, "has no room left .*; free some space there"),
        (psycopg.errors.DiskFull("could not extend file: No space left on device"), HostError, "has no room left"),
    ],
)
def test_an_error_is_the_builds_unless_this_host_is_its_cause(
    error: Exception, kind: type[Exception], text: str, journal: Journal
) -> None:
    with pytest.raises(OctavoError, match=text) as raised, build_test(BUILD, "test", journal) as work:
        raise error
    assert type(raised.value) is kind
    assert "its log is" not in str(raised.value) and "\n" not in str(raised.value)
    assert not work.exists()


@pytest.mark.parametrize(
    "error",
    [psycopg.errors.DiskFull("No space left on device\nHINT:  Check."), OctavoError(f"{FULL}; its log is /x.log")],
)
def test_a_full_disk_is_one_line_without_a_log_that_is_removed(error: Exception, journal: Journal) -> None:
    full = r"has no room left \(.*No space left on device"
    with pytest.raises(HostError, match=full) as raised, scratch_directory(journal):
        raise error
    assert "\n" not in str(raised.value) and "/x.log" not in str(raised.value)


def test_a_full_disk_is_read_in_the_servers_log(journal: Journal) -> None:
    """pgbench ends with a hint, and by then the server has freed what it had written."""
    with pytest.raises(HostError, match="has no room left"), build_test(BUILD, "test", journal) as work:
        (work / "server.log").write_text("ERROR:  could not extend file: No space left on device\n")
        raise OctavoError("pgbench failed (exit 1): HINT:  Check free disk space.")


def test_initdb_is_quoted_with_its_error_and_not_with_what_it_removes(
    journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = f"{FULL}\nchild process exited with exit code 1\ninitdb: removing contents of data directory\n"
    monkeypatch.setattr(children, "run", Mock(return_value=Finished(1, "", errors, 0.0)))
    with pytest.raises(OctavoError, match=r"initdb failed \(exit 1\): .*No space left on device$"):
        cluster.run_initdb(["initdb"], journal, account)


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "enters"),
    [(0o711, 0, 0, True), (0o710, 0, 0, False), (0o710, 0, 7, True), (0o701, 0, 7, False), (0o610, 7, 7, False)],
)
def test_a_directory_is_entered_by_the_class_of_bits_that_counts(
    mode: int, uid: int, gid: int, enters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", Mock(return_value=0))
    monkeypatch.setattr(Path, "stat", Mock(return_value=Mock(st_mode=mode, st_uid=uid, st_gid=gid)))
    with nullcontext() if enters else pytest.raises(HostError, match="the user octavo cannot enter /"):
        cluster.check_reachable(Path("/srv/octavo"), Account("octavo", 7, 7))


def test_a_directory_of_sockets_is_noted_before_it_is_made(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise it would stay when the command is killed between the two."""
    journal, make = Mock(), Mock(side_effect=KeyboardInterrupt)
    journal.token = "0123456789"
    monkeypatch.setattr(trees, "make_for", make)
    with pytest.raises(KeyboardInterrupt):
        cluster.start(BUILD, tmp_path, {}, journal, account, log=tmp_path / "log")
    journal.record.assert_called_once_with("directory", path=str(make.call_args.args[0]))


def test_a_host_that_cannot_test_is_no_failure_of_the_build(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for test in ("crash_test.crash_test", "extension.build_extension"):
        monkeypatch.setattr(f"octavo.postgres.{test}", Mock(side_effect=HostError("no room")))
    with pytest.raises(HostError, match="no room"):
        command._crash_test([BUILD], journal)
    with pytest.raises(HostError, match="no room"):
        with_extension([BUILD], Path("/x"), journal)


def test_every_build_is_tested_also_after_one_that_fails(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("octavo.postgres.smoke.smoke_test", Mock(side_effect=[OctavoError("it fails"), None]))
    assert command._smoke_test([BUILD, BUILD], journal) == 1
    assert capsys.readouterr().err.splitlines() == [
        "octavo: it fails", "18.6-b4w8: initdb, start, pgbench and pg_checksums work"
    ]  # fmt: skip
