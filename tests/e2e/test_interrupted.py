"""Ctrl-C and kill -9 in the middle of a trial: finished trials kept, nothing left behind, resumed in the same order."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import ROOT, Octavo

from octavo.host import process

pytestmark = pytest.mark.measures

_DEADLINE_SECONDS = 300


def journal_entries(home: Path) -> list[dict[str, Any]]:
    """The open entries in the journals of all Octavo processes."""
    entries: dict[tuple[str, int], dict[str, Any]] = {}
    for path in (home / "journal").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            entry: dict[str, Any] = json.loads(line) if line.endswith("}") else {"kind": "done", "number": 0}
            if entry["kind"] == "done":
                entries.pop((path.name, entry["number"]), None)
            elif entry["kind"] != "owner":
                entries[path.name, entry["number"]] = entry
    return list(entries.values())


def stopped_in_trial(home: Path, number: int, *arguments: str | Path) -> tuple[subprocess.Popen[str], int]:
    """A run whose trial of this number is being measured, and the pid of its server. It is stopped (SIGSTOP), so that
    the trial does not end before the test acts on it."""
    run = subprocess.Popen(
        [ROOT / "octavo", "run", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert run.stderr is not None
    next(line for line in run.stderr if line.startswith("round "))  # it is the newest run by now
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        # In this order: once all earlier trials are stored, the existing server is that of this trial.
        if stored_trials(home) == number - 1:
            roles = {entry["role"]: entry["pid"] for entry in journal_entries(home) if entry["kind"] == "process"}
            if "server" in roles and "pgbench" in roles:
                run.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, run.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                assert "pgbench" in {entry.get("role") for entry in journal_entries(home)}
                return run, roles["server"]
        assert run.poll() is None
        time.sleep(0.01)
    raise AssertionError(f"trial {number} did not begin")


def stored_trials(home: Path) -> int:
    """The number of stored trials of the newest run."""
    query = "SELECT count(*) FROM trial WHERE run = (SELECT id FROM run ORDER BY started DESC LIMIT 1)"
    with closing(sqlite3.connect(home / "octavo.sqlite")) as store:
        return store.execute(query).fetchone()[0]


def trials(octavo: Octavo, run: str) -> list[dict[str, Any]]:
    return json.loads(octavo("report", run, "--format", "json").stdout)["trials"]


def planned_order(octavo: Octavo, plan: Path) -> list[str]:
    text = octavo("run", plan, "--seed", "5", "--dry-run").stdout
    return re.findall(r"^    (\S.*)$", text, re.MULTILINE)


def test_a_stopped_run_keeps_its_trials_and_goes_on(octavo: Octavo, home: Path, plan_file: Path) -> None:
    """More than a minute: one run of two rounds is killed in a trial, interrupted in the same trial after being
    resumed, asked to end in its last one, and finished."""
    run, server = stopped_in_trial(home, 3, plan_file, "--seed", "5")
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert run.stderr is not None
    run.stderr.close()
    assert process.identify(server) is not None  # the orphaned server
    identifier, kept = left_by_a_stopped_run(octavo, home, server)
    assert len(kept) == 2

    for how, number in ((signal.SIGINT, 3), (signal.SIGTERM, 6)):
        run, server = stopped_in_trial(home, number, "--resume", identifier)
        run.send_signal(how)
        run.send_signal(signal.SIGCONT)
        while run.poll() is None:  # an impatient user: one signal is enough
            run.send_signal(how)
        assert run.stderr is not None
        with run.stderr:
            said = run.stderr.read()
        assert run.returncode == 130
        assert "Traceback" not in said
        assert "--resume" in said
        assert process.identify(server) is None
        before = kept
        same, kept = left_by_a_stopped_run(octavo, home, server)
        assert same == identifier
        assert kept[: len(before)] == before
        assert len(kept) == number - 1

    resumed = octavo("run", "--resume", identifier)
    assert resumed.returncode == 0, resumed.stderr
    finished = trials(octavo, identifier)
    assert finished[:5] == kept
    assert [trial["cell"] for trial in finished] == planned_order(octavo, plan_file)
    assert len({trial["id"] for trial in finished}) == 6
    again = octavo("run", "--resume", identifier)
    assert again.returncode == 2
    assert "is finished" in again.stderr


def left_by_a_stopped_run(octavo: Octavo, home: Path, server: int) -> tuple[str, list[dict[str, Any]]]:
    """The name of the run, which the next command shows as interrupted, with nothing left of it except its trials."""
    listed = json.loads(octavo("runs", "--format", "json").stdout)
    assert listed[0]["status"] == "interrupted"
    assert process.identify(server) is None
    assert journal_entries(home) == []
    assert not list((home / "scratch").glob("*"))
    identifier = str(listed[0]["id"])
    kept = trials(octavo, identifier)
    assert {trial["status"] for trial in kept} == {"ok"}
    return identifier, kept


def test_a_run_that_postgresql_refuses_says_why_in_its_report(octavo: Octavo, plan_file: Path) -> None:
    refused = octavo("run", plan_file, "--set", "settings.no_such_setting=1")
    assert refused.returncode != 0
    assert "no_such_setting" in refused.stderr and "Traceback" not in refused.stderr
    (run,) = json.loads(octavo("runs", "--format", "json").stdout)[:1]
    assert run["status"] == "failed"
    told = octavo("report", run["id"]).stdout
    assert "It failed with: " in told and "no_such_setting" in told
    again = octavo("run", "--resume", run["id"])
    assert again.returncode != 0
    assert "no_such_setting" in again.stderr and "Traceback" not in again.stderr


def test_two_runs_do_not_measure_at_once_and_a_server_that_dies_costs_its_trial_only(
    octavo: Octavo, home: Path, plan_file: Path
) -> None:
    run, server = stopped_in_trial(home, 3, plan_file, "--seed", "5")
    second = octavo("run", plan_file)
    assert second.returncode == 3
    assert len(second.stderr.splitlines()) == 1
    assert f"pid {run.pid}" in second.stderr

    identity = process.identify(server)
    assert identity is not None
    process.end(identity, signal.SIGKILL)
    run.send_signal(signal.SIGCONT)
    assert run.stderr is not None
    with run.stderr:
        run.stderr.read()
    assert run.wait() in (0, 4)  # invalid, or failed if pgbench had measured nothing
    (last,) = json.loads(octavo("runs", "--format", "json").stdout)[:1]
    statuses = [trial["status"] for trial in trials(octavo, last["id"])]
    assert statuses[:2] == ["ok", "ok"]
    assert statuses[2] in ("invalid", "failed")
    assert set(statuses[3:]) == {"ok"}
    assert last["status"] == "finished"


_INTERRUPTED_BEFORE_IT_BEGINS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
os.kill(os.getpid(), signal.SIGINT)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_an_interrupt_while_python_starts_is_a_line_and_an_exit_code(home: Path) -> None:
    """The launcher defers it (the test below); it arrives when it can be handled."""
    command = [sys.executable, "-c", _INTERRUPTED_BEFORE_IT_BEGINS, sys.executable, "-I", "-m", "octavo", "runs"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "octavo: interrupted\n")


def test_the_launcher_holds_interrupts_back(tmp_path: Path) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!{sys.executable}\nimport signal\nprint(*signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n")
    python.chmod(0o755)
    (tmp_path / "octavo").write_bytes((ROOT / "octavo").read_bytes())
    blocked = subprocess.run(["sh", tmp_path / "octavo"], capture_output=True, text=True, check=True).stdout
    assert str(int(signal.SIGINT)) in blocked.split()
