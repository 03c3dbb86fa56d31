"""What others write is read up to a limit: children's output, logs and files that never end, pipes that stay open."""

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
from octavo.host import careful_open, child_output, children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster, extension
from octavo.postgres.sources.snapshot import opened_tree, version_of_tree
from octavo.trace.record import probes
from octavo.workload_support import pgbench_client, pgbench_log, pgbench_turns, restore
from octavo.workloads.oom import recovery


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
        with suppress(ProcessLookupError):  # if there are no control groups
            os.kill(int(words[0]), signal.SIGKILL)
        assert (finished.stdout + finished.stderr).split() == [words[0], "of", "its", "own"]


def test_output_without_end_ends_the_child(journal: Journal, account: Account) -> None:
    """Also if each line is processed as it comes: PostgreSQL's own tests keep all of them."""
    run = partial(children.run, ["yes", "x" * 1000], journal, role="test", account=account)

    def see(line: str) -> None:
        """Keeps nothing."""

    for on_line in (None, see):
        with pytest.raises(OctavoError, match="test wrote more than 64 MB and was killed"):
            in_time(partial(run, on_line=on_line))


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
        in_time(lambda: careful_open.read_text(sparse(tmp_path / "log")))
    assert caught.value.errno == errno.EFBIG
    # A log that could not be read does not count as one without a crash.
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
        with pytest.raises(OctavoError, match="lines that are not pgbench's"):
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
    """For example one whose postmaster.pid was replaced by a FIFO, which it reads when it ends."""
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


def test_a_log_that_grows_while_it_is_read_ends_where_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "log.1"
    log.write_text("0 1 2 3 4 5\n" * 10_000)
    seen = 0
    with log.open("a") as writer:
        for _ in pgbench_client.log_lines([log], 1 << 20):
            seen += 1
            writer.write("0 1 2 3 4 5\n" * 2)
            writer.flush()
            assert seen <= 10_000, "it goes on for as long as somebody writes"
    assert seen == 10_000


def test_a_servers_log_is_read_in_parts_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_LOG_SECONDS", 0.2)
    server = MagicMock(log=sparse(tmp_path / "log", 8 << 20))
    seen = 0
    with server.log.open("a") as writer:
        for line in recovery.log_lines(server, 0):
            seen += len(line)
            assert len(line) <= 65536
            writer.write("x" * len(line))
            writer.flush()
            assert seen <= 80 << 20, "it goes on for as long as somebody writes"
    assert seen >= 8 << 20


def test_a_line_of_sql_without_end_is_read_in_parts(tmp_path: Path, journal: Journal) -> None:
    dump = tmp_path / "dump.sql"
    with sparse(dump, 64 << 20).open("r+b") as file:
        file.write(b"GRANT SELECT ON t TO app;\n--" + b"-" * 600)
    longest = 0
    server = MagicMock(journal=journal, account=Account("ourselves", os.geteuid(), os.getegid()))
    server.build.manifest = {"version": "18.6"}
    server.run_client.return_value.returncode = 0

    def make(_: object, lines: Iterator[str]) -> None:
        nonlocal longest
        longest = max(map(len, lines))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "_make_roles", make)
        restore.restore(server, dump)
    assert 0 < longest <= restore._LONGEST_STATEMENT


def test_a_servers_program_is_searched_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PIECE", 64)
    monkeypatch.setattr(probes, "_MOST_PIECES", 100)
    program = tmp_path / "7" / "postgres"
    program.parent.mkdir()
    (program.parent / "exe").symlink_to(program)
    for before in range(40, 70):  # also across the boundaries of reads
        program.write_bytes(bytes(before) + b"buffer__read__done" + bytes(9))
        with probes.executable(7, tmp_path) as path:
            assert path.samefile(program)
    sparse(program)
    with pytest.raises(HostError, match="has no probes"):
        in_time(probes.executable(7, tmp_path).__enter__)


def test_of_a_control_file_the_beginning_is_read(tmp_path: Path) -> None:
    control = sparse(tmp_path / "x.control")
    with control.open("r+b") as file:
        file.write(b"default_version = '1.2'\n")
    assert in_time(lambda: [extension._version(control)]) == ["1.2"]
    with pytest.raises(UsageError, match="its Makefile cannot be read"):
        in_time(partial(extension.check_source, sparse(tmp_path / "Makefile").parent))
