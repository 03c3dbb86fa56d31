"""Checking builds: every suite on each of them."""

from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path

from octavo.check.contrib import run_contrib
from octavo.check.installation import run_installation
from octavo.check.outcome import CheckReport, Suite
from octavo.check.perl_tests import run_pg_upgrade, run_programs, run_recovery, run_subscription
from octavo.check.suites import Progress, run_isolation, run_regression
from octavo.check.workspace import Tests, TestWorkspace, check_directory, open_tests, open_workspace
from octavo.errors import HostError, UsageError
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import quiet
from octavo.postgres.scratch import is_full
from octavo.postgres.versions import major_of
from octavo.units import parse_size

SUITES: dict[str, Callable[[TestWorkspace, Progress], Suite]] = {
    "installation": run_installation,
    "regression": run_regression,
    "isolation": run_isolation,
    "recovery": run_recovery,
}
# Only where they are named: what another block changes in them is not sorted into kinds yet.
FURTHER: dict[str, Callable[[TestWorkspace, Progress], Suite]] = {
    "contrib": run_contrib,
    "subscription": run_subscription,
    "pg_upgrade": run_pg_upgrade,
    "programs": run_programs,
}
_ALL = {**SUITES, **FURTHER}


# What pg_regress runs, whose results are read as TAP; it writes that from 16 on (src/test/regress/pg_regress.c).
_READ_AS_TAP = ("regression", "isolation", "contrib")
_TAP_SINCE = 16

# What a covering design spreads over the builds; the installation is checked on each, as that takes a second.
_SPREAD = ("regression", "isolation", "recovery")


def check_suites(suites: Iterable[str]) -> None:
    """Raises UsageError for a suite that does not exist."""
    for suite in suites:
        if suite not in _ALL:
            raise UsageError(f"unknown suite {suite!r}; allowed: all, covering, or some of {', '.join(_ALL)}")


def check_versions(versions: Iterable[str], suites: Iterable[str]) -> None:
    """Raises UsageError for a version whose results of one of these suites cannot be read."""
    unread = [suite for suite in suites if suite in _READ_AS_TAP]
    for version in versions:
        if unread and major_of(version) < _TAP_SINCE:
            raise UsageError(
                f"--check: the results of {' and '.join(unread)} can be read from PostgreSQL {_TAP_SINCE} on, not of "
                f"{version}; name other suites, such as --suite installation"
            )


def covering_suites(builds: Sequence[Build]) -> dict[str, tuple[str, ...]]:
    """The suites of each build, by its name: the installation, and one of the others, so that of many builds every data
    block and every WAL block meets every suite.

    With all 42 that is a covering array of strength two: each of the 6 × 7, 6 × 3 and 7 × 3 pairs occurs. Fewer than
    three builds of one block have as many suites as they are.
    """
    data, wal = (_places(builds, name) for name in ("data_block", "wal_block"))
    found: dict[str, tuple[str, ...]] = {}
    for build in builds:
        place = data[str(build.manifest["data_block"])] + wal[str(build.manifest["wal_block"])]
        found[build.name] = ("installation", _SPREAD[place % len(_SPREAD)])
    return found


def _places(builds: Sequence[Build], name: str) -> dict[str, int]:
    """The sizes that occur, in ascending order, numbered."""
    return {
        size: place for place, size in enumerate(sorted({str(one.manifest[name]) for one in builds}, key=parse_size))
    }


def check_builds(
    builds: Sequence[Build],
    journal: Journal,
    *,
    suites: Sequence[str] = tuple(SUITES),
    covering: bool = False,
    local: Path | None = None,
    progress: Progress = quiet,
) -> Generator[CheckReport, None, None]:
    """Runs the suites on each build as it was shipped, and yields each report as soon as it is there.

    With `covering` each build runs what `covering_suites` gives it. `local` is the tarball that the tests come from,
    where it is not the cached one. Raises UsageError for a suite that does not exist, or not for a build's version,
    HostError when there is no source, OctavoError when a build is of another source than the tests.
    """
    check_suites(suites)
    check_versions((str(build.manifest["version"]) for build in builds), suites)
    chosen = covering_suites(builds) if covering else {build.name: tuple(suites) for build in builds}
    for version in dict.fromkeys(str(build.manifest["version"]) for build in builds):
        with open_tests(version, journal, local) as tests:
            for build in builds:
                if build.manifest["version"] == version:
                    yield check_build(build, tests, journal, suites=chosen[build.name], progress=progress)


def check_build(
    build: Build, tests: Tests, journal: Journal, *, suites: Sequence[str] = tuple(SUITES), progress: Progress = quiet
) -> CheckReport:
    """Runs the suites on one build. Raises HostError when one fails because the disk is full."""

    def report_progress(doing: str, done: int, total: int) -> None:
        progress(f"{build.name}: {doing}", done, total)

    with open_workspace(build, tests, journal, server_account()) as workplace:
        return CheckReport(build, tuple(_run(suite, workplace, report_progress) for suite in suites))


def _run(name: str, workplace: TestWorkspace, progress: Progress) -> Suite:
    suite = _ALL[name](workplace, progress)
    told = [line for failure in suite.failures for line in (failure.what, *failure.details)]
    told += [line for difference in suite.unexplained for line in difference.actual]
    if suite.failed and is_full("\n".join(told), workplace.directory):
        raise HostError(
            f"{check_directory()} has no room left for {name}; free some space there, then run the command again"
        )
    return suite
