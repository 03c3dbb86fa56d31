"""The demo's preset, shortened to seconds per trial, and all commands that show it again."""

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import ROOT, Octavo
from tests.preset_plans import tolerant_plan
from tests.tools import BROWSERS, found, needs

from octavo.postgres.builds.cache import Build

pytestmark = pytest.mark.measures

_BROWSER = found(*BROWSERS)


@pytest.fixture(scope="module")
def demo(home: Path, builds: dict[str, Build]) -> subprocess.CompletedProcess[str]:
    """The preset, with shorter trials that are also valid on a busy machine, and a fixed number of rounds."""
    del builds  # made before
    plan = home / "demo.toml"
    preset = tolerant_plan("oltp-blocks-demo", loads=2)
    plan.write_text(preset.replace("control = true", 'stopping = "fixed"\ncontrol = true', 1))
    arguments = [
        "--set",
        "duration=1s",
        "--set",
        "scale=1",
        "--set",
        "recycled_wal=64MB",
        "--set",
        "device=native",
        "--set",
        "memory=none",
        "--rounds",
        "3",
        "--seed",
        "11",
    ]
    return subprocess.run(
        [ROOT / "octavo", "run", plan, *arguments],
        capture_output=True, text=True, check=False, cwd="/", env=dict(os.environ), timeout=900,
    )  # fmt: skip


@pytest.fixture(scope="module")
def document(demo: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    finished = subprocess.run(
        [ROOT / "octavo", "report", "last", "--format", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(finished.stdout)


def test_it_ends_with_a_verdict_for_each_mode_and_a_page(
    demo: subprocess.CompletedProcess[str], document: dict[str, Any]
) -> None:
    assert demo.returncode == 0, demo.stderr
    words = " ".join(demo.stdout.split())
    assert len(document["verdicts"]) == 2
    for verdict in document["verdicts"]:
        assert verdict["sentence"] in words
        assert "conditional on these 2 loads" in verdict["sentence"]
    assert Path(demo.stdout.split("report: ")[1].strip()).stat().st_size > 10_000


def test_progress_is_shown_all_the_time(demo: subprocess.CompletedProcess[str]) -> None:
    trials = re.findall(r"^round (\d), trial (\d) of 6: data_block=\dkB mode=.*: tps [\d,]+", demo.stderr, re.MULTILINE)
    assert [tuple(map(int, trial)) for trial in trials] == [(r, number) for r in (1, 2, 3) for number in range(1, 7)]
    assert "ratio so far" in demo.stderr
    assert "preparing build" not in demo.stderr  # they are in the cache


def test_the_json_keeps_its_contract(document: dict[str, Any]) -> None:
    assert {
        "schema_version", "run", "cells", "trials", "effects", "noise_floor", "environment",
    } <= set(document)  # fmt: skip
    assert len(document["trials"]) == 18
    for trial in document["trials"]:
        assert {"id", "round", "load", "status", "reason", "levels", "observations"} <= set(trial)
        assert trial["levels"]["data_block"] in ("4kB", "8kB")
        for observation in trial["observations"]:
            assert set(observation) == {"item", "repetition", "metric", "value", "unit"}
        metrics = {observation["metric"] for observation in trial["observations"]}
        assert {"tps", "latency_avg_ms", "wal_bytes_per_transaction"} <= metrics
    for effect in document["effects"]:
        assert {"cell", "metric", "item", "ratio", "low", "high", "verdict"} <= set(effect)
    for number in (1, 2, 3):
        cells = [trial["cell"] for trial in document["trials"] if trial["round"] == number]
        assert sorted(cells) == sorted(cell["id"] for cell in document["cells"])


def test_the_control_has_loads_of_its_own(document: dict[str, Any]) -> None:
    control = {cell["id"] for cell in document["cells"] if cell["control"]}
    baseline = {cell["id"] for cell in document["cells"] if cell["baseline"]}
    loads = {
        name: {trial["load"] for trial in document["trials"] if trial["cell"] in cells}
        for name, cells in (("control", control), ("baseline", baseline))
    }
    assert loads == {"control": {3, 4}, "baseline": {1, 2}}


def test_the_ratio_is_the_mean_of_rounds_ratios(document: dict[str, Any]) -> None:
    """Computed from the raw trials, by other code than Octavo's."""
    tps = {
        (trial["cell"], trial["round"]): observation["value"]
        for trial in document["trials"]
        for observation in trial["observations"]
        if observation["metric"] == "tps"
    }
    for mode in ("read-only", "read-write"):
        (effect,) = (
            effect
            for effect in document["effects"]
            if effect["metric"] == "tps" and effect["cell"] == f"data_block=4kB mode={mode}"
        )
        ratio = {
            number: tps[f"data_block=4kB mode={mode}", number] / tps[f"data_block=8kB mode={mode}", number]
            for number in (1, 2, 3)
        }
        expected = ((ratio[1] * ratio[3]) ** 0.5 * ratio[2]) ** 0.5  # rounds 1 and 3 are load 1, round 2 is load 2
        assert effect["ratio"] == pytest.approx(expected)


def test_every_format_shows_it_again(octavo: Octavo, document: dict[str, Any], tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(octavo("report", "last", "--format", "csv").stdout)))
    assert len(rows) == sum(len(trial["observations"]) for trial in document["trials"])
    assert document["verdicts"][0]["sentence"] in " ".join(octavo("report", "--format", "md").stdout.split())
    finished = octavo("report", document["run"]["id"], "--html", tmp_path / "report.html")
    assert finished.stdout.strip() == str(tmp_path / "report.html")
    text = octavo("report", "last", NO_COLOR="1", COLUMNS="80").stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_runs_lists_it(octavo: Octavo, document: dict[str, Any]) -> None:
    listed = json.loads(octavo("runs", "--format", "json").stdout)
    assert listed[0]["id"] == document["run"]["id"]
    assert listed[0]["name"] == "oltp-blocks-demo"
    assert listed[0]["status"] == "finished"
    assert document["run"]["id"] in octavo("runs").stdout


def complaints(page: Path, tmp_path: Path) -> list[str]:
    """The messages in the browser's console when the page is opened without a network."""
    assert _BROWSER is not None
    offline = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    finished = subprocess.run(
        [
            *offline, _BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,3000", "--enable-logging=stderr",
            f"--screenshot={tmp_path / 'page.png'}", page.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (tmp_path / "page.png").stat().st_size > 1000, finished.stderr
    lines = [line for line in finished.stderr.splitlines() if "CONSOLE" in line]
    return [line for line in lines if "source: chrome://" not in line]  # the browser's own pages complain too


@needs(*BROWSERS)
def test_the_page_opens_without_a_network_and_without_complaint(
    demo: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    assert complaints(Path(demo.stdout.split("report: ")[1].strip()), tmp_path) == []
    # The same check of a page that does complain.
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><script>missing()</script><img src='https://example.invalid/x.png'>")
    assert any("missing is not defined" in line for line in complaints(bad, tmp_path))
