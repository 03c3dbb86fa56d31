"""The report of a check: a dict for programs, and the rows and lines that people read."""

from collections.abc import Sequence
from typing import Any

from octavo.check.classify import KINDS, changed_lines
from octavo.check.outcome import CheckReport, Suite
from octavo.check.outputs import Difference

SCHEMA_VERSION = 1
_LINES_SHOWN = 12


def as_dict(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """The reports for programs. Durations in seconds."""
    return {"schema_version": SCHEMA_VERSION, "builds": [_build(report) for report in reports]}


def _build(report: CheckReport) -> dict[str, Any]:
    manifest = report.build.manifest
    return {
        "name": report.build.name,
        **{name: manifest[name] for name in ("version", "data_block", "wal_block")},
        "passed": report.passed,
        "suites": [_suite(suite) for suite in report.suites],
    }


def _suite(suite: Suite) -> dict[str, Any]:
    return {
        "suite": suite.name,
        "tests": suite.tests,
        "identical": suite.identical,
        "allowed": len(suite.allowed),
        "failed": suite.failed,
        "skipped": [{"test": test, "reason": reason} for test, reason in suite.skipped],
        "seconds": suite.seconds,
        "differences": [
            {
                "test": judged.difference.test,
                "line": judged.difference.line,
                "statement": judged.difference.statement,
                "kind": judged.allowed.kind if judged.allowed else None,
                "reason": judged.allowed.reason if judged.allowed else None,
                "removed": changed_lines(judged.difference)[0],
                "added": changed_lines(judged.difference)[1],
            }
            for judged in suite.judged
        ],
        "failures": [
            {"test": failure.test, "what": failure.what, "details": list(failure.details)} for failure in suite.failures
        ],
        "kept": str(suite.kept),
    }


COLUMNS = ("suite", "tests", "identical", "allowed", *KINDS, "failed", "skipped")


def row(suite: Suite) -> tuple[str, ...]:
    """A suite in the columns: tests, then differences by kind, then tests."""
    kinds = (str(suite.count(kind)) for kind in KINDS)
    return (
        suite.name,
        str(suite.tests),
        str(suite.identical),
        str(len(suite.allowed)),
        *kinds,
        str(len(suite.failed)),
        str(len(suite.skipped)),
    )


def text(report: CheckReport) -> str:
    """The report on one build: the table, then each result that needs attention."""
    manifest = report.build.manifest
    lines = [
        f"PostgreSQL {manifest['version']}, data block {manifest['data_block']}, WAL block {manifest['wal_block']}"
        f"  ({report.build.name})",
        *_table([COLUMNS, *(row(suite) for suite in report.suites)]),
    ]
    for suite in report.suites:
        lines += [f"  skipped {test}: {reason}" for test, reason in suite.skipped]
        lines += _reasons(suite)
        for failure in suite.failures:
            lines.append(f"FAILED {suite.name} {failure.test}: {failure.what}")
            lines += [f"    {line}" for line in failure.details]
        for difference in suite.unexplained:
            lines += _unexplained(suite, difference)
        if suite.judged or suite.failures:
            lines.append(f"  complete differences and logs: {suite.kept}")
    lines.append("passed: every difference has a reason above" if report.passed else "FAILED")
    return "\n".join(lines)


def _reasons(suite: Suite) -> list[str]:
    """Each reason once, with the tests that it allows."""
    tests: dict[tuple[str, str], list[str]] = {}
    for judged in suite.judged:
        if judged.allowed is not None:
            found = tests.setdefault((judged.allowed.kind, judged.allowed.reason), [])
            if judged.difference.test not in found:
                found.append(judged.difference.test)
    return [
        f"  {kind}: {reason}: {', '.join(names)}"
        for (kind, reason), names in sorted(tests.items(), key=lambda item: KINDS.index(item[0][0]))
    ]


def _unexplained(suite: Suite, difference: Difference) -> list[str]:
    removed, added = changed_lines(difference)
    statement = difference.statement.splitlines() or ["its output cannot be compared with the expected one"]
    shown = [*(f"    {line}" for line in statement), *_some("-", removed), *_some("+", added)]
    return [f"FAILED {suite.name} {difference.test}, expected output line {difference.line}:", *shown]


def _some(sign: str, lines: Sequence[str]) -> list[str]:
    shown = [f"  {sign} {line}" for line in lines[:_LINES_SHOWN]]
    if len(lines) > _LINES_SHOWN:
        shown.append(f"  {sign} … {len(lines) - _LINES_SHOWN} more lines")
    return shown


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in rows
    ]
