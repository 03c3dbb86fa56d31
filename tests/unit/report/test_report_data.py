"""CSV, JSON and Markdown: complete and unaltered."""

import csv
import io
import json
import math

import pytest

from octavo.report import as_json, csv_rows, markdown

from . import documents
from .surroundings import Document


@pytest.mark.parametrize("name", ["small", "grid", "hostile", "queries", "unfinished"])
def test_csv_has_every_observation(name: str) -> None:
    document: Document = getattr(documents, name)()
    rows = list(csv.DictReader(io.StringIO(csv_rows.render(document), newline="")))
    expected = [(trial, seen) for trial in document["trials"] for seen in trial["observations"]]
    assert len(rows) == len(expected) > 0
    for row, (trial, seen) in zip(rows, expected, strict=True):
        assert row["trial"] == str(trial["id"])
        assert row["cell"] == trial["cell"]
        assert row["used"] == str(trial["used"]).lower()
        assert row["status"] == trial["status"]
        assert float(row["value"]) == seen["value"]
        assert (row["metric"], row["unit"], row["item"]) == (seen["metric"], seen["unit"], seen["item"] or "")
        assert {key: row[key] for key in trial["levels"]} == trial["levels"]


def test_csv_factor_named_like_a_column(small: Document) -> None:
    for row in (*small["cells"], *small["trials"]):
        row["levels"]["status"] = "asleep"
    rows = list(csv.DictReader(io.StringIO(csv_rows.render(small))))
    assert rows[0]["status"] == "ok"
    assert rows[0]["factor_status"] == "asleep"


@pytest.mark.parametrize("name", ["small", "grid", "hostile", "all_invalid"])
def test_json_round_trips(name: str) -> None:
    document: Document = getattr(documents, name)()
    text = as_json.render(document)
    assert json.loads(text) == document
    assert text.startswith('{\n  "schema_version": 2')


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_refuses_what_json_cannot_say(small: Document, value: float) -> None:
    small["effects"][0]["ratio"] = value
    with pytest.raises(ValueError, match="JSON"):
        as_json.render(small)


def test_markdown_fits_a_mail(small: Document, grid: Document) -> None:
    for document in (small, grid):
        text = markdown.render(document)
        assert max(len(line) for line in text.splitlines()) <= 100
        flat = " ".join(text.split())
        for verdict in document["verdicts"]:
            assert verdict["sentence"] in flat
        for cell in document["cells"]:
            assert f"| {cell['label']} " in text
    assert "- 1 invalid: another process used 31 %" in markdown.render(small)


def test_markdown_keeps_hostile_text_harmless() -> None:
    document = documents.hostile()
    for row in document["summary"]:
        row["unit"] = "<script>|x"
    document["environment"]["host"]["cores"] = "<script>"
    text = markdown.render(document)
    before = text[: text.index("## Repeat it")]
    assert "\x1b" not in before
    assert "\\<script>" in before
    assert "<script>" not in before.replace("\\<script>", "")
    rows = [line for line in before.splitlines() if line.startswith("|")]
    assert "\\<script>\\|x" in " ".join(rows)
    assert all(line.replace("\\|", "").count("|") in (4, 5) for line in rows)  # a unit adds no column


def test_a_backslash_in_a_name_does_not_undo_what_is_escaped() -> None:
    """A backslash before one of ours would make it text, and what follows markup."""
    assert markdown.safe(r"\<img src=x> a\|b \n") == r"\\\<img src=x> a\\\|b \\n"


def test_markdown_of_edges(edge: Document) -> None:
    text = markdown.render(edge)
    assert "## Verdict" in text
    assert ("No verdict yet." in text) == (not edge["verdicts"])
