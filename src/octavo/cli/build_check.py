"""`octavo build --check`: PostgreSQL's own tests against the builds."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.cli.choices import TableFormat
from octavo.text import unguarded

if TYPE_CHECKING:
    from octavo.check.outcome import CheckReport
    from octavo.host.journal import Journal
    from octavo.postgres.builds.cache import Build


def check(builds: "Sequence[Build]", journal: "Journal", format: TableFormat, suite: str, source: Path | None) -> int:
    """Checks the builds, prints each report as soon as it is there, and returns the exit code.

    `suite` is that of --suite; `source` is the tarball to take the tests from.
    0: every test is identical or differs for a known reason; 1: something else differs, failed or crashed.
    """
    from octavo.check.report import as_dict, text
    from octavo.check.run import check_builds
    from octavo.cli.output import print_json

    reports: list[CheckReport] = []
    with _CheckProgress() as progress:
        for report in check_builds(
            builds, journal, suites=suites_of(suite), covering=suite == "covering", local=source, progress=progress
        ):
            reports.append(report)
            if format is TableFormat.text:
                progress.clear()
                print(text(report), end="\n\n", flush=True)
    if format is TableFormat.json:
        print_json(as_dict(reports))
    return 0 if all(report.passed for report in reports) else 1


def suites_of(suite: str) -> tuple[str, ...]:
    """The suites that --suite names. Raises UsageError for one that does not exist."""
    from octavo.check.run import SUITES, check_suites

    found = tuple(SUITES) if suite in ("all", "covering") else tuple(suite.split(","))
    check_suites(found)
    return found


class _CheckProgress:
    """One line on a terminal, rewritten; elsewhere a line for each suite as it begins."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._doing = ""

    def __enter__(self) -> "_CheckProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, doing: str, done: int, total: int) -> None:
        """Shows how many of how many tests are done."""
        if self._live:
            self.clear()
            print(f"{doing}: {done} of {total} tests", end="", file=sys.stderr, flush=True)
        elif doing != self._doing:
            print(f"{doing}: {total} tests", file=sys.stderr, flush=True)
        self._doing = doing

    def clear(self) -> None:
        """Clears the line."""
        if self._live:
            print("\r\x1b[K", end="", file=unguarded(sys.stderr), flush=True)
