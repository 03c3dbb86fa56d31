"""PostgreSQL's suites of Perl scripts (recovery, subscription, programs), each with its clusters, judged by TAP output.

They are not run by prove, which stops all of them when one bails out. The scripts set shared_buffers in bytes, as few
as 16 blocks of 8 kB. At another block size they get as many blocks as at 8 kB: otherwise at 32 kB no buffer would be
left to pin, and at 1 kB there would be eight times as many as a script needs to overflow.
"""

import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from octavo.check import crashes
from octavo.check.classify import classify
from octavo.check.outcome import ClassifiedDifference, Failure, Suite
from octavo.check.outputs import Difference
from octavo.check.suites import Progress, crashed, judge_diffs, keep, read_lines, results_of
from octavo.check.workspace import TestWorkspace
from octavo.errors import HostError
from octavo.home import make_directory
from octavo.host import children
from octavo.host.trees import files, new_log
from octavo.units import parse_size

_POLL_SECONDS = 0.1
_PG_UPGRADE = "src/bin/pg_upgrade"
_STREAM_REGRESS = "027_stream_regress"  # runs the regression suite on a primary, with a standby behind it
_STREAM_POINT = "regression tests pass"
# A point that was skipped has no dash: `ok 3 # skip no tar program available`.
_POINT = re.compile(r"(?P<ok>ok|not ok) +(?P<number>\d+)(?: +(?:- +)?(?P<name>.*))?")
_PLAN = re.compile(r"1\.\.(?P<points>\d{1,9})(?: +# SKIP (?P<reason>.*))?")
_DEFAULT_BLOCK = "8kB"
_SHARED_BUFFERS = re.compile(r"(?P<setting>shared_buffers ?= ?)(?P<size>\d+(?:kB|MB))\b")
_BAIL_OUT = re.compile(r"Bail out!.*")
# Why a server of a test did not start; the test itself says no more than that.
_REFUSED = re.compile(r"LOG:  .* outside the valid range for parameter .*|FATAL:  .*")


@dataclass(frozen=True, slots=True)
class TapResult:
    """The output of a test script: its points, whether it completed, why it was skipped or gave up."""

    points: tuple[tuple[bool, str], ...]
    complete: bool
    skipped: str | None
    bail_out: str | None

    @property
    def failed(self) -> list[str]:
        """The names of the points that failed."""
        return [name for passed, name in self.points if not passed]


def parse_tap(lines: Sequence[str]) -> TapResult:
    """Reads the Test Anything Protocol as Test::More writes it; what failed as `# TODO` was expected to."""
    points: list[tuple[bool, str]] = []
    planned: int | None = None
    skipped: str | None = None
    bail_out: str | None = None
    for line in lines:
        if match := _PLAN.fullmatch(line):
            planned, skipped = int(match["points"]), match["reason"]
        elif _BAIL_OUT.fullmatch(line):
            bail_out = line
        elif match := _POINT.fullmatch(line):
            name = match["name"] or f"point {match['number']}"
            points.append((match["ok"] == "ok" or "# TODO" in name, name))
    return TapResult(tuple(points), planned == len(points) and bail_out is None, skipped, bail_out)


def run_recovery(workplace: TestWorkspace, progress: Progress) -> Suite:
    """Crash recovery, archiving, replication (src/test/recovery)."""
    return run_scripts(workplace, progress, "recovery", ("src/test/recovery",))


def run_subscription(workplace: TestWorkspace, progress: Progress) -> Suite:
    """Logical replication (src/test/subscription)."""
    return run_scripts(workplace, progress, "subscription", ("src/test/subscription",))


def run_pg_upgrade(workplace: TestWorkspace, progress: Progress) -> Suite:
    """pg_upgrade from the same build, with the regression suite's database (src/bin/pg_upgrade)."""
    return run_scripts(workplace, progress, "pg_upgrade", (_PG_UPGRADE,))


def run_programs(workplace: TestWorkspace, progress: Progress) -> Suite:
    """The other programs: initdb, pg_ctl, pg_dump, pg_basebackup, pg_rewind, psql … (src/bin)."""
    places = sorted((_tree(workplace) / "src" / "bin").glob("*/t"))
    names = [f"src/bin/{place.parent.name}" for place in places]
    return run_scripts(workplace, progress, "programs", [name for name in names if name != _PG_UPGRADE])


