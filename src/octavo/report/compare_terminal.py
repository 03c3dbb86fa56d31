"""A comparison on a terminal: the decisions, a table for each run and condition, the differences, and the
limitations."""

from rich.console import Console
from rich.table import Table as RichTable

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
from octavo.report.document import SIGNS
from octavo.report.plain import condition_text
from octavo.report.terminal import STYLES, bare_table, text_of
from octavo.units import human_count

WIDE = 100


def print_comparison(document: Comparison, console: Console) -> None:
    """Prints the whole comparison; a narrow terminal gets the effects in tables of their own."""
    letters = names(document)
    for run in document["runs"]:
        role = " (reference)" if run is document["runs"][0] else ""
        text = f"{run['used']} of {run['trials']} trials, {human_count(run['loads'], 'load')}"
        console.print(text_of(f"{letters[run['id']]}  {run['id']}{role} · {run['workload']} · {text}", console))
    console.print()
    console.print(text_of(conclusion(document), console, "bold"))
    title = document["metrics"][document["primary_metric"]]["title"]
    for one in tables(document):
        console.print()
        letter = letters[one.run]
        head = f"{capital(condition_text(one.condition))}: " if one.condition else ""
        console.print(text_of(f"{head}{title}, {letter} against A", console, "bold"))
        has_effects = any(line.effect for line in one.lines)
        console.print(_values(one, letter, console, effects=has_effects and console.width >= WIDE))
        if has_effects and console.width < WIDE:
            console.print(_effects(one, letter, console))
    heads, rows = differences(document)
    if rows:
        console.print()
        console.print(text_of("Differences between the runs", console, "bold"))
        table = bare_table(console)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*(text_of(entry, console) for entry in row))
        console.print(table)
    console.print()
    for sentence in (*left_out(document), *document["limits"]):
        console.print(text_of(f"- {sentence}", console))


def _values(one: ComparisonTable, letter: str, console: Console, *, effects: bool) -> RichTable:
    table = bare_table(console)
    table.add_column("cell", overflow="fold")
    for head in ("A", letter, f"{letter}/A (95 %)"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    if effects:
        table.add_column(f"against own baseline, A → {letter}", no_wrap=True)
    for line in one.lines:
        style = STYLES.get(line.tone, "")
        table.add_row(
            text_of(line.cell, console),
            text_of(line.reference, console),
            text_of(line.value, console),
            text_of(line.ratio, console, style),
            text_of(f"{SIGNS.get(line.tone, '?')} {line.verdict}", console, style),
            *([text_of(f"{line.effect}  {line.effect_verdict}", console)] if effects else []),
        )
    return table


def _effects(one: ComparisonTable, letter: str, console: Console) -> RichTable:
    table = bare_table(console)
    for head in ("cell", f"against own baseline, A → {letter}", "verdict"):
        table.add_column(head, overflow="fold")
    for line in one.lines:
        if line.effect:
            texts = (line.cell, line.effect, line.effect_verdict)
            table.add_row(*(text_of(text, console) for text in texts))
    return table
