"""Running PostgreSQL's suites against an installed build, and judging their results."""

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from octavo.check import crashes
from octavo.check.classify import classify
from octavo.check.diffs import FileDiff, parse_diffs
from octavo.check.outcome import ClassifiedDifference, Failure, Suite
from octavo.check.outputs import Difference, compare_isolation, compare_regression
from octavo.check.workspace import TestWorkspace
from octavo.errors import OctavoError
from octavo.home import make_directory
from octavo.host import careful_open, children, trees
from octavo.host.kernel_text import shown

# What is being done, and how many of how many tests are done.
Progress = Callable[[str, int, int], None]

# A test's name becomes part of paths, and what prints it is of the tested sources: no directory, nothing hidden.
_RESULT = re.compile(r"(?P<ok>ok|not ok) +\d+ +[-+] (?P<test>\w[\w.-]*) +\d+ ms(?P<directive>.*)", re.ASCII)
_PLAN = re.compile(r"1\.\.(\d{1,9})")
_CONNECTIONS = 20  # PostgreSQL's own limit for its parallel schedule (GNUmakefile: MAXCONNOPT)
# What is kept of a suite: the logs of all of PostgreSQL's own tests have a tenth of it.
_MOST_KEPT = 256 * 1024**2
_PIECE = 1024**2
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def run_regression(workplace: TestWorkspace, progress: Progress) -> Suite:
    """`make check`'s suite, src/test/regress, in a temporary instance."""
    return _run_pg_regress(workplace, "regression", "regress", "parallel_schedule", progress)


def run_isolation(workplace: TestWorkspace, progress: Progress) -> Suite:
    """Concurrent sessions, step by step: src/test/isolation."""
    return _run_pg_regress(workplace, "isolation", "isolation", "isolation_schedule", progress)


@dataclass(frozen=True, slots=True)
class DriverResult:
    """The result of one run of a driver; `files` are worth keeping."""

    tests: int
    identical: int
    judged: list[ClassifiedDifference]
    failures: list[Failure]
    files: list[Path]


def _run_pg_regress(workplace: TestWorkspace, name: str, directory: str, schedule: str, progress: Progress) -> Suite:
    tests = workplace.tests / directory
    output = workplace.own(name)
    total = _scheduled(tests / schedule)
    started = time.monotonic()
    ran = run_driver(
        workplace, name, directory, tests, output,
        [f"--schedule={tests / schedule}", f"--max-concurrent-tests={_CONNECTIONS}"], total,
        lambda done: progress(name, done, total),
    )  # fmt: skip
    seconds = time.monotonic() - started
    kept = keep(workplace, name, ran.files, below=output)
    return Suite(name, ran.tests, ran.identical, tuple(ran.judged), tuple(ran.failures), (), seconds, kept)


def run_driver(
    workplace: TestWorkspace,
    suite: str,
    directory: str,
    tests: Path,
    output: Path,
    what: Sequence[str],
    total: int,
    progress: Callable[[int], None],
    prefix: str = "",
) -> DriverResult:
    """PostgreSQL's driver, of `regress` or `isolation`, with a temporary instance in `output`, on a directory's tests.

    `what` selects the tests; `prefix` precedes their names in reports.
    """
    program = "pg_regress" if directory == "regress" else "pg_isolation_regress"
    arguments: list[str | Path] = [
        workplace.driver / directory / program,
        f"--inputdir={tests}",
        f"--expecteddir={tests}",
        f"--outputdir={output}",
        f"--temp-instance={output / 'instance'}",
        f"--bindir={workplace.build.prefix / 'bin'}",
        f"--dlpath={workplace.libraries}",
        "--encoding=UTF8",
        *what,
    ]
    lines: list[str] = []
    done = 0

    def watch(line: str) -> None:
        nonlocal done
        lines.append(line)
        if _RESULT.match(line):
            done += 1
            progress(done)

    with crashes.cores_allowed():
        ended = children.run(
            arguments, workplace.journal, role=program, account=workplace.account, rings=True, directory=output,
            environment=workplace.environment(), on_line=watch,
        )  # fmt: skip
    results = results_of(lines)
    failures = crashed(workplace, output, [output / "log" / "postmaster.log"], killing_is_tested=False)
    differing = [match["test"] for match in results if match["ok"] == "not ok"]
    problem: str | None = None
    if not any(_PLAN.fullmatch(line) for line in lines) or len(results) < total:
        problem = f"only {len(results)} of {total} tests ran"
    elif ended.returncode != 0 and not differing:  # such as a server that does not stop
        problem = f"{program} failed (exit {ended.returncode}), though every test passed"
    if problem is not None:
        last = [line for line in lines if line.strip()][-12:]
        failures.append(Failure(prefix.rstrip("/") or suite, problem, tuple(last)))
    judged, unread = judge_diffs(workplace, suite, tests, output / "regression.diffs", differing, prefix)
    results_of_differing = [output / "results" / f"{test}.out" for test in dict.fromkeys(differing)]
    texts = [output / "regression.diffs", output / "regression.out", output / "log"]
    identical = sum(match["ok"] == "ok" for match in results)
    return DriverResult(len(results), identical, judged, failures + unread, [*texts, *results_of_differing])