def run_scripts(workplace: TestWorkspace, progress: Progress, name: str, directories: Sequence[str]) -> Suite:
    """Runs every script of these directories of the source, as many at once as there are CPUs.

    Without perl's IPC::Run it is skipped, with the reason.
    """
    if reason := _perl_lacks(workplace):
        kept = keep(workplace, name, [], below=workplace.directory)
        return Suite(name, 0, 0, (), (), ((name, reason),), 0.0, kept)
    output = make_directory(workplace.directory / name)
    tree = _tree_in_blocks(workplace, name, directories)
    # A script's name is one in its directory; of several directories it has the directory's before it.
    scripts = {
        script.stem if len(directories) == 1 else f"{script.parent.parent.name}-{script.stem}": script
        for directory in directories
        for script in sorted((tree / directory / "t").glob("*.pl"))
    }
    started = time.monotonic()
    with crashes.cores_allowed():
        ended = _run_all(workplace, tree, output, scripts, progress)
    seconds = time.monotonic() - started
    judged: list[ClassifiedDifference] = []
    failures = crashed(workplace, output, crashes.logs_below([output]), killing_is_tested=True)
    skipped: list[tuple[str, str]] = []
    identical = 0
    for test in scripts:
        tap = parse_tap(read_lines(output / test / "stdout"))
        if tap.skipped is not None:
            skipped.append((test, tap.skipped))
        elif tap.complete and not tap.failed and ended[test] == 0:
            identical += 1
        elif test == _STREAM_REGRESS and tap.complete and tap.failed == [_STREAM_POINT]:
            found, unread = _judge_regression(workplace, output / test)
            judged += found
            failures += unread
        elif (difference := _difference(test, tap, ended[test], output / test)) is not None:
            allowed = classify(name, difference, workplace.build.manifest["data_block"])
            judged.append(ClassifiedDifference(difference, allowed))
        else:
            lines = [*read_lines(output / test / "stdout"), *read_lines(output / test / "stderr")]
            failures.append(Failure(test, f"it ended early (exit {ended[test]})", tuple(lines[-20:])))
    # The clusters themselves are large, and gone; what was said is kept.
    wrong = {each.difference.test for each in judged} | {failure.test for failure in failures}
    lines = [output / test / file for test in sorted(wrong) for file in ("stdout", "stderr", "log")]
    diffs = output / _STREAM_REGRESS / "data" / "regression.diffs"
    kept = keep(workplace, name, [diffs, *lines], below=output)
    return Suite(
        name, len(scripts), identical, tuple(judged), tuple(failures), tuple(skipped), seconds, kept
    )  # fmt: skip


def _tree(workplace: TestWorkspace) -> Path:
    """The unpacked source."""
    return workplace.tests.parents[1]


def _tree_in_blocks(workplace: TestWorkspace, name: str, directories: Sequence[str]) -> Path:
    """The source with shared_buffers as a number of blocks; the source itself where blocks are 8 kB."""
    tree = _tree(workplace)
    if workplace.build.manifest["data_block"] == _DEFAULT_BLOCK:
        return tree
    copy = make_directory(workplace.directory / f"{name}-source")
    make_directory(copy / "src" / "test")
    (copy / "src" / "test" / "regress").symlink_to(workplace.tests / "regress")
    for directory in ("src/test/perl", *directories):
        shutil.copytree(tree / directory, copy / directory)
        for file in (copy / directory).rglob("*.p[lm]"):
            text = file.read_text(errors="surrogateescape")
            file.write_text(_SHARED_BUFFERS.sub(_as_blocks, text), errors="surrogateescape")
    return copy


def _as_blocks(match: re.Match[str]) -> str:
    return f"{match['setting']}{parse_size(match['size']) // parse_size(_DEFAULT_BLOCK)}"


def _run_all(
    workplace: TestWorkspace, tree: Path, output: Path, scripts: Mapping[str, Path], progress: Progress
) -> dict[str, int]:
    """Exit codes by test. What a script wrote is in `stdout` and `stderr` of its directory below the output."""
    waiting = list(scripts)
    running: dict[str, tuple[subprocess.Popen[str], int]] = {}
    ended: dict[str, int] = {}
    workplace.own(f"{output.name}/ports")
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                test = waiting.pop(0)
                running[test] = _start(workplace, tree, output, test, scripts[test])
            for test, (child, entry) in list(running.items()):
                code = child.poll()
                if code is not None:
                    ended[test] = code
                    children.ended(workplace.journal, entry)
                    del running[test]
                    progress(output.name, len(ended), len(scripts))
            time.sleep(_POLL_SECONDS)
    finally:
        for child, entry in running.values():
            children.end(child)
            children.ended(workplace.journal, entry)
    return ended


