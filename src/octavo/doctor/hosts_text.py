"""The table of many hosts in the terminal, and as Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.hosts import headline
from octavo.doctor.markdown import plain

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": ""}


def show(found: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    """One line per server, the worst first; with `verbose` all its findings by name."""
    out.print(Text(headline(found), "bold"))
    out.print()
    table = Table("host", "server", "page", "block", *SEVERITIES, "worst", box=None, pad_edge=False)
    for at in (2, 3, 4, 5, 6):
        table.columns[at].justify = "right"
        table.columns[at].no_wrap = True
    for row in found["rows"]:
        if row["problem"] is not None:
            table.add_row(
                row["host"], row["server"], "", "", "?", "?", "?", Text(f"not examined: {row['problem']}", "dim")
            )
            continue
        numbers = [Text(str(row["findings"][one] or "–"), _STYLES[one] if row["findings"][one] else "dim")
                   for one in SEVERITIES]  # fmt: skip
        said = row["rules"] if verbose else row["rules"][:1]
        words = "\n".join(said) if verbose else f"{_rule(said)}{row['worst']}"
        table.add_row(row["host"], _server(row), row["kernel_page"], row["data_block"], *numbers, words)
    out.print(table)
    out.print()
    out.print("octavo doctor on a host shows the cost and remedy of each finding; --format json has everything")


def markdown(found: Mapping[str, Any]) -> str:
    """The same table as a Markdown document."""
    return "\n".join(_lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {plain(headline(found))}\n"
    yield f"| host | class | server | page | block | {' | '.join(SEVERITIES)} | findings |"
    yield f"| --- | --- | --- | ---: | ---: | {' | '.join('---:' for _ in SEVERITIES)} | --- |"
    for row in found["rows"]:
        if row["problem"] is not None:
            cells = [row["host"], row["class"], row["server"], "", "", *("?" for _ in SEVERITIES)]
            yield f"| {' | '.join(map(plain, cells))} | not examined: {plain(row['problem'])} |"
            continue
        numbers = [str(row["findings"][one]) for one in SEVERITIES]
        cells = [row["host"], row["class"], _server(row), row["kernel_page"], row["data_block"], *numbers]
        yield f"| {' | '.join(map(plain, cells))} | {plain('; '.join(row['rules']) or 'none')} |"


def _server(row: Mapping[str, Any]) -> str:
    return f"{row['version']} {row['server']}".strip()


def _rule(rules: list[str]) -> str:
    return f"{rules[0].partition(': ')[2]}: " if rules else ""
