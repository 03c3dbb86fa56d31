"""kill -9 at random moments of one run: trials that were reported finished are in the store, complete and once."""

import json
import os
import random
import re
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT, Octavo
from tests.thorough import times

pytestmark = pytest.mark.measures

_KILLS = times(50, 6)
# The moments are drawn from the time to the first trial (start, recovery and the trial), and half as much again.
_BEYOND_THE_FIRST_TRIAL = 1.5
# One of this many kills is right after a reported trial, whose time is then the measure: the machine's speed changes.
_MEASURED_EVERY = 4
_REPORTED = re.compile(r"^round (\d+), trial \d+ of \d+: (.+?): tps ")


def killed_after(seconds: float, *arguments: str | Path) -> list[tuple[int, str]]:
    """Runs octavo and kills it after this time, unless it has ended. Returns the trials it reported: round and cell."""
    run = subprocess.Popen(
        [ROOT / "octavo", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    killer = threading.Timer(seconds, run.kill)
    killer.start()
    assert run.stderr is not None
    with run.stderr:
        lines = run.stderr.read().splitlines()
    run.wait()
    killer.cancel()
    killer.join()
    assert not any("Traceback" in line for line in lines), lines
    return [(int(found[1]), found[2]) for line in lines if (found := _REPORTED.match(line))]


def until_a_trial(*arguments: str | Path) -> tuple[float, list[tuple[int, str]]]:
    """The seconds until octavo reports its first trial, and that trial; octavo is then killed."""
    began = time.monotonic()
    run = subprocess.Popen(
        [ROOT / "octavo", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert run.stderr is not None
    with run.stderr:
        first = next(found for line in run.stderr if (found := _REPORTED.match(line)))
        seconds = time.monotonic() - began
        run.kill()
        rest = [found for line in run.stderr if (found := _REPORTED.match(line))]
    run.wait()
    return seconds, [(int(found[1]), found[2]) for found in (first, *rest)]


def test_what_was_reported_finished_is_in_the_store(octavo: Octavo, home: Path, plan_file: Path) -> None:
    """About a minute: a killed run is recovered, and measures again, some seconds each time."""
    plan_file.write_text(plan_file.read_text().replace("rounds = 2", 'rounds = 1000\n        stopping = "fixed"'))
    moment = random.Random(6)
    seconds, reported = until_a_trial("run", plan_file, "--seed", "5")  # including missing builds and loads
    run = json.loads(octavo("runs", "--format", "json").stdout)[0]["id"]
    stored: list[tuple[int, str, str]] = []
    for number in range(_KILLS - 1):
        if number % _MEASURED_EVERY == 0:
            seconds, more = until_a_trial("run", "--resume", run)
        else:
            more = killed_after(moment.uniform(0.0, _BEYOND_THE_FIRST_TRIAL * seconds), "run", "--resume", run)
        reported += more
        with sqlite3.connect(home / "octavo.sqlite") as store:
            stored = store.execute("SELECT round, cell, status FROM trial WHERE run = ? ORDER BY id", (run,)).fetchall()
        store.close()
        assert {(number, cell) for number, cell, status in stored if status == "ok"} >= set(reported)
    assert len(reported) >= _KILLS / _MEASURED_EVERY
    with sqlite3.connect(home / "octavo.sqlite") as store:
        parts = store.execute(
            "SELECT count(o.number) = max(o.number) + 1, sum(o.metric = 'tps'), sum(o.metric = 'wal_bytes'), "
            "(SELECT count(*) = max(number) + 1 FROM series WHERE trial = t.id) "
            "FROM trial t LEFT JOIN observation o ON o.trial = t.id "
            "WHERE t.run = ? AND t.status = 'ok' GROUP BY t.id",
            (run,),
        ).fetchall()
    store.close()
    assert set(parts) == {(1, 1, 1, 1)}, "a trial was stored in part"
    finished = [(number, cell) for number, cell, status in stored if status == "ok"]
    assert len(finished) == len(set(finished)), "a trial was repeated though it was stored"
    octavo("runs")  # cleans up after the last kill
    assert not list((home / "scratch").glob("*"))
    assert not list((home / "journal").glob("*"))
