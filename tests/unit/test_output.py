"""Output for people."""

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octavo import __version__
from octavo.cli.app import app
from octavo.cli.output import console
from octavo.errors import UsageError
from octavo.workloads import find


def test_a_reader_that_has_gone_is_not_taken_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        with pytest.raises(BrokenPipeError):  # `main` ends with 0 on this, where rich would exit with 1
            console().print("page")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("report", "last", "--html", "page.html", "--format", "json"), "and --format prints; give one of them"),
        (("report", "last", "--png", "charts", "--format", "csv"), "and --format prints; give one of them"),
        (("compare", "one", "other", "--html", "page.html", "--format", "md"), "and --format prints; give one of them"),
        (("predict", "shop.octrace", "--against", "last", "--out", "page.html"), "--against has none"),
        (("predict", "shop.octrace", "--against", "last", "--memory", "16GB"), "--against takes --memory from the run"),
        (("predict", "shop.octrace", "--against", "last", "--what-if", "data=2"), "--against takes --what-if from"),
        (("predict", "shop.octrace", "--where", "mode=read-only"), "--where has no effect without --against"),
        (("predict", "shop.octrace", "--disturbed"), "--disturbed has no effect without --against"),
        (("predict", "shop.octrace", "--readahead", "4MB"), "--readahead has no effect without --memory"),
        (("predict", "t.octrace", "--dirty-background", "1GB"), "--dirty-background has no effect without --memory"),
        (("trace", "simulate", "t.octrace", "--readahead", "4MB"), "--readahead has no effect without --memory"),
        (("trace", "simulate", "t.octrace", "--kernel-page", "64kB"), "--kernel-page has no effect without --memory"),
        (("predict", "shop.octrace", "--device-price", "160"), "--device-price has no effect without --memory-price"),
        (("predict", "t", "--device-price", "160", "--memory-price", "0"), "--memory-price 0: it must be a finite"),
        (("predict", "t", "--device-price", "0", "--memory-price", "4"), "--device-price 0: it must be a finite"),
        (("predict", "t", "--device-price", "1", "--memory-price", "inf"), "--memory-price inf: it must be a finite"),
        (("io", "probe", "/data/test", "--price", "0GB"), "--price 0GB: it must be from 1kB to 1024TB"),
        (("predict", "shop.octrace", "--clients", "8", "--what-if", "transactions=2"), "give one of them"),
        (("predict", "shop.octrace", "--what-if", "data=2", "--what-if", "data=4"), "data is given twice"),
        (("predict", "shop.octrace", "--device", "gp3", "--what-if", "device=io2"), "give one of them"),
        (("trace", "surface", "t.octrace", "--shared-buffers", "0B"), "--shared-buffers 0B: it must be from 128kB"),
        (("trace", "surface", "t.octrace", "--seed", "7"), "--seed has no effect without --sample"),
        (("trace", "convert", "t.octrace", "-o", "t.csv", "--to", "csv", "--page-size", "8kB"), "without --from"),
        (("trace", "--counters"), "no output file"),
        (("trace", "--for", "1s", "info", "t.octrace"), "--for before info has no effect"),
        (("compare",), "compare needs two or more runs: octavo compare RUN1 RUN2"),
        (("build", "--data-block", "4kB", "ls"), "--data-block before ls has no effect"),
        (("build", "path", "--name", "18.6-b4w8-x", "--data-block", "4kB"), "--name 18.6-b4w8-x names one build"),
        (("shell", "--name", "18.6-b4w8-x", "--pg", "17"), "--name 18.6-b4w8-x names one build"),
        (("host", "--check", "restore"), "--check before restore has no effect"),
        (("build", "--suite", "contrib"), "--suite has no effect without --check"),
        (("build", "--output", "packages"), "--output has no effect without --package"),
        (("build", "--prove", "1", "--format", "json"), "--format has no effect without --check or --check-operations"),
        (("build", "--check", "--check-operations", "--format", "json"), "--format json prints one document"),
        (("vm", "run", "--timeout", "0s", "--", "true"), "--timeout 0s: it must be above 0s"),
        (("vm", "run", "--memory", "1kB", "--", "true"), "--memory 1kB: it must be at least 128MB"),
        (("vm", "run", "--disk", "1kB", "--", "true"), "--disk 1kB: it must be at least 16MB"),
        (("vm", "run", "--kernel-page", "7kB", "--", "true"), "no kernel page 7kB; choose one of 4kB, 16kB, 64kB"),
        (("vm", "build", "--kernel-page", "../4kB", "--kernel-package", "a.deb"), "choose one of 4kB, 16kB, 64kB"),
        (("vm", "atomics", "--cpu", "max,"), "--cpu max,: name models, separated by commas"),
        (("predict", "shop.octrace", "--memory", "16GB,32GB"), "--memory 16GB,32GB: give one size"),
        (("predict", "shop.octrace", "--kernel-page", "4kB,16kB"), "--kernel-page 4kB,16kB: give one size"),
        (("doctor", "--explain", "all", "--format", "html"), "--explain has no --format html; use --format text or md"),
        (("doctor", "--compare", "a", "b", "--format", "md"), "--compare has no --format md; use --format text"),
        (("doctor", "--watch", "10", "--format", "html"), "--watch has no --format html; use --format text or json"),
        (("doctor", "--explain", "all", "--dsn", ""), "--dsn has no effect with --explain; leave it out"),
        (("doctor", "--compare", "a", "b", "--verbose"), "--verbose has no effect with --compare; leave it out"),
        (("doctor", "--watch", "10", "--interval", "5s"), "--interval has no effect with --watch; leave it out"),
        (("doctor", "--before-start", "--interval", "5s"), "--interval has no effect with --before-start"),
        (("doctor", "--facts", "f", "--interval", "5s"), "--interval has no effect with --facts; leave it out"),
        (("hugepages", "plan", "--connections", "9"), "--connections has no effect without --pgdata or --dsn"),
        (("doctor", "--watch", "10", "--fail-on", "note"), "--fail-on has no effect with --watch; leave it out"),
        (("costs", "calibrate", "--cache", "warm", "--size", "1GB"), "--size has no effect with --cache warm"),
        (
            ("trace", "record", "-o", "t", "--counters", "--max-overhead", "1%"),
            "--max-overhead has no effect with --counters",
        ),
        (("trace", "-o", "t", "--counters", "--max-overhead", "1%"), "--max-overhead has no effect with --counters"),
        (("report", "last", "--series"), "--series has no effect without --format json"),
        (("run", "--resume", "last", "--rounds", "3"), "leave out all but --budget, --fleet and --scheduler"),
        (
            ("run", "oltp-blocks-demo", "--dry-run", "--set", "data_block=4kB", "--set", " data_block =16kB"),
            "data_block is already set; give all its levels in one --set",
        ),
        (("iotop", "--source", "proc", "--device", "vda"), "--device has no effect with --source proc"),
        (("watch", "--interval", "soon"), "--interval: 'soon' is not a duration"),
        (("watch", "--interval", "99999999d"), "--interval 99999999d: it must be from 100ms to 24d"),
        (("iotop", "--interval", "10ms"), "--interval 10ms: it must be from 100ms to 24d"),
        (("doctor", "--watch", "99999999d"), "--watch 99999999d: it must be from 1s to 24d"),
        (("doctor", "--before-start", "--shared-buffers", "1kB"), "--shared-buffers 1kB: it must be from 128kB"),
        (("trace", "record", "-o", "t", "--for", "1"), "--for: '1' is not a duration"),
        (("trace", "record", "-o", "t", "--max-overhead", "5"), "--max-overhead: '5' is not a percentage"),
        (("trace", "cut", "t", "-o", "p", "--from", "x"), "--from: 'x' is not a duration"),
        (("trace", "simulate", "t", "--memory", "16GB,x"), "--memory: 'x' is not a size"),
        (("predict", "t", "--checkpoint", "10ms"), "--checkpoint 10ms: it must be from 1s to 24d"),
        (("run", "--resume", "last", "--budget", "x"), "--budget: 'x' is not a duration"),
        (("cache", "rm", "--unused-for", "x"), "--unused-for: 'x' is not a duration"),
        (("io", "/data/test", "--block", "8"), "--block: '8' is not a size"),
    ],
)
def test_what_a_command_would_ignore_is_refused(command: tuple[str, ...], problem: str) -> None:
    ran = CliRunner().invoke(app, command)
    assert isinstance(ran.exception, UsageError) and problem in str(ran.exception)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))


