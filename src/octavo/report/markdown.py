"""The report as Markdown that also reads well as plain text in a mail."""

import re
import textwrap
from collections.abc import Sequence

from octavo.analysis.limitations import recorded_hosts
from octavo.plan.condition_text import capital
from octavo.report import numbers
from octavo.report.answer import answer
from octavo.report.bottlenecks import bottleneck_sentence
from octavo.report.document import (
    PER_TRANSACTION,
    Document,
    Row,
    attempted,
    cells,
    clean,
    conditions,
    effects_by_key,
    is_imported,
    left_out,
    summaries,
    title,
)
from octavo.report.items import item_sentences
from octavo.report.memo import remembered
from octavo.report.plain import condition_text
from octavo.report.run_history import absent, ending_sentence, negative_controls, rounds_text, time_sentence
from octavo.report.sentences import limits_of, noise_sentence, run_notes, status_sentence, steps_sentence
from octavo.report.statistical_model import model_sentence
from octavo.report.terminal import note

WIDTH = 78


def render(document: Document) -> str:
    """Verdicts first, then a table for each condition, uncounted trials, limitations, machine and plan."""
    document = remembered(document)
    run = document["run"]
    parts = [f"# {safe(run['name'])}"]
    parts += [wrap(f"**{safe(alarm)}**") for alarm in document.get("alarms", ())]
    if state := status_sentence(document):
        parts.append(wrap(f"**{safe(state)}**"))
    if run.get("question"):
        parts.append(wrap(safe(run["question"])))
    found = answer(document)
    parts.append(wrap(f"**{safe(found.headline)}**"))
    if found.lines:
        parts.append("\n".join(wrap(f"- {safe(line)}", "  ") for line in found.lines))
    sentences = [wrap(f"- {safe(verdict['sentence'])}", "  ") for verdict in document["verdicts"]]
    parts.append("## Verdict\n\n" + ("\n".join(sentences) or "No verdict yet."))
    for condition in conditions(document):
        parts.append(f"## {safe(capital(condition_text(condition))) or 'Results'}\n\n{_cells(document, condition)}")
        parts.append(wrap(safe(noise_sentence(document, condition))))
        if basis := model_sentence(document, condition):
            parts.append(wrap(safe(basis)))
        if course := steps_sentence(document, condition):
            parts.append(wrap(safe(course)))
        if resource := bottleneck_sentence(document, condition):
            parts.append(wrap(safe(resource)))
    if reported := item_sentences(document):
        parts.append("## Queries and steps\n\n" + "\n".join(wrap(f"- {safe(sentence)}", "  ") for sentence in reported))
    parts.append(_trials(document))
    if limits := limits_of(document):
        lines = [wrap(f"- {safe(limit)}", "  ") for limit in limits]
        parts.append("## Limitations\n\n" + "\n".join(lines))
    parts.append(_machine(document))
    plan = str(run["plan"]).rstrip()
    fence = "`" * max(3, 1 + max([len(ticks) for ticks in re.findall(r"`+", plan)], default=0))
    parts.append(f"## Repeat it\n\n    {clean(run['repeat'])}\n\n{fence}toml\n{plan}\n{fence}")
    return "\n\n".join(parts) + "\n"


def safe(text: object) -> str:
    """Text on one line that stays text: no tables, no HTML, no links or emphasis from a name.

    >>> safe("a|b <script> x < y")
    'a\\\\|b \\\\<script> x < y'
    """
    return re.sub(r"(<(?=[a-zA-Z/!?])|[\\|`*\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", clean(text))


