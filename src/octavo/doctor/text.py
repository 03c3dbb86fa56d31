"""A report in the terminal: the verdict, the page stack, the findings, worst first."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.doctor.sentences import evidence, layers, others, tally, unknowns, verdict

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
_MOST_EVIDENCE = 4


def show(report: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    """Prints all servers in sequence. Lines to copy are not wrapped, however narrow the terminal is."""
    for at, server in enumerate(report["servers"]):
        if at:
            out.print()
        _server(server, out, verbose=verbose)


def _server(server: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    out.print(Text(verdict(server), "bold"))
    if server["problem"]:
        out.print(f"Not examined: {server['problem']}")
    out.print()
    out.print(_stack(server))
    for result in server["results"]:
        if result["status"] == "finding":
            out.print()
            _finding(result, out, verbose=verbose)
    out.print()
    if verbose:
        out.print(_others(server))
    else:
        for line in unknowns(server):
            out.print(line)
        out.print(f"{tally(server)}; --verbose lists them, --explain RULE describes a rule")


def _stack(server: Mapping[str, Any]) -> Table:
    table = Table("layer", "size", "", "known from", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for row in layers(server):
        marks = ", ".join(row["findings"])
        table.add_row(row["layer"], row["value"], Text(f"◄ {marks}" if marks else "", "yellow"), row["detail"])
    return table


def _finding(result: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    head = Text(f"{result['severity'].upper()} ", _STYLES[result["severity"]])
    out.print(head.append(f"{result['rule']}: ", "bold").append(result["text"], "default"))
    out.print(_indented(f"cost: {result['cost']}"))
    out.print(_indented(f"to do ({result['takes']}):"))
    for line in result["fix"]:
        out.print(Text(f"      {line}"), soft_wrap=True)
    out.print(Text(f"  check: {result['check']}"), soft_wrap=True)
    seen = evidence(result)
    out.print(_indented(f"evidence: {'; '.join(seen if verbose else seen[:_MOST_EVIDENCE])}", "dim"))
    out.print(_indented(f"source: {result['source']}", "dim"))


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style), (0, 0, 0, 2))


def _others(server: Mapping[str, Any]) -> Table:
    table = Table("rule", "", "", box=None, pad_edge=False)
    for row in others(server):
        table.add_row(*row)
    return table
