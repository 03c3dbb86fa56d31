"""A report in the terminal: the verdict, the page stack, the findings, worst first."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.doctor.words import evidence, tally, verdict

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


def view(report: Mapping[str, Any], *, verbose: bool) -> RenderableType:
    """All servers below each other."""
    parts: list[RenderableType] = []
    for server in report["servers"]:
        parts += [*_server(server, verbose=verbose), ""]
    return Group(*parts[:-1])


def _server(server: Mapping[str, Any], *, verbose: bool) -> Iterator[RenderableType]:
    yield Text(verdict(server), "bold")
    if server["problem"]:
        yield Text(f"It could not be asked: {server['problem']}")
    yield ""
    yield _stack(server)
    for result in server["results"]:
        if result["status"] == "finding":
            yield ""
            yield from _finding(result, verbose=verbose)
    yield ""
    if not verbose:
        yield Text(f"{tally(server)}; --verbose lists them, --explain RULE says what a rule is")
        return
    yield _others(server)


def _stack(server: Mapping[str, Any]) -> Table:
    table = Table("layer", "size", "", "known from", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for row in server["page_stack"]:
        marks = ", ".join(row["findings"])
        table.add_row(row["layer"], row["value"], Text(f"◄ {marks}" if marks else "", "yellow"), row["detail"])
    return table


def _finding(result: Mapping[str, Any], *, verbose: bool) -> Iterator[RenderableType]:
    head = Text(f"{result['severity'].upper()} ", _STYLES[result["severity"]])
    yield head.append(f"{result['rule']}: ", "bold").append(result["text"], "default")
    yield Padding(Text(f"cost: {result['cost']}"), (0, 0, 0, 2))
    yield Padding(Text(f"to do ({result['takes']}):"), (0, 0, 0, 2))
    for line in result["fix"]:
        yield Padding(Text(line), (0, 0, 0, 6))
    yield Padding(Text(f"check: {result['check']}"), (0, 0, 0, 2))
    seen = evidence(result)
    yield Padding(Text(f"seen: {'; '.join(seen if verbose else seen[:_MOST_EVIDENCE])}", "dim"), (0, 0, 0, 2))
    if verbose:
        yield Padding(Text(f"source: {result['source']}", "dim"), (0, 0, 0, 2))


_MOST_EVIDENCE = 4


def _others(server: Mapping[str, Any]) -> Table:
    table = Table("rule", "", "", box=None, pad_edge=False)
    for result in server["results"]:
        if result["status"] != "finding":
            table.add_row(result["rule"], result["status"], result["text"])
    return table