def wrap(text: str, indent: str = "") -> str:
    """A paragraph in lines of a mail; long words stay whole, and so do a figure and its percent sign."""
    whole = text.replace(" %", "\0%")
    lines = textwrap.fill(whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\0%", " %")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A pipe table with aligned columns; all but the first `left` are set to the right.

    >>> print(table(["cell", "TPS"], [["4kB", "1,230"]]))
    | cell |   TPS |
    |:-----|------:|
    | 4kB  | 1,230 |
    """
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "| " + " | ".join(padded) + " |"

    rule = "".join(f"|:{'-' * (w + 1)}" if i < left else f"|{'-' * (w + 1)}:" for i, w in enumerate(widths))
    return "\n".join([line(head), rule + "|", *(line(row) for row in rows)])


def _cells(document: Document, condition: str) -> str:
    """The primary metric with ratio and verdict, then the bytes per transaction when they were measured."""
    primary = document["run"]["primary_metric"]
    summary, effects = summaries(document), effects_by_key(document)
    missing, negative = absent(document), negative_controls(document)
    rows: list[list[str]] = []
    more: list[list[str]] = []
    extra = [pair for pair in PER_TRANSACTION if any(row["metric"] == pair[0] for row in document["summary"])]
    for cell in cells(document, condition):
        row, effect = summary.get((cell["id"], primary, None)), effects.get((cell["id"], primary, None))
        value = _value(row)
        ratio, verdict = numbers.MISSING, missing.get(cell["id"], "no estimate")
        if cell["baseline"]:
            ratio, verdict = "1", "baseline"
        if effect is not None and not cell["baseline"]:
            ratio = numbers.ratio_interval(effect["ratio"], effect["low"], effect["high"])
            verdict = safe(effect["verdict"])
        label = safe(cell["label"]) + note(cell, negative)
        rows.append([label, verdict, value, ratio])
        seen = [summary.get((cell["id"], metric, None)) for metric, _ in extra]
        more.append([label, *map(_value, seen)])
    text = table(["cell", "verdict", safe(title(document, primary)), "ratio (95 % interval)"], rows, left=2)
    if extra:
        heads = [name.removesuffix("/tx") for _, name in extra]
        text += "\n\n" + table(["bytes per transaction", *heads], more)
    return text


def _value(row: Row | None) -> str:
    """A cell's value in its unit, whose name may be anybody's."""
    return safe(numbers.amount(row["value"], row["unit"])) if row else numbers.MISSING


def _trials(document: Document) -> str:
    trials = attempted(document)
    used = sum(1 for trial in trials if trial["used"])
    sentences = [
        ending_sentence(document),
        f"{len(trials):,} trials in {rounds_text(document)}, of which {used:,} counted.",
    ]
    sentences += [*run_notes(document), time_sentence(document)]
    text = "## Trials\n\n" + "\n\n".join(wrap(safe(sentence)) for sentence in sentences if sentence)
    lines = [wrap(f"- {len(g.trials):,} {safe(g.status)}: {safe(g.reason)}", "  ") for g in left_out(document)]
    return text + ("\n\n" + "\n".join(lines) if lines else "")


def _machine(document: Document) -> str:
    """Where it ran, what was pinned, what could not be."""
    environment, run = document["environment"], document["run"]
    hosts = recorded_hosts(environment)
    first: Row = environment.get("host") or {}
    of = f" on {safe(first.get('hostname', 'one host'))}" if len(hosts) > 1 else ""
    made = "imported" if is_imported(document) else f"seed {safe(run['seed'])}, started"
    facts = [f"- run {safe(run['id'])}, {made} {safe(run['started'])}"]
    for name, its in hosts.items():
        host: Row = its.get("host") or {}
        if not host and is_imported(document):
            continue
        facts.append(
            f"- {f'{safe(name)}: ' if name else ''}"
            f"{safe(host.get('cpu', 'CPU unknown'))}, {safe(host.get('cores', '?'))} cores, "
            f"{numbers.size(host.get('memory_bytes'))} memory, kernel {safe(host.get('kernel', 'unknown'))}, "
            f"{safe(host.get('distribution', 'distribution unknown'))}, "
            f"virtualization: {safe(host.get('virtualization') or 'none found')}"
        )
    stack = [f"{safe(row['layer'])} {safe(row['value'])}" for row in first.get("page_stack", [])]
    if stack:
        facts.append(f"- page stack{of}: {', '.join(stack)}")
    facts += [
        f"- build{of} {safe(b['name'])}: data block {safe(b['data_block'])}, WAL block {safe(b['wal_block'])}"
        for b in environment.get("builds", [])
    ]
    pinned = [f"{safe(name)} = {safe(value)}" for name, value in environment.get("pinned", {}).items()]
    if pinned:
        facts.append("- pinned: " + ", ".join(pinned))
    varying = [f"{safe(name)} = {safe(value)}" for name, value in environment.get("varying", {}).items()]
    if varying:
        facts.append("- pinned, and different with a factor: " + ", ".join(varying))
    facts += [f"- not pinned: {safe(row['name'])}: {safe(row['reason'])}" for row in environment.get("not_pinned", [])]
    return "## Environment\n\n" + "\n".join(wrap(fact, "  ") for fact in facts)
