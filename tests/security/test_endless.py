"""Input that would make a command wait for ever, grow for ever, or end in a traceback gives a one-line error."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from psycopg.conninfo import conninfo_to_dict

from octavo.errors import OctavoError, UsageError
from octavo.factor import whole_number
from octavo.host.children import Finished
from octavo.host.safe_read import read_tail, read_text
from octavo.hugepages.postmaster_files import last_options, refuse_running
from octavo.imports import rows
from octavo.imports.map_file import read_map
from octavo.io.engine import measure
from octavo.io.job import Job
from octavo.lab.server_log import limited_log, read_log
from octavo.operations.pg_checksums import blocks_checked
from octavo.plan.presets import find_plan
from octavo.postgres.cluster import last_log_line
from octavo.postgres.datasets import control
from octavo.workloads.pooled import client

_SECONDS = 60.0


def in_time(work: Callable[[], object]) -> object:
    """The result or error of the work; a failure if it hangs, which no signal of pytest's own would end."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    assert found, "it waits"
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


@contextmanager
def _sleeping() -> Generator[subprocess.Popen[str], None, None]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_fifo_in_place_of_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "postmaster.pid")
    os.mkfifo(tmp_path / "postmaster.opts")
    with pytest.raises(UsageError, match="regular file"):
        in_time(lambda: refuse_running(tmp_path))
    assert in_time(lambda: last_options(tmp_path)) == []
    assert in_time(lambda: last_log_line(tmp_path / "postmaster.pid")) == "no output"
    with pytest.raises(OSError, match="regular file"):
        in_time(lambda: read_text(tmp_path / "postmaster.pid"))


def test_only_regular_files_of_a_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff1234")
    assert read_text(file) == "\ufffd1234"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_text(file, 4)
    (tmp_path / "link").symlink_to(file)
    for other in ("link", ".", "missing"):
        with pytest.raises(OSError, match=r".+"):
            read_text(tmp_path / other)


def test_a_suggested_dsn_is_one_word_for_the_shell(tmp_path: Path) -> None:
    """Whatever a file of the server's user contains: an administrator copies it into root's shell."""
    proc, data = tmp_path / "proc", tmp_path / "data"
    (proc / "7").mkdir(parents=True)
    data.mkdir()
    (proc / "7" / "stat").write_text(f"7 (postgres) S 1 {' '.join(['0'] * 48)}\n")
    (proc / "7" / "status").write_text("Uid:" + 4 * f"\t{os.geteuid()}" + "\n")
    (proc / "7" / "cwd").symlink_to(data)
    socket = "/run/a b'; reboot #"
    for port, expected in (("5433", {"port": "5433"}), ("1 user=x", {})):
        (data / "postmaster.pid").write_text(f"7\n{data}\n1\n{port}\n{socket}\n")
        with pytest.raises(UsageError) as caught:
            refuse_running(data, proc)
        (dsn,) = shlex.split(str(caught.value).partition("--dsn ")[2])
        assert conninfo_to_dict(dsn) == {"host": socket, "dbname": "postgres", **expected}


def test_a_postmaster_pid_that_does_not_end(tmp_path: Path) -> None:
    with (tmp_path / "postmaster.pid").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="has more than"):
        refuse_running(tmp_path)


def test_an_empty_postmaster_opts(tmp_path: Path) -> None:
    (tmp_path / "postmaster.opts").write_text("")
    assert last_options(tmp_path) == []


def test_of_a_large_log_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.truncate(1 << 40)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\nFATAL:  the last\nbye\n")
    assert last_log_line(log) == "FATAL:  the last"
    assert read_tail(log, 10) == "bye\n"


def test_of_a_large_log_errors_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("quiet\n" * 1000 + "x ERROR:  one\n" + "quiet\n" * 1000 + "x ERROR:  two\n")
    assert read_log(log, 5000) == "x ERROR:  one\nx ERROR:  two\n"
    assert read_log(log, 1 << 20) == log.read_text()