def octavo(*arguments: str, end: str = "") -> subprocess.CompletedProcess[str]:
    """The command line in a shell; `end` is a redirection."""
    command = f"{shlex.join([sys.executable, '-m', 'octavo', *arguments])} {end}"
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("end", [">&-", ">&- 2>&-", "<&-", "<&- >&-"])
def test_closed_streams_are_no_failure(end: str) -> None:
    finished = octavo("doctor", "--explain", "kernel-page", end=end)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.usefixtures("own_home")
def test_an_output_without_room_is_named() -> None:
    finished = octavo("doctor", "--explain", "kernel-page", end="> /dev/full")
    assert finished.returncode == 3
    assert finished.stderr.startswith("octavo: standard output: No space left on device; free some space there")


@pytest.mark.usefixtures("own_home")
def test_an_error_is_one_line_whatever_the_name_of_the_file() -> None:
    finished = octavo("trace", "info", "no\nsuch \x1b[31mfile")
    assert finished.returncode == 2
    (line,) = finished.stderr.splitlines()
    assert line.startswith("octavo: no such \ufffd[31mfile cannot be read: No such file or directory; name a file")


@pytest.mark.usefixtures("own_home")
def test_what_libraries_log_is_not_printed() -> None:
    script = """
import logging, sys
from octavo.cli.app import main
sys.argv = ["octavo", "--version"]
try:
    main()
except SystemExit:
    logging.getLogger("psycopg").warning("error ignored terminating a COPY")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("octavo ")
    assert ended.stderr == ""


@pytest.mark.usefixtures("own_home")
def test_a_scale_that_pgbench_may_not_have_is_refused_in_a_line() -> None:
    (scale,) = (one for one in find("pgbench").factors if one.name == "scale")
    assert scale.level("1000000") == "1000000"
    for number in ("1000001", "9" * 30, "-1"):
        with pytest.raises(UsageError):
            scale.level(number)
        finished = octavo("shell", "--scale", number)
        assert finished.returncode == 2
        (line,) = finished.stderr.splitlines()
        assert line.startswith("octavo: invalid value for '--scale'") and "1000000" in line, line


@pytest.mark.usefixtures("own_home")
def test_a_number_of_threads_beyond_an_integer_is_refused_in_a_line() -> None:
    finished = octavo("predict", "shop.octrace", "--threads", "9" * 30)
    assert finished.returncode == 2
    (line,) = finished.stderr.splitlines()
    assert line.startswith("octavo: invalid value for '--threads'"), line


def test_the_version_is_printed() -> None:
    assert octavo("--version").stdout == f"octavo {__version__}\n"


def test_no_summary_of_a_command_is_cut_off() -> None:
    """A text that is too long for a line of a list ends in dots there."""
    groups: list[list[str]] = [[], *([one.name] for one in app.registered_groups if one.name)]
    for group in groups:
        text = CliRunner().invoke(app, [*group, "--help"], terminal_width=80).stdout
        assert "..." not in text.partition("Commands:")[2], group


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize(("budget", "short"), [("5s", True), ("10h", False)])
def test_a_dry_run_says_when_its_budget_is_shorter_than_its_time(budget: str, short: bool) -> None:
    ran = CliRunner().invoke(app, ["run", "oltp-blocks-demo", "--dry-run", "--budget", budget])
    assert f"budget: stops after {budget} of measuring" in ran.stdout
    assert ("too short for these trials: only some conditions, or fewer rounds" in ran.stdout) is short
