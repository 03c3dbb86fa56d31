"""PostgreSQL's own tests on the builds: no differences at 8 kB, elsewhere a reason for each."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.check import workspace
from octavo.check.contrib import run_contrib
from octavo.check.outcome import Suite
from octavo.check.perl_tests import run_scripts
from octavo.check.run import check_builds
from octavo.check.suites import run_regression
from octavo.check.workspace import check_directory, open_tests, open_workspace
from octavo.errors import UsageError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build


@pytest.fixture(scope="module")
def unpacked(builds: dict[str, Build]) -> Iterator[workspace.Tests]:
    """PostgreSQL's tests, unpacked once: a test that changes something gets its own copy of that part of the tree."""
    with Journal() as journal, open_tests(str(builds["4kB"].manifest["version"]), journal) as tests:
        yield tests


def trees() -> set[Path]:
    """The unpacked trees that exist."""
    return set(check_directory().glob(".tests-*"))


def told(suite: Suite) -> str:
    """The message of a failed test: the first unexplained difference, or the first failure."""
    return f"{suite.failed}: {suite.unexplained[:1]} {suite.failures[:1]}"


def test_the_regression_suite_at_the_default_and_another_block(builds: dict[str, Build], journal: Journal) -> None:
    seen: list[int] = []
    before = trees()
    default, other = check_builds(
        [builds["8kB"], builds["4kB"]],
        journal,
        suites=["installation", "regression"],
        progress=lambda doing, done, total: seen.append(done),
    )
    for report in (default, other):
        for suite in report.suites:
            assert not suite.failed, told(suite)
        assert report.passed
        regression = report.suites[1]
        assert regression.tests > 200
        assert regression.identical + len(regression.allowed) == regression.tests == seen[-1]
    assert default.suites[1].judged == ()
    assert other.suites[1].count("limit") > 0
    assert (other.suites[1].kept / "regression.diffs").exists()
    assert trees() == before


# A backend that crashes as one with a bug would.
_SEGFAULT = "COPY (SELECT pg_backend_pid()) TO PROGRAM 'read pid; kill -SEGV $pid';\n"


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_a_wrong_answer_and_a_crash_are_failures(
    build: Build, unpacked: workspace.Tests, journal: Journal, account: Account
) -> None:
    suite = unpacked.tree / "src" / "test" / "regress"
    (suite / "parallel_schedule").write_text("test: test_setup\ntest: boolean\ntest: pg_lsn\n")
    expected = suite / "expected" / "boolean.out"
    expected.write_text(expected.read_text().replace(" one \n-----\n   1\n", " one \n-----\n   2\n"))
    for file in (suite / "sql" / "pg_lsn.sql", suite / "expected" / "pg_lsn.out"):
        file.write_text(file.read_text() + _SEGFAULT)
    with open_workspace(build, unpacked, journal, account) as workplace:
        outcome = run_regression(workplace, lambda doing, done, total: None)
        directory = workplace.directory
    assert outcome.tests == 3
    assert {"boolean", "pg_lsn"} <= set(outcome.failed)
    assert [difference.statement for difference in outcome.unexplained] == ["SELECT 1 AS one;", _SEGFAULT.strip()]
    assert any("terminated by signal 11" in failure.what for failure in outcome.failures)
    if _leaves_cores():
        assert any(line.startswith("#0 ") for failure in outcome.failures for line in failure.details)
    assert not directory.exists()  # only the differences are kept
    assert (outcome.kept / "regression.diffs").exists()


def _leaves_cores() -> bool:
    """Whether a crashed child leaves a core file in its working directory, and gdb can read it."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    return pattern == "core" and hard != 0 and shutil.which("gdb") is not None


def test_a_suite_that_does_not_exist_is_named(journal: Journal) -> None:
    with pytest.raises(UsageError, match="unknown suite 'speed'"):
        list(check_builds([], journal, suites=["speed"]))


@pytest.mark.parametrize("block", ["4kB"])
def test_scripts_of_programs_run_where_they_are_in_the_source(
    block: str, builds: dict[str, Build], unpacked: workspace.Tests, journal: Journal, account: Account
) -> None:
    """Two quick ones of the scripts that `--suite programs` runs; at 4 kB in a copy whose shared_buffers are blocks."""
    build, seen = builds[block], list[str]()
    with open_workspace(build, unpacked, journal, account) as workplace:
        suite = run_scripts(
            workplace,
            lambda doing, done, total: seen.append(f"{doing} {done}/{total}"),
            "programs",
            ("src/bin/pg_controldata", "src/bin/pg_config"),
        )
    if suite.skipped:
        pytest.skip(suite.skipped[0][1])
    assert not suite.failed, told(suite)
    assert (suite.name, suite.tests, suite.identical) == ("programs", 2, 2)
    assert seen[-1] == "programs 2/2"


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_modules_of_contrib_are_tested_one_by_one(
    build: Build, unpacked: workspace.Tests, journal: Journal, account: Account
) -> None:
    seen: list[int] = []
    with open_workspace(build, unpacked, journal, account) as workplace:
        contrib = unpacked.tree / "contrib"
        for module in contrib.iterdir():
            if module.is_dir() and module.name not in ("spi", "dict_int", "seg"):
                shutil.rmtree(module)
        (contrib / "lacking").mkdir()
        (contrib / "lacking" / "Makefile").write_text("MODULE_big = none_such\nREGRESS = one\n")
        expected = contrib / "dict_int" / "expected" / "dict_int.out"
        expected.write_text(expected.read_text().replace("(1 row)", "(2 rows)", 1))
        suite = run_contrib(workplace, lambda doing, done, total: seen.append(done))
    assert suite.failed == ["dict_int/dict_int"], told(suite)
    assert suite.tests == seen[-1] >= 4  # including those of seg, whose data psql searches in its working directory
    assert suite.identical + len(suite.allowed) == suite.tests - 1
    assert suite.skipped == (("lacking", "the build has no none_such"),)
    assert (suite.kept / "dict_int" / "regression.diffs").exists()
