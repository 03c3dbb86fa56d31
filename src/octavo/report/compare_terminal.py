"""A comparison on a terminal: the decisions, a table for each run and condition, the differences, and the
limitations."""

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from octavo.plan.condition_text import capital
from octavo.report.compare_sentences import (
    Comparison,
    ComparisonTable,
    conclusion,
    differences,
    left_out,
    names,
    tables,
)
from octavo.report.document import SIGNS, clean
from octavo.report.plain import condition_text
from octavo.report.terminal import ASCII, STYLES
from octavo.units import human_count

WIDE = 100


def print_comparison(document: Comparison, console: Console) -> None:
    """Prints the whole comparison; a narrow terminal gets the effects in tables of their own."""
    letters = names(document)
    for run in document["runs"]:
        role = " (reference)" if run is document["runs"][0] else ""
        text = f"{run['used']} of {run['trials']} trials, {human_count(run['loads'], 'load')}"
        console.print(_text(f"{letters[run['id']]}  {run['id']}{role} · {run['workload']} · {text}", console))
    console.print()
    console.print(_text(conclusion(document), console, "bold"))
    title = document["metrics"][document["primary_metric"]]["title"]
    for one in tables(document):
        console.print()
        letter = letters[one.run]
        head = f"{capital(condition_text(one.condition))}: " if one.condition else ""
        console.print(_text(f"{head}{title}, {letter} against A", console, "bold"))
        has_effects = any(line.effect for line in one.lines)
        console.print(_values(one, letter, console, effects=has_effects and console.width >= WIDE))
        if has_effects and console.width < WIDE:
            console.print(_effects(one, letter, console))
    heads, rows = differences(document)
    if rows:
        console.print()
        console.print(_text("Differences between the runs", console, "bold"))
        table = _table(console)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*(_text(entry, console) for entry in row))
        console.print(table)
    console.print()
    for sentence in (*left_out(document), *document["limits"]):
        console.print(_text(f"- {sentence}", console))


def _values(one: ComparisonTable, letter: str, console: Console, *, effects: bool) -> RichTable:
    table = _table(console)
    table.add_column("cell", overflow="fold")
    for head in ("A", letter, f"{letter}/A (95 %)"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    if effects:
        table.add_column(f"against own baseline, A → {letter}", no_wrap=True)
    for line in one.lines:
        style = STYLES.get(line.tone, "")
        table.add_row(
            _text(line.cell, console),
            _text(line.reference, console),
            _text(line.value, console),
            _text(line.ratio, console, style),
            _text(f"{SIGNS.get(line.tone, '?')} {line.verdict}", console, style),
            *([_text(f"{line.effect}  {line.effect_verdict}", console)] if effects else []),
        )
    return table


def _effects(one: ComparisonTable, letter: str, console: Console) -> RichTable:
    table = _table(console)
    for head in ("cell", f"against own baseline, A → {letter}", "verdict"):
        table.add_column(head, overflow="fold")
    for line in one.lines:
        if line.effect:
            texts = (line.cell, line.effect, line.effect_verdict)
            table.add_row(*(_text(text, console) for text in texts))
    return table


def _table(console: Console) -> RichTable:
    return RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim" if console.is_terminal else "")


def _text(text: object, console: Console, style: str = "") -> Text:
    line = clean(text)
    if not console.encoding.lower().replace("-", "").startswith("utf"):
        line = line.replace("→", "->").translate(ASCII).encode("ascii", "replace").decode()
    return Text(line, style=style, overflow="fold")