def results_of(lines: Sequence[str]) -> list[re.Match[str]]:
    """The result lines of pg_regress: `ok` (ok or not ok) and `test`."""
    return [match for line in lines if (match := _RESULT.match(line))]


def judge_diffs(
    workplace: TestWorkspace, suite: str, tests: Path, diffs: Path, differing: Sequence[str], prefix: str = ""
) -> tuple[list[ClassifiedDifference], list[Failure]]:
    """The differences of these tests with what allows them; a test whose differences cannot be read has failed."""
    block = workplace.build.manifest["data_block"]
    try:
        found = {diff.test: diff for diff in parse_diffs(_text(diffs))}
    except ValueError as error:
        return [], [Failure(prefix + test, f"its differences cannot be read: {error}") for test in differing]
    judged: list[ClassifiedDifference] = []
    failures: list[Failure] = []
    for test in dict.fromkeys([*differing, *found]):
        compared = _compare(workplace, suite, tests, found[test]) if test in found else []
        differences = [replace(difference, test=prefix + difference.test) for difference in compared]
        if not differences:
            failures.append(Failure(prefix + test, "it failed without a difference from the expected output"))
        judged += [ClassifiedDifference(difference, classify(suite, difference, block)) for difference in differences]
    return judged, failures


def _read_of_test(workplace: TestWorkspace, path: Path) -> list[str]:
    """An expected or an actual output, whose path the differences name: nothing but what lies where tests work."""
    path = Path(os.path.normpath(path))
    ours = any(path.is_relative_to(place) for place in (workplace.tests.parents[1], workplace.directory))
    return read_lines(path) if ours else [""]


def _compare(workplace: TestWorkspace, suite: str, tests: Path, diff: FileDiff) -> list[Difference]:
    # The tests' own relative paths are seen from their directory.
    expected, actual = (_read_of_test(workplace, tests / path) for path in (diff.expected, diff.actual))
    if suite == "isolation":
        return compare_isolation(diff.test, expected, actual)
    return compare_regression(diff.test, read_lines(tests / "sql" / f"{diff.test}.sql"), expected, actual)


def _scheduled(schedule: Path) -> int:
    """How many tests a schedule names: `test: NAME NAME …` lines."""
    return sum(len(line.split()) - 1 for line in read_lines(schedule) if line.startswith("test:"))


def read_lines(path: Path) -> list[str]:
    """A file's lines, none when it is not there, or no regular file reached without links of the account's."""
    return _text(path).removesuffix("\n").split("\n")


def _text(path: Path) -> str:
    try:
        return careful_open.read_text(path)
    except OSError:
        return ""


def crashed(workplace: TestWorkspace, output: Path, logs: Sequence[Path], *, killing_is_tested: bool) -> list[Failure]:
    """Crashes according to the servers' logs and core files."""
    found = [failure for log in logs for failure in crashes.crashes_in_log(log, killing_is_tested=killing_is_tested)]
    return found + crashes.backtraces(workplace.build, output, workplace.journal, workplace.account)


def keep(workplace: TestWorkspace, name: str, paths: Sequence[Path], below: Path) -> Path:
    """Copies differences and logs to where they outlive the check, in place of the last check's.

    They are kept in the directories that they have `below`. Nothing but regular files is kept, up to a size in all.
    """
    kept = workplace.kept / name
    trees.remove(kept)
    make_directory(kept)
    place = os.open(kept, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    left = _MOST_KEPT
    try:
        for path in paths:
            for file in (path, *trees.files(path)):
                left -= _keep_file(file, place, file.relative_to(below), left)
    finally:
        os.close(place)
    return kept


def _keep_file(path: Path, place: int, name: PurePath, most: int) -> int:
    """Copies a file to this name below the open directory. Returns how many bytes that are, `most` at most."""
    try:
        descriptor = careful_open.open_file(path)
    except OSError:
        return 0
    copied = 0
    with os.fdopen(descriptor, "rb") as source, os.fdopen(_new_file(place, name), "wb") as target:
        while copied < most and (piece := source.read(min(_PIECE, most - copied))):
            copied += target.write(piece)
    return copied


def _new_file(place: int, name: PurePath) -> int:
    """A descriptor of a new file below the open directory, with the directories above it.

    Raises OctavoError for a name that leads elsewhere, by a link or by "..", or is there already.
    """
    here = os.dup(place)
    try:
        if name.is_absolute() or ".." in name.parts:
            raise OctavoError(f"{shown(name)} is not a valid name of a check's files")
        for part in name.parts[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name.name, _NEW, 0o644, dir_fd=here)
    except OSError as error:
        raise OctavoError(f"{shown(name)} cannot be kept: {error.strerror}") from error
    finally:
        os.close(here)
