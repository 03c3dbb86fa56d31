"""A user's first minute: help, listings, and mistakes reported in one line."""

import json
import re
from pathlib import Path

import pytest
from tests.e2e.conftest import Octavo

from octavo.postgres.limits import DATA_BLOCKS

_VERBS = (
    ["run"],
    ["runs"],
    ["report"],
    ["presets"],
    ["presets", "show"],
    ["build"],
    ["build", "ls"],
    ["build", "rm"],
    ["cache", "ls"],
    ["cache", "limit"],
    ["host"],
    ["hugepages", "plan"],
    ["io"],
    ["watch"],
    ["compare"],
    ["import", "vondra-tpch"],
    ["shell"],
)


@pytest.mark.parametrize("verb", _VERBS, ids=" ".join)
def test_every_verb_explains_itself_with_an_example(octavo: Octavo, verb: list[str]) -> None:
    finished = octavo(*verb, "--help")
    assert finished.returncode == 0
    assert f"octavo {verb[0]}" in re.split("Examples?:", finished.stdout)[1]


def test_help_names_every_verb(octavo: Octavo) -> None:
    text = octavo("--help").stdout
    assert all(f"\n  {verb[0]} " in text for verb in _VERBS)
    assert octavo().stdout == text


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["run", "oltp-blocks-demo", "--set", "data_block=3kB"], ["data_block", "'3kB'", *DATA_BLOCKS]),
        (["run", "oltp-blocks-demo", "--set", "data_page=4kB"], ["unknown factor 'data_page'", "data_block"]),
        (["run", "oltp-blocks-demo", "--set", "data_block"], ["--set data_block", "FACTOR=LEVEL"]),
        (["run", "oltp-blocks-demo", "--set", "clients=none"], ["clients", "'none'", "1 to 10000"]),
        (["run", "no-such-preset"], ["no preset 'no-such-preset'", "oltp-blocks-demo"]),
        (["run", "absent.toml"], ["absent.toml", "No such file", "octavo presets show"]),
        (["fleet", "init", "absent.toml"], ["absent.toml", "No such file", "[[host]]", "docs/fleet.md"]),
        (["doctor", "--hosts", "absent.toml"], ["absent.toml", "No such file", "[[host]]", "docs/fleet.md"]),
        (["run"], ["oltp-blocks-demo", ".toml"]),
        (["run", "--resume", "19990101", "oltp-blocks-demo"], ["--resume"]),
        (["run", "oltp-blocks-demo", "--rounds", "0"], ["rounds", "greater than or equal to 1"]),
        (["build", "--data-block", "3kB"], ["--data-block", "'3kB'", *DATA_BLOCKS]),
        (["build", "--wal-block", "128kB"], ["--wal-block", "64kB"]),
        (["build", "--pg", "9.6"], ["--pg", "18"]),
        (["presets", "show", "nothing"], ["no preset 'nothing'", "oltp-blocks-demo"]),
        (["report", "--format", "pdf"], ["pdf", "json"]),
        (["nothing"], ["nothing"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_way_out(octavo: Octavo, arguments: list[str], names: list[str]) -> None:
    finished = octavo(*arguments)
    assert finished.returncode == 2, finished.stderr
    assert len(finished.stderr.splitlines()) == 1
    assert all(name in finished.stderr for name in names), finished.stderr
    assert finished.stdout == ""


def test_a_plan_with_a_wrong_key_names_it(octavo: Octavo, plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text().replace("loads = 1", "lodes = 1"))
    finished = octavo("run", plan_file)
    assert finished.returncode == 2
    assert "unknown key 'lodes'" in finished.stderr
    assert "loads" in finished.stderr


def test_a_run_that_is_not_there(octavo: Octavo) -> None:
    finished = octavo("report", "19990101")
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) == 1


def test_the_host_has_a_page_stack(octavo: Octavo) -> None:
    facts = json.loads(octavo("host", "--format", "json").stdout)
    layers = {layer["layer"]: layer for layer in facts["page_stack"]}
    assert layers["CPU memory page"]["size_bytes"] in (4096, 16384, 65536)
    assert {"huge page", "data block", "WAL block", "WAL segment", "filesystem block"} <= set(layers)
    assert "CPU memory page" in octavo("host").stdout


def test_presets_can_be_listed_and_taken_as_a_plan(octavo: Octavo, tmp_path: Path) -> None:
    assert "oltp-blocks-demo" in octavo("presets").stdout
    mine = tmp_path / "mine.toml"
    mine.write_text(octavo("presets", "show", "oltp-blocks-demo").stdout)
    finished = octavo("run", mine, "--dry-run", "--seed", "1")
    assert finished.returncode == 0
    for word in (
        "cells (9)",
        "(baseline)",
        "(A/A control)",
        "round 4, load 4",
        "builds needed",
        "disk:",
        "time: about",
        "budget: stops after 10m of measuring, decided or not; no limit on rounds",
    ):
        assert word in finished.stdout
    asked = octavo("run", mine, "--dry-run", "--rounds", "3").stdout
    assert "budget: stops after 10m of measuring, decided or not; at most 3 rounds" in asked


def test_with_a_budget_the_rounds_are_no_upper_limit_of_the_time(octavo: Octavo) -> None:
    told = octavo("run", "oltp-blocks-demo", "--size", "here", "--dry-run").stdout
    assert "time: about" in told and "at most 2" not in told
    assert "budget: stops after 2h" in told


def test_a_build_that_is_there_is_said_to_be_cached(octavo: Octavo) -> None:
    octavo("build", "--data-block", "4kB")
    finished = octavo("build", "--data-block", "4kB", "--wal-block", "8kB", "--pg", "18")
    assert finished.returncode == 0
    assert "cached" in finished.stderr
    assert (Path(finished.stdout.strip()) / "bin" / "postgres").exists()
    listed = json.loads(octavo("build", "ls", "--format", "json").stdout)
    (entry,) = (entry for entry in listed if entry["path"] == finished.stdout.strip())
    assert (entry["data_block"], entry["wal_block"], entry["version"].partition(".")[0]) == ("4kB", "8kB", "18")
    assert finished.stdout.strip() in octavo("build", "ls").stdout


def test_output_that_nobody_reads_is_no_error(octavo: Octavo) -> None:
    import os
    import subprocess

    from tests.e2e.conftest import ROOT

    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        finished = subprocess.run(
            [ROOT / "octavo", "host"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.returncode == 0
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("predict",), "octavo: missing argument 'FILE'; see octavo predict --help"),
        (("nonsense",), "octavo: no such command 'nonsense'; see octavo --help"),
        (("repot",), "octavo: no such command 'repot'; did you mean 'report'? (octavo --help)"),
    ],
)
def test_a_wrong_call_is_answered_in_a_line(octavo: Octavo, arguments: tuple[str, ...], line: str) -> None:
    finished = octavo(*arguments)
    assert (finished.returncode, finished.stderr.strip(), finished.stdout) == (2, line, "")


def test_a_group_without_a_command_shows_its_help(octavo: Octavo) -> None:
    finished = octavo("cache")
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) > 5
    assert "Usage: octavo cache" in finished.stderr


def test_a_home_that_is_none_is_named(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in (("runs",), ("run", "oltp-blocks-demo", "--dry-run")):
        finished = octavo(*arguments, OCTAVO_HOME=str(tmp_path / "file"))
        assert (finished.returncode, finished.stdout) == (3, "")
        assert finished.stderr.startswith(f"octavo: OCTAVO_HOME={tmp_path / 'file'} is not a directory; ")
        assert len(finished.stderr.splitlines()) == 1
