"""The terminal: complete numbers at every width, and no colour if none is wanted."""

import io
import re

import pytest
from rich.console import Console

from octavo.report import numbers, terminal
from octavo.report.document import conditions, main_cells

from . import documents
from .surroundings import Document

COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-7])[0-9;]*m")


def printed(document: Document, width: int, *, force: bool | None = None) -> str:
    out = io.StringIO()
    terminal.print_report(document, Console(file=out, width=width, force_terminal=force))
    return out.getvalue()


def joined(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


@pytest.mark.parametrize("width", [80, 100, 109, 110, 200])
@pytest.mark.parametrize("name", ["small", "grid"])
def test_every_number_is_whole(name: str, width: int) -> None:
    document: Document = getattr(documents, name)()
    text = printed(document, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    lines = text.splitlines()
    rows = {c["id"] for condition in conditions(document) for c in main_cells(document, condition)[0]}
    assert len(rows) == (len(document["cells"]) if name == "small" else 2 * (12 + 1))
    for effect in document["effects"]:
        if effect["metric"] == "tps" and effect["cell"] in rows:
            cell = next(c for c in document["cells"] if c["id"] == effect["cell"])
            ratio = numbers.ratio_interval(effect["ratio"], effect["low"], effect["high"])
            assert any(cell["label"] in line and ratio in line for line in lines)
    for row in document["summary"]:
        if row["cell"] in rows and (row["metric"] == "tps" or "_per_transaction" in row["metric"]):
            cell = next(c for c in document["cells"] if c["id"] == row["cell"])
            value = numbers.amount(row["value"], row["unit"])
            assert any(cell["label"] in line and value in line for line in lines)


def test_sentences_reasons_and_limits_are_there(small: Document) -> None:
    text = joined(printed(small, 80))
    for verdict in small["verdicts"]:
        assert verdict["sentence"] in text
    for trial in small["trials"]:
        assert not trial["reason"] or f"1 {trial['status']}: {trial['reason']}" in text
    for limit in small["limits"]:
        assert limit in text
    assert text.count(": noise floor: ") == text.count(": standard deviation") == 2  # each after its condition
    assert text.count("* baseline") == 2


def test_an_interval_that_says_nothing_fits_its_square(grid: Document) -> None:
    for effect in grid["effects"]:
        effect.update(low=1e-5, high=2e7)
    text = printed(grid, 200)
    assert " wide " in text
    assert "×20000000" not in text


def test_no_colour_without_a_terminal(small: Document) -> None:
    assert "\x1b" not in printed(small, 80)


def test_no_colour_when_asked(small: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert COLOUR.search(printed(small, 80, force=True))
    monkeypatch.setenv("NO_COLOR", "1")
    plain = printed(small, 80, force=True)
    assert not COLOUR.search(plain)
    assert "▲ faster" in plain


def test_only_metrics_that_were_measured_have_columns(small: Document) -> None:
    small["summary"] = [row for row in small["summary"] if not row["metric"].startswith("device")]
    text = printed(small, 200)
    assert "WAL/tx" in text
    assert "read/tx" not in text


def test_hostile_text_cannot_steer_the_terminal() -> None:
    text = printed(documents.hostile(), 80)
    assert "\x1b" not in text
    assert "[red]x[/red]" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_ascii_terminal_gets_ascii(small: Document) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    terminal.print_report(small, Console(file=file, width=80))
    file.flush()
    assert b"1.108 (1.090-1.127)" in raw.getvalue()
    assert terminal.text_of("“run” ± 3 → its device’s", Console(file=file)).plain == '"run" +- 3 -> its device\'s'


def test_edge_documents_print(edge: Document) -> None:
    text = printed(edge, 80)
    assert "Trials:" in text
    if edge["run"]["status"] != "finished":
        assert "This run" in text.split("Trials:")[0]


def test_a_long_name_of_a_metric_leaves_room_for_the_cells(small: Document) -> None:
    small["metrics"]["tps"]["title"] = "time of a run (Execution Time), median"
    text = printed(small, 80)
    assert "(Execution Time)," in text
    assert any(line.strip().startswith("8kB again (A/A)") for line in text.splitlines())
