"""`octavo build --check-operations`: tests a DBA's operations on real servers of a build."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.host.journal import Journal
    from octavo.operations import OperationsReport
    from octavo.operations.base import OperationOutcome
    from octavo.postgres.builds.cache import Build

_SCHEMA_VERSION = 1


def check_operations(builds: Sequence["Build"], journal: "Journal", format: TableFormat) -> int:
    """Tests the operations with each build and prints the results. Returns the exit code: 1 when one failed."""
    from octavo.cli.output import print_json
    from octavo.operations import check_operations as check
    from octavo.postgres.builds.cache import list_builds

    reports: list[OperationsReport] = []
    for build in builds:
        print(f"operations of {_title(build)}", file=sys.stderr, flush=True)
        reports.append(check(build, list_builds(), journal, on_outcome=_print_outcome))
        if format is TableFormat.text:
            _print_table(reports[-1])
    if format is TableFormat.json:
        print_json({"schema_version": _SCHEMA_VERSION, "builds": [_as_dict(report) for report in reports]})
    return 0 if all(report.passed for report in reports) else 1


def _print_outcome(outcome: "OperationOutcome") -> None:
    print(f"  {outcome.result:7} {outcome.seconds:6.1f} s  {outcome.name}", file=sys.stderr, flush=True)


def _print_table(report: "OperationsReport") -> None:
    from rich.table import Table

    from octavo.cli.output import console

    table = Table(
        "operation", "result", "seconds", "evidence",
        title=_title(report.build), title_justify="left", title_style="bold", box=None, pad_edge=False,
    )  # fmt: skip
    table.columns[0].no_wrap = True
    table.columns[2].justify = "right"
    for outcome in report.outcomes:
        table.add_row(outcome.name, outcome.result, f"{outcome.seconds:.1f}", outcome.evidence)
    console().print(table)
    print(_sentence(report))


def _sentence(report: "OperationsReport") -> str:
    """The number of operations with each result, in words."""
    counts = {
        result: sum(outcome.result == result for outcome in report.outcomes) for result in ("ok", "failed", "skipped")
    }
    return ", ".join(f"{count} {result}" for result, count in counts.items() if count)


def _title(build: "Build") -> str:
    from octavo.operations.related_builds import described

    return f"PostgreSQL {described(build)}"


def _as_dict(report: "OperationsReport") -> dict[str, Any]:
    build = report.build
    return {
        **{name: build.manifest[name] for name in ("version", "data_block", "wal_block")},
        "path": str(build.prefix),
        "passed": report.passed,
        "operations": [
            {
                "name": outcome.name,
                "result": outcome.result,
                "seconds": outcome.seconds,
                "evidence": outcome.evidence,
                "figures": dict(outcome.figures),
            }
            for outcome in report.outcomes
        ],
    }
