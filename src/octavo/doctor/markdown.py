"""A report as Markdown; text of the host and the server is escaped."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from octavo.doctor.sentences import evidence, layers, others, tally, unknowns, verdict
from octavo.text import one_line, printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!])")


def render(report: Mapping[str, Any], *, verbose: bool) -> str:
    """All servers, each with a heading."""
    lines: list[str] = []
    for server in report["servers"]:
        lines += [*_server(server, verbose=verbose), ""]
    return "\n".join(lines)


def _server(server: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    yield f"# {plain(verdict(server))}"
    yield ""
    if server["problem"]:
        yield f"Not examined: {plain(server['problem'])}\n"
    yield "| layer | size | findings | known from |"
    yield "| --- | ---: | --- | --- |"
    for row in layers(server):
        cells = (row["layer"], row["value"], ", ".join(row["findings"]), row["detail"])
        yield f"| {' | '.join(map(plain, cells))} |"
    for result in server["results"]:
        if result["status"] != "finding":
            continue
        yield f"\n## {result['severity']}: {result['rule']}\n"
        yield f"{plain(result['text'])}\n\n**Cost:** {plain(result['cost'])}\n"
        yield f"**To do** ({plain(result['takes'])}):\n"
        yield _block(result["fix"])
        yield f"\n**Check:**\n\n{_block([result['check']])}\n"
        yield f"**Evidence:** {plain('; '.join(evidence(result)))}\n\n**Source:** {plain(result['source'])}"
    for line in () if verbose else unknowns(server):
        yield f"\n{plain(line)}"
    yield f"\n{tally(server)}."
    if verbose:
        yield "\n| rule | result | |\n| --- | --- | --- |"
        for rule, status, text in others(server):
            yield f"| {rule} | {status} | {plain(text)} |"


def plain(text: object) -> str:
    """The text on one line, with Markdown's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _block(lines: list[str]) -> str:
    """Lines as an indented code block, which no content can end."""
    return "\n".join(f"    {printable(line)}" for line in lines) + "\n"
