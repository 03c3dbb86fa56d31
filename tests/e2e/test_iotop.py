"""`octavo iotop` as a user runs it: with root and without, killed, and with a device that does not exist."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT, Octavo

from octavo.errors import HostError
from octavo.instruments import system_calls

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def instances() -> set[str]:
    with system_calls.tracefs() as directory:
        return {path.name for path in (directory / "instances").iterdir()}


@contextmanager
def watching() -> Generator["subprocess.Popen[str]", None, None]:
    """`octavo iotop` by tracefs after its first line; ended with the context. Skips the test without tracing."""
    with subprocess.Popen(
        [ROOT / "octavo", "iotop", "--source", "tracefs", "--format", "json", "--interval", "100ms"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                complaint = process.communicate()[1]
                assert process.returncode == HostError.exit_code, complaint
                pytest.skip(f"this kernel has no tracing: {complaint}")
            assert json.loads(line)["source"] == "tracefs"
            yield process
        finally:
            process.kill()


def test_once_for_programs(octavo: Octavo) -> None:
    finished = octavo("iotop", "--once", "--interval", "300ms", "--format", "json")
    assert finished.returncode == 0, finished.stderr
    content = json.loads(finished.stdout)
    assert content["schema_version"] == 1
    assert content["source"] in ("bpf", "tracefs", "proc")
    assert content["seconds"] >= 0.3
    assert content["cost_cpu_seconds"] > 0
    assert set(content) == {
        "schema_version", "time", "seconds", "source", "rows", "devices", "blind", "lost_events", "cost_cpu_seconds",
        "cost_share",
    }  # fmt: skip


def test_once_for_people_in_any_width(octavo: Octavo) -> None:
    for columns in ("60", "120"):
        finished = octavo("iotop", "--once", "--interval", "100ms", COLUMNS=columns)
        assert finished.returncode == 0, finished.stderr
        assert "monitoring overhead" in " ".join(finished.stdout.split())
        assert "BYTES" in finished.stdout
        assert all(len(line) <= int(columns) for line in finished.stdout.splitlines())


@needs_root
def test_without_rights_it_says_so_and_shows_what_it_can() -> None:
    dropped = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    command = [*dropped, ROOT / "octavo", "iotop", "--once", "--interval", "100ms", "--format", "json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    content = json.loads(finished.stdout)
    assert content["source"] == "proc"
    reasons = {one["part"]: one["reason"] for one in content["blind"]}
    assert set(reasons) == {"bpf", "tracefs", "proc"}
    assert "needs root" in reasons["bpf"] and "needs root" in reasons["tracefs"]
    refused = subprocess.run([*command, "--source", "bpf"], capture_output=True, text=True, check=False)
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1 and "--source bpf" in refused.stderr


@needs_root
def test_a_tracing_instance_goes_with_the_next_command_when_its_maker_was_killed(octavo: Octavo, home: Path) -> None:
    before = instances()
    with watching() as process:
        (left,) = instances() - before
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert left in instances()
    finished = octavo("runs")
    assert f"removed the tracing instance {left}" in finished.stderr
    assert left not in instances()
    assert octavo("runs").stderr == ""


@needs_root
def test_it_leaves_nothing_when_it_is_interrupted() -> None:
    before = instances()
    with watching() as process:
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=300)
        assert (process.returncode, complaint) == (0, "")
    assert instances() <= before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--device", "nothing-here"], 2, ["nothing-here", "available"]),
        (["--pid", "4194304"], 2, ["4194304", "no such process"]),
        (["--pid", "0"], 2, ["--pid"]),
        (["--interval", "1ms"], 2, ["--interval", "100ms"]),
        (["--source", "guess"], 2, ["--source", "bpf"]),
        (["--dsn", "host=/nowhere user=me password=hunter2", "--once"], 3, ["/nowhere", "--dsn"]),
        (["--dsn", "postgres//me:hunter2@h/d"], 2, ["--dsn", "postgresql://"]),
    ],
)
def test_mistakes_are_one_line(octavo: Octavo, arguments: list[str], code: int, words: list[str]) -> None:
    finished = octavo("iotop", *arguments)
    assert finished.returncode == code
    assert len(finished.stderr.splitlines()) == 1
    assert all(word in finished.stderr for word in words), finished.stderr
    assert "hunter2" not in finished.stderr + finished.stdout
