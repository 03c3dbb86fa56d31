"""A comparison as Markdown that also reads well as plain text in a mail."""

from octavo.plan.condition_text import capital
from octavo.report.compare_sentences import Comparison, conclusion, differences, left_out, names, tables
from octavo.report.markdown import safe, table, wrap
from octavo.report.plain import condition_text


def render(document: Comparison) -> str:
    """The decisions, a table for each run and condition, the differences, and the limitations."""
    letters = names(document)
    runs = [
        f"- {letters[run['id']]}: {safe(run['id'])}, {safe(run['workload'])}, {run['used']} of {run['trials']} trials"
        for run in document["runs"]
    ]
    title = document["metrics"][document["primary_metric"]]["title"]
    parts = ["# Comparison of runs", "\n".join(runs), wrap(f"**{safe(conclusion(document))}**")]
    for one in tables(document):
        letter = letters[one.run]
        head = f"{safe(capital(condition_text(one.condition)))}: " if one.condition else ""
        rows = [
            [safe(line.cell), safe(line.verdict), safe(line.reference), safe(line.value), line.ratio]
            for line in one.lines
        ]
        heads = ["cell", "verdict", "A", letter, f"{letter}/A (95 %)"]
        parts.append(f"## {head}{safe(title)}, {letter} against A\n\n{table(heads, rows, left=2)}")
        effects = [[safe(line.cell), safe(line.effect_verdict), line.effect] for line in one.lines if line.effect]
        if effects:
            parts.append(table(["against own baseline", f"{letter} …", f"A → {letter}"], effects, left=2))
    heads, found = differences(document)
    if found:
        cells = [[safe(entry) for entry in row] for row in found]
        parts.append(f"## Differences between the runs\n\n{table(heads, cells, left=len(heads))}")
    sentences = [wrap(f"- {safe(sentence)}", "  ") for sentence in (*left_out(document), *document["limits"])]
    parts.append("## Limitations\n\n" + "\n".join(sentences))
    return "\n\n".join(parts) + "\n"