def test_a_log_that_would_fill_the_disk_ends_the_server(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("")
    with _sleeping() as child:
        with pytest.raises(OctavoError, match="log grew beyond"), limited_log(log, lambda: child, largest=1 << 20):
            os.truncate(log, 2 << 20)
            assert child.wait(_SECONDS) == -signal.SIGQUIT
            raise OctavoError("the server is gone")
        assert log.stat().st_size == 1 << 20


def test_a_log_of_a_size_leaves_the_server_alone(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("")
    with _sleeping() as child:
        with pytest.raises(OctavoError, match="of its own"), limited_log(log, lambda: child):
            raise OctavoError("a problem of its own")
        with limited_log(log, lambda: child):
            pass
        assert child.poll() is None


_BAD_TOML = {
    "nested": b"a = " + b"[" * 10_000 + b"]" * 10_000,
    "nested tables": b"a = " + b"{b = " * 5_000 + b"1" + b"}" * 5_000,
    "nested keys": b".".join([b"a"] * 5_000) + b" = 1",
    "a long number": b"a = " + b"9" * 5_000,
    "a date": b"a = 2023-02-30T00:00:00",
    "no UTF-8": b'a = "\xff"',
    "a NUL": b'a = "\0"',
    "nothing": b"",
    "cut": b'a = "',
}


@pytest.mark.parametrize("what", _BAD_TOML)
def test_toml_that_nobody_can_read_is_a_line(what: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_bytes(_BAD_TOML[what])
    for read in (lambda: find_plan(str(file)), lambda: read_map(file)):
        with pytest.raises(UsageError) as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("depth", [50, 100, 200, 300, 500, 1_000])
def test_no_depth_is_a_traceback(depth: int, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    for text in ("[" * depth + "]" * depth, "{b=" * depth + "1" + "}" * depth):
        file.write_text(f"name = {text}\nfactors = {text}\nmetrics = {text}\n")
        for read in (lambda: find_plan(str(file)), lambda: read_map(file)):
            with pytest.raises(UsageError):
                read()


def test_what_is_no_file_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "directory.toml").mkdir()
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "circle.toml").symlink_to("circle.toml")
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("directory", "fifo", "circle", "large", "missing", "a\0b"):
        path = str(tmp_path / f"{name}.toml")
        for read in (partial(find_plan, path), partial(read_map, Path(path))):
            with pytest.raises(UsageError) as caught:
                in_time(read)
            assert "\n" not in str(caught.value)


def test_a_distance_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    job = Job((str(tmp_path / "file"),), 4096, "random", method="advised", distance=99_999_999_999, seconds=0.1)
    with pytest.raises(UsageError, match="distance must be from 0 to 1048576, not 99999999999"):
        in_time(lambda: measure(job, lambda _phase, _done, _total: True))


@pytest.mark.parametrize(
    "text",
    ["size = {a = 1}\n[sizes.quick]\n", f"factors.{'a.' * 5_000}b = 1", "[factors]\n" + "settings." * 90 + "a = 1"],
    ids=["a size that is a table", "a key of many parts", "settings in settings"],
)
def test_a_plan_of_no_plans_form_is_a_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(f'name = "a"\nworkload = "pgbench"\n{text}')
    with pytest.raises(UsageError) as caught:
        in_time(lambda: find_plan(str(file)))
    assert "\n" not in str(caught.value)


def test_numbers_of_thousands_of_digits_are_refused() -> None:
    long = "0" * 6_000
    with pytest.raises(UsageError, match="whole numbers from"):
        whole_number(0, 200)(long)
    with pytest.raises(ValueError, match="not a whole number"):
        rows.whole(0, 200)(long)
    told = f"Database cluster state: shut down\nLatest checkpoint location: 0/1\nLatest checkpoint's NextXID: 0:{long}"
    with pytest.raises(OctavoError, match="cannot read") as refused:
        control.parse(told)
    assert len(str(refused.value)) < 200
    with pytest.raises(OctavoError, match="sysbench measured nothing"):
        client.parse(f"transactions: {'8' * 400}\ntotal time: 1.0s\navg: 1.0\n", "", 0, 1.0, 1.0)


def test_a_number_of_a_builds_program_has_a_length() -> None:
    place = MagicMock()
    for digits, message in (("12", ""), ("9" * 5000, "did not say how many blocks")):
        place.run.return_value = Finished(0, f"Blocks scanned:  {digits}\n", "", 0.0)
        if message:
            with pytest.raises(OctavoError, match=message):
                blocks_checked(place, Path("/data"))
        else:
            assert blocks_checked(place, Path("/data")) == 12
