"""The report on a terminal: tables by condition, verdict sentences, uncounted trials, limitations.

Colour only repeats a sign and a word.
"""

from collections.abc import Sequence
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.plan.condition_text import capital
from octavo.report import numbers
from octavo.report.answer import answer
from octavo.report.bottlenecks import bottleneck_sentence
from octavo.report.document import (
    PER_TRANSACTION,
    SIGNS,
    Document,
    Row,
    attempted,
    cells,
    clean,
    conditions,
    effects_by_key,
    is_imported,
    left_out,
    main_cells,
    summaries,
    title,
    tone,
    unit,
)
from octavo.report.items import item_sentences
from octavo.report.memo import remembered
from octavo.report.plain import condition_text
from octavo.report.run_history import (
    absent,
    ending_sentence,
    loads_text,
    negative_controls,
    rounds_text,
    time_sentence,
)
from octavo.report.sentences import (
    FEW,
    limits_of,
    noise_sentence,
    run_notes,
    status_sentence,
    steps_sentence,
    tally,
    verdicts_of,
)
from octavo.report.statistical_model import model_sentence
from octavo.report.terminal_grid import heatmap
from octavo.units import human_count

STYLES = {"better": "color(33)", "worse": "color(208)", "undecided": "italic"}
WIDE = 110
# Letters of a metric's name in a line of a table's head.
HEAD = 18
ASCII = str.maketrans({
    "–": "-", "−": "-", "×": "x", "▲": "^", "▼": "v", "·": ".", "…": "...", "µ": "u", "�": "?", "→": "->", "±": "+-",
    "“": '"', "”": '"', "’": "'",
})  # fmt: skip


def print_report(document: Document, console: Console) -> None:
    """Print the whole report; a narrow terminal gets the bytes per transaction in a table of their own."""
    document = remembered(document)
    _heading(document, console)
    for condition in conditions(document):
        _condition(document, condition, console)
    if reported := run_notes(document):
        console.print()
    for sentence in reported:
        _say(sentence, console)
    if outstanding := item_sentences(document):
        console.print()
        _say("Queries and steps:", console)
    for sentence in outstanding:
        _say(sentence, console, bullet=True)
    console.print()
    _say("Controls and statistical model:", console)
    for condition in conditions(document):
        for sentence in _basis(document, condition):
            _say(sentence, console, bullet=True)
    _trials(document, console)
    if limits := limits_of(document):
        console.print()
        _say("Limitations:", console)
        for limit in limits:
            _say(limit, console, bullet=True)


def _condition(document: Document, condition: str, console: Console) -> None:
    """A condition's squares, its table and its verdicts."""
    console.print()
    if condition:
        console.print(text_of(capital(condition_text(condition)), console, "bold"))
    extra = [(metric, name) for metric, name in PER_TRANSACTION if _has(document, condition, metric)]
    beside = extra if console.width >= WIDE else []
    squares = heatmap(document, condition, console)
    if squares:
        console.print(squares)
    # What is no square has to be a row.
    shown, more = main_cells(document, condition) if squares else (cells(document, condition), [])
    negative = negative_controls(document)
    if squares:  # which have the negative controls; the table is for what may differ
        more = [*more, *(cell for cell in shown if cell["id"] in negative)]
        shown = [cell for cell in shown if cell["id"] not in negative]
    console.print(_cells(document, shown, beside, console))
    if more:
        _say(
            f"{human_count(len(more), 'more cell')} in the heatmap above; --format md, csv or json has all numbers.",
            console,
        )
    if extra and not beside:
        console.print(_bytes(document, shown, extra, console))
    found = [verdict for verdict in verdicts_of(document, condition) if verdict["cell"] not in negative]
    if len(found) > FEW:
        _say(f"Against the baseline: {tally(document, condition)}.", console, "bold")
        if resource := bottleneck_sentence(document, condition):
            _say(resource, console)
    for verdict in found if len(found) <= FEW else ():
        _say(verdict["sentence"], console, "bold")


def _basis(document: Document, condition: str) -> list[str]:
    """What a condition's verdicts rest on: noise floor, scatter, interim analyses, negative controls."""
    negative = negative_controls(document)
    found = [
        noise_sentence(document, condition),
        model_sentence(document, condition),
        steps_sentence(document, condition),
    ]
    several = len(conditions(document)) > 1 and condition
    return [
        *(
            f"{capital(condition_text(condition))}: {text[0].lower()}{text[1:]}" if several else text
            for text in filter(None, found)
        ),
        *(one["sentence"] for one in verdicts_of(document, condition) if one["cell"] in negative),  # which name it
    ]


def _plain(text: object, console: Console) -> str:
    """Text without control characters, and in ASCII where the terminal can do no more."""
    line = clean(text)
    if console.encoding.lower().replace("-", "").startswith("utf"):
        return line
    return line.translate(ASCII).encode("ascii", "replace").decode()


def text_of(text: object, console: Console, style: str = "") -> Text:
    """Text as this terminal can show it."""
    return Text(_plain(text, console), style=style, overflow="fold")


