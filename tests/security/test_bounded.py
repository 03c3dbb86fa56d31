"""What others write is read up to a bound: children's output, logs and files that never end, pipes that stay open."""

# pyright: reportPrivateUsage=false

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.security.test_endless import in_time

from octavo.check.crashes import crashes_in_log
from octavo.errors import HostError, OctavoError, UsageError
from octavo.host import child_output, children, trees
from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.sources.snapshot import opened_tree, version_of_tree
from octavo.workloads import pgbench_client, pgbench_log, pgbench_turns, restore


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    with Journal() as opened:
        yield opened


@pytest.fixture
def account() -> Account:
    try:
        return server_account()
    except HostError as error:
        pytest.skip(str(error))


def sparse(path: Path, size: int = 1 << 40) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_grandchild_that_keeps_the_pipe_is_not_waited_for(journal: Journal, account: Account) -> None:
    script = "sleep 600 & echo $!; echo of its own >&2"
    run = partial(children.run, ["sh", "-c", script], journal, role="test", account=account)
    seen: list[str] = []
    for on_line in (None, seen.append):
        finished = in_time(partial(run, on_line=on_line))
        assert isinstance(finished, children.Finished)
        words = finished.stdout.split()
        with suppress(ProcessLookupError):  # where there are no control groups
            os.kill(int(words[0]), signal.SIGKILL)
        assert (finished.stdout + finished.stderr).split() == [words[0], "of", "its", "own"]


def test_output_without_end_ends_the_child(journal: Journal, account: Account) -> None:
    with pytest.raises(OctavoError, match="test wrote more than 64 MB and was ended"):
        in_time(lambda: children.run(["yes"], journal, role="test", account=account))


def test_of_errors_the_beginning_and_the_end_are_kept(journal: Journal, account: Account) -> None:
    script = "{ echo first; head -c 100000000 /dev/zero; echo; echo last; } >&2; echo out"
    finished = children.run(["sh", "-c", script], journal, role="test", account=account)
    assert finished.stdout == "out\n"
    assert finished.stderr.startswith("first\n")
    assert finished.stderr.endswith("\nlast\n")
    assert len(finished.stderr) < 20_000_000


def test_lines_are_seen_whole_and_an_endless_one_in_parts(journal: Journal, account: Account) -> None:
    lines: list[str] = []
    script = "printf 'one\\r\\ntwo\\nthr'; sleep 0; echo ee; head -c 50000000 /dev/zero; printf end"
    finished = children.run(["sh", "-c", script], journal, role="test", account=account, on_line=lines.append)
    assert lines[:3] == ["one", "two", "three"]
    assert lines[-1].endswith("end")
    assert sum(map(len, lines)) == len("onetwothreeend") + 50_000_000
    assert max(map(len, lines)) < 4_000_000
    assert finished.stdout.startswith("one\ntwo\nthree\n")
    assert len(finished.stdout) < 20_000_000


def test_a_small_output_is_whole_whatever_its_bytes(journal: Journal) -> None:
    child, number = children.start(["printf", "a\\377\\r\\nb"], journal, role="test")
    assert child_output.read(child, "test") == ("a\ufffd\nb", "")
    children.ended(journal, number)


def test_a_text_is_read_up_to_a_size(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="more than 256 MB") as caught:
        in_time(lambda: trees.read_text(sparse(tmp_path / "log")))
    assert caught.value.errno == errno.EFBIG
    # No log that could not be read passes for one without a crash.
    assert "more than 256 MB" in crashes_in_log(tmp_path / "log", killing_is_tested=False)[0].what
    sparse(tmp_path / "configure.ac")
    with pytest.raises(UsageError, match="name no version"), opened_tree(tmp_path) as top:
        in_time(lambda: version_of_tree(tmp_path, top))


def test_a_log_of_pgbenchs_that_does_not_end_is_refused(tmp_path: Path) -> None:
    log = sparse(tmp_path / "log.1")
    for read in (pgbench_log.read, partial(pgbench_client.log_lines, most=1 << 30)):
        with pytest.raises(OctavoError, match="logs have more than"):
            in_time(lambda read=read: list(read([log])))
    descriptor = os.open(log, os.O_RDWR)
    try:
        with pytest.raises(OctavoError, match="holds more than pgbench writes"):
            in_time(lambda: list(pgbench_turns._Log(descriptor).lines()))
    finally:
        os.close(descriptor)


def test_a_log_is_cut_off_where_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"1 2\n3 4\n5")
    descriptor = os.open(tmp_path / "log", os.O_RDWR)
    log = pgbench_turns._Log(descriptor)
    try:
        assert list(log.lines()) == ["1 2", "3 4"]
        assert (tmp_path / "log").stat().st_size == 0
        os.pwrite(descriptor, b" 6\n", 9)
        assert list(log.lines()) == ["5 6"]
    finally:
        os.close(descriptor)


def test_a_server_that_does_not_shut_down_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose postmaster.pid was replaced by a FIFO, which it reads when it ends."""
    monkeypatch.setattr(cluster, "_SHUT_DOWN_SECONDS", 0.2)
    log = tmp_path / "server.log"
    log.write_text("")
    with subprocess.Popen(["sh", "-c", "trap '' INT; echo ready; read line"], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        server = cluster.Server(MagicMock(), tmp_path, log, tmp_path, Account("", 0, 0), MagicMock(), child, [])
        with pytest.raises(OctavoError, match="did not shut down within"):
            in_time(server.shut_down)
        child.kill()


def test_an_archives_head_is_no_longer_than_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text(f"-- Dumped from database version {'9' * 5_000}\n")
    server = MagicMock()
    server.build.manifest = {"version": "18.6"}
    for path in (tmp_path / "dump", sparse(tmp_path / "long")):
        assert in_time(lambda path=path: [restore._version_in(restore._head(path))]) == [None]
