"""`octavo watch` on a scratch server, as a user runs it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT, Octavo

from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.scratch import scratch_server

_SECONDS = 300.0


@pytest.fixture(scope="module")
def dsn(home: Path) -> Iterator[str]:
    """A server with 4 kB data blocks and 16 kB WAL blocks."""
    with Journal() as journal:
        build = ensure_build(BuildSpec("18", "4kB", "16kB"), journal)
        with scratch_server(build, journal, server_account(), {"shared_buffers": "16MB"}) as server:
            yield f"host={server.socket_directory} user=octavo dbname=postgres"


def test_once_for_people(octavo: Octavo, dsn: str) -> None:
    for columns in ("80", "200"):
        finished = octavo("watch", "--dsn", dsn, "--once", "--interval", "200ms", COLUMNS=columns)
        assert finished.returncode == 0, finished.stderr
        shown = " ".join(finished.stdout.split())
        for words in ("data block 4kB", "WAL block 16kB", "checkpointer", "page tables", "written per generated"):
            assert words in shown
        assert all(len(line) <= int(columns) for line in finished.stdout.splitlines())


def test_once_for_programs(octavo: Octavo, dsn: str) -> None:
    finished = octavo("watch", "--dsn", dsn, "--once", "--interval", "200ms", "--format", "json")
    content = json.loads(finished.stdout)
    figures = {(one["metric"], one["item"]): one["value"] for one in content["figures"]}
    assert content["server"]["data_block"] == 4096
    assert content["server"]["wal_block"] == 16384
    assert figures["processes", "checkpointer"] == 1
    assert figures["process_page_table_bytes", None] > 0
    assert {one["metric"] for one in content["figures"]} > {"wal_bytes_per_second", "memory_available_bytes"}
    assert all("password" not in key for key in content["server"])


def test_libpqs_variables_say_where(octavo: Octavo, dsn: str) -> None:
    host = re.findall(r"host=(\S+)", dsn)[0]
    finished = octavo(
        "watch", "--once", "--interval", "200ms", "--format", "json",
        PGHOST=host, PGUSER="octavo", PGDATABASE="postgres",
    )  # fmt: skip
    assert json.loads(finished.stdout)["server"]["database"] == "postgres"


def test_lines_of_json_until_it_is_interrupted(dsn: str) -> None:
    watching = subprocess.Popen(
        [ROOT / "octavo", "watch", "--dsn", dsn, "--format", "json", "--interval", "200ms"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert watching.stdout is not None
    looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
    watching.send_signal(signal.SIGINT)
    _, complaint = watching.communicate(timeout=_SECONDS)
    assert (watching.returncode, complaint) == (0, "")
    assert looks[0]["time"] < looks[1]["time"] < looks[2]["time"]


def test_the_live_view_gives_the_terminal_back(dsn: str) -> None:
    """On a terminal: the alternate screen while it runs, the last view on the normal screen after Ctrl-C."""
    controller, terminal = pty.openpty()
    watching = subprocess.Popen(
        [ROOT / "octavo", "watch", "--dsn", dsn, "--interval", "200ms"],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "60"},
    )  # fmt: skip
    os.close(terminal)
    seen = _until(controller, "checkpointer")
    assert "\x1b[?1049h" in seen
    watching.send_signal(signal.SIGINT)
    seen = _until(controller, "\x1b[?1049l", "checkpointer")
    assert watching.wait(_SECONDS) == 0
    os.close(controller)


def _until(controller: int, *words: str) -> str:
    """The terminal's output, until these words have appeared in order."""
    seen = ""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if select.select([controller], [], [], 0.2)[0]:
            try:
                seen += os.read(controller, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        rest = seen
        for word in words:
            _, found, rest = rest.partition(word)
            if not found:
                break
        else:
            return seen
    raise AssertionError(f"{words} did not come: {seen[-2000:]}")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dsn", "host=/nowhere user=me password=hunter2", "--once"], 3, ["/nowhere", "--dsn"]),
        (["--dsn", "postgres//me:hunter2@h/d"], 2, ["--dsn", "postgresql://"]),
        (["--interval", "1ms"], 2, ["--interval", "100ms"]),
        (["--interval", "soon"], 2, ["'soon'"]),
    ],
)
def test_mistakes_are_one_line(octavo: Octavo, arguments: list[str], code: int, words: list[str]) -> None:
    finished = octavo("watch", *arguments)
    assert finished.returncode == code
    assert len(finished.stderr.splitlines()) == 1
    assert all(word in finished.stderr for word in words), finished.stderr
    assert "hunter2" not in finished.stderr + finished.stdout