def _say(text: object, console: Console, style: str = "", *, bullet: bool = False) -> None:
    grid = Table.grid(padding=(0, 1, 0, 0))
    if bullet:
        grid.add_row("-", text_of(text, console, style))
    else:
        grid.add_row(text_of(text, console, style))
    console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def _heading(document: Document, console: Console) -> None:
    run = document["run"]
    for alarm in document.get("alarms", ()):
        console.print(text_of(f"! {alarm}", console, "bold"))
    if state := status_sentence(document):
        console.print(text_of(state, console, "bold"))
    console.print(text_of(run.get("question") or run["name"], console, "italic"))
    found = answer(document)
    console.print(text_of(found.headline, console, "bold"))
    for line in found.lines:
        _say(line, console, bullet=True)
    if ending := ending_sentence(document):
        console.print(text_of(ending, console))
    facts = [
        run["name"],
        run["id"],
        run["workload"],
        rounds_text(document),
        loads_text(document),
    ]
    if not is_imported(document):
        facts.append(f"seed {run['seed']}")
    if run.get("wal_regime"):
        facts.append(f"WAL regime {run['wal_regime']}")
    console.print(text_of(" · ".join(str(fact) for fact in facts), console))


def _has(document: Document, condition: str, metric: str) -> bool:
    here = {cell["id"] for cell in cells(document, condition)}
    return any(row["metric"] == metric and row["cell"] in here for row in document["summary"])


def bare_table(console: Console) -> Table:
    """A table of columns without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim" if console.is_terminal else "")


def _cells(document: Document, shown: Sequence[Row], extra: list[tuple[str, str]], console: Console) -> Padding:
    """One row a cell: primary metric, ratio to the baseline, verdict, and more metrics when they fit."""
    primary = document["run"]["primary_metric"]
    summary, effects = summaries(document), effects_by_key(document)
    missing, negative = absent(document), negative_controls(document)
    table = bare_table(console)
    table.add_column("cell", overflow="fold", max_width=max(16, console.width - 53))
    head = "\n".join(wrap(_plain(title(document, primary), console), HEAD))
    table.add_column(escape(head), justify="right", no_wrap=True)
    table.add_column("ratio (95 % interval)", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for _, name in extra:
        table.add_column(name, justify="right", no_wrap=True)
    for cell in shown:
        row, effect = summary.get((cell["id"], primary, None)), effects.get((cell["id"], primary, None))
        value = numbers.amount(row["value"], row["unit"]) if row else numbers.MISSING
        if cell["baseline"]:
            ratio, verdict, kind = "1", "baseline", "none"
        elif effect is None:
            ratio, verdict, kind = numbers.MISSING, missing.get(cell["id"], "no estimate"), "none"
        else:
            ratio = numbers.ratio_interval(effect["ratio"], effect["low"], effect["high"])
            verdict, kind = effect["verdict"], tone(effect)
        sign = "*" if cell["baseline"] else SIGNS[kind]
        style = STYLES.get(kind, "")
        label = f"{cell['label']}{note(cell, negative)}"
        more = [summary.get((cell["id"], metric, None)) for metric, _ in extra]
        table.add_row(
            text_of(label, console, "bold" if cell["baseline"] else ""),
            text_of(value, console),
            text_of(ratio, console, style),
            text_of(f"{sign} {verdict}", console, style),
            *(text_of(numbers.amount(m["value"], m["unit"]) if m else numbers.MISSING, console) for m in more),
        )
    return Padding(table, (0, 0, 0, 2), expand=False)


def note(cell: Row, negative: set[str]) -> str:
    """The role of a cell, shown after its label."""
    return " (A/A)" if cell["control"] else " (negative control)" if cell["id"] in negative else ""


def _bytes(document: Document, shown: Sequence[Row], extra: list[tuple[str, str]], console: Console) -> Padding:
    """The bytes per transaction alone, for a narrow terminal."""
    summary = summaries(document)
    table = bare_table(console)
    table.add_column("bytes per transaction", overflow="fold", max_width=max(16, console.width - 44))
    for _, name in extra:
        table.add_column(name.removesuffix("/tx"), justify="right", no_wrap=True)
    for cell in shown:
        rows = [summary.get((cell["id"], metric, None)) for metric, _ in extra]
        values = [numbers.amount(row["value"], row["unit"]) if row else numbers.MISSING for row in rows]
        table.add_row(text_of(cell["label"], console), *(text_of(value, console) for value in values))
    return Padding(table, (1, 0, 1, 2), expand=False)


def _trials(document: Document, console: Console) -> None:
    """How many trials there were, how many counted, and why the others did not."""
    trials = attempted(document)
    used = sum(1 for trial in trials if trial["used"])
    console.print()
    _say(f"Trials: {len(trials):,}, of which {used:,} counted.", console)
    if spent := time_sentence(document):
        _say(spent, console)
    for group in left_out(document):
        _say(f"{len(group.trials):,} {group.status}: {group.reason}", console, bullet=True)
    metric = document["run"]["primary_metric"]
    seen = unit(document, metric)
    _say(
        f"* marks the baseline; ratios are of {title(document, metric)}{f' ({seen})' if seen else ''}, "
        "paired within rounds.",
        console,
    )