def _start(
    workplace: TestWorkspace, tree: Path, output: Path, test: str, script: Path
) -> tuple[subprocess.Popen[str], int]:
    place, directory = make_directory(output / test), script.parents[1]
    environment = {
        **workplace.environment(),
        "PG_REGRESS": str(workplace.driver / "regress" / "pg_regress"),
        "REGRESS_SHLIB": str(workplace.libraries / "regress.so"),
        "TESTDATADIR": str(workplace.own(f"{output.name}/{test}/data")),
        "TESTLOGDIR": str(workplace.own(f"{output.name}/{test}/log")),
        # One place for all, where scripts that run side by side agree on ports.
        "PG_TEST_PORT_DIR": str(output / "ports"),
        "enable_injection_points": "no",
        # Scripts look it up as the Makefiles set it, and end with an error where it is not there.
        "with_icu": "yes" if _has_icu(workplace) else "no",
    }
    with os.fdopen(new_log(place / "stdout"), "w") as stdout, os.fdopen(new_log(place / "stderr"), "w") as stderr:
        return children.start(
            ["perl", "-I", tree / "src" / "test" / "perl", "-I", directory, script], workplace.journal,
            role="perl", account=workplace.account, network=True, rings=True, directory=directory,
            environment=environment, stdout=stdout, stderr=stderr,
        )  # fmt: skip


def _has_icu(workplace: TestWorkspace) -> bool:
    """Whether the build has ICU, by the header that it installed."""
    header = workplace.build.prefix / "include" / "server" / "pg_config.h"
    return "#define USE_ICU 1" in header.read_text(errors="replace")


def _difference(test: str, tap: TapResult, code: int, place: Path) -> Difference | None:
    """A script's failed points, or why its server was refused, as a difference; None when it ended otherwise."""
    if tap.bail_out is not None:
        reasons = [
            match[0]
            for log in files(place / "log")
            if log.parent == place / "log" and log.name.startswith(f"{test}_") and log.suffix == ".log"
            for line in read_lines(log)
            if (match := _REFUSED.search(line))
        ]
        return Difference(test, 0, tap.bail_out, (), (tap.bail_out, *reasons))
    if waited := waited_for(read_lines(place / "stderr")):
        return Difference(test, 0, waited[0], (), tuple(waited))
    if tap.complete and code == len(tap.failed):  # Test::More's exit code
        expected, actual = ((f"{word} - {name}" for name in tap.failed) for word in ("ok", "not ok"))
        return Difference(test, 0, "\n".join(tap.failed), tuple(expected), tuple(actual))
    return None


def waited_for(stderr: Sequence[str]) -> list[str]:
    """The message of a script that waited in vain for a query's result (poll_query_until), with the query."""
    lines = [line.removeprefix("#").strip() for line in stderr if line.startswith("#")]
    start = next((place for place, line in enumerate(lines) if line.startswith("poll_query_until timed out")), None)
    if start is None:
        return []
    return [line for line in itertools.takewhile(lambda line: line != "with stderr:", lines[start:]) if line]


def _judge_regression(workplace: TestWorkspace, place: Path) -> tuple[list[ClassifiedDifference], list[Failure]]:
    lines = [line.strip() for line in read_lines(place / "log" / f"regress_log_{_STREAM_REGRESS}")]
    differing = [match["test"] for match in results_of(lines) if match["ok"] == "not ok"]
    diffs = place / "data" / "regression.diffs"
    judged, failures = judge_diffs(workplace, "regression", workplace.tests / "regress", diffs, differing)
    if not (judged or failures):  # they ended before any was compared
        failures = [
            Failure(_STREAM_REGRESS, "the regression tests failed, but none of them reports it", tuple(lines[-20:]))
        ]
    # They belong to the one script that ran them all.
    named = [
        replace(
            each,
            difference=replace(
                each.difference,
                test=_STREAM_REGRESS,
                statement=f"{each.difference.test}: {each.difference.statement}",
            ),
        )
        for each in judged
    ]
    return named, failures


def _perl_lacks(workplace: TestWorkspace) -> str | None:
    """Why the Perl tests cannot run here, or None."""
    try:
        found = children.run(["perl", "-MIPC::Run", "-e", "1"], workplace.journal, role="perl")
    except HostError:
        return "perl is missing"
    return None if found.returncode == 0 else "perl's IPC::Run is missing (Debian's package libipc-run-perl)"
