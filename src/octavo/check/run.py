"""Checking builds: every suite on each of them."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from octavo.check.installation import run_installation
from octavo.check.outcome import CheckReport, Suite
from octavo.check.recovery import run_recovery
from octavo.check.suites import Progress, run_isolation, run_regression
from octavo.check.workspace import Tests, TestWorkspace, open_tests, open_workspace
from octavo.errors import UsageError
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build

SUITES: dict[str, Callable[[TestWorkspace, Progress], Suite]] = {
    "installation": run_installation,
    "regression": run_regression,
    "isolation": run_isolation,
    "recovery": run_recovery,
}


def _quiet(*_: object) -> None:
    """Tells nobody."""


def check_builds(
    builds: Sequence[Build],
    journal: Journal,
    *,
    suites: Sequence[str] = tuple(SUITES),
    local: Path | None = None,
    progress: Progress = _quiet,
) -> Generator[CheckReport, None, None]:
    """Runs the suites on each build as it was shipped, and yields each report as soon as it is there.

    `local` is the tarball that the tests come from, where it is not the cached one. Raises UsageError for a suite that
    does not exist, HostError when there is no source, OctavoError when a build is of another source than the tests.
    """
    for suite in suites:
        if suite not in SUITES:
            raise UsageError(f"there is no suite {suite!r}; there are {', '.join(SUITES)}")
    for version in dict.fromkeys(str(build.manifest["version"]) for build in builds):
        with open_tests(version, journal, local) as tests:
            for build in builds:
                if build.manifest["version"] == version:
                    yield check_build(build, tests, journal, suites=suites, progress=progress)


def check_build(
    build: Build, tests: Tests, journal: Journal, *, suites: Sequence[str] = tuple(SUITES), progress: Progress = _quiet
) -> CheckReport:
    """Runs the suites on one build."""

    def told(doing: str, done: int, total: int) -> None:
        progress(f"{build.name}: {doing}", done, total)

    with open_workspace(build, tests, journal, server_account()) as workplace:
        return CheckReport(build, tuple(SUITES[suite](workplace, told) for suite in suites))
