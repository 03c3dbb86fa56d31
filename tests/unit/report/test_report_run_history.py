"""The history of a run: every way in which a cell gets no more trials is reported, in all three forms."""

import io

import pytest
from rich.console import Console

from octavo.report import html, markdown, run_history, terminal
from octavo.report.document import left_out
from octavo.report.sentences import steps_sentence
from octavo.report.statistical_model import model, model_rows, model_sentence

from . import documents
from .surroundings import Document
from .test_report_html import check_form


@pytest.fixture
def sequential() -> Document:
    return documents.sequential()


def texts(document: Document) -> dict[str, str]:
    out = io.StringIO()
    terminal.print_report(document, Console(file=out, width=200))
    found = {"terminal": out.getvalue(), "markdown": markdown.render(document), "html": ""}
    found["html"] = check_form(html.render(document)).text
    return {name: " ".join(text.split()) for name, text in found.items()}


def test_every_form_tells_how_it_ended_and_what_is_missing(sequential: Document) -> None:
    for name, text in texts(sequential).items():
        assert "The run ended because its budget of 2 h was used up" in text, name
        assert "rounds ran in up to 2 groups" in text, name
        assert "read-only: 1 kB, read-write: 1 kB were skipped: no device for 1kB sectors here" in text, name
        assert "read-only: 2 kB, read-write: 2 kB were given up" in text, name
        assert "initdb ended with 1 in round 2" in text, name
        assert "undecided (within −1.2 % to +4.1 %)" in text, name
        assert "negative control" in text, name
        assert "others take 31 % of the CPU: cc1 31 %" in text, name
        assert "nothing is swapped" not in text, name
        assert text.count(sequential["alarms"][0]) == 1, name
        assert "5, the first after round 2" in text, name
        assert "1.2 % (12 degrees of freedom)" in text, name
        assert "Measuring took" in text, name
        assert "6 of 100" not in text, name
        assert "6 rounds" in text, name


def test_each_cell_says_why_it_has_no_more_trials(sequential: Document) -> None:
    why = {step.label: step.why for step in run_history.steps(sequential, "read-only")}
    assert why == {
        "1kB": "skipped: no device for 1kB sectors here",
        "2kB": "given up after repeated failures: initdb ended with 1 in round 2",
        "4kB": "decided",
        "16kB": "undecided, but the interval is narrow enough (± 1.5 %)",
    }


def test_rounds_of_each_cell_in_one_sentence(sequential: Document) -> None:
    narrow = "16 kB was undecided, but the interval is narrow enough (± 1.5 %) after 4 rounds"
    told = f"{narrow}; 4 kB was decided after 5 rounds."
    assert steps_sentence(sequential, "read-only") == told
    found = texts(sequential)
    assert told in found["terminal"]
    assert told in found["markdown"]
    sequential["run"]["stopping"] = "fixed"
    assert steps_sentence(sequential, "read-only") is None


def test_negative_controls_are_not_compared(sequential: Document) -> None:
    assert "32kB" not in {cell["label"] for cell in run_history.compared_cells(sequential, "read-only")}


@pytest.mark.parametrize(
    ("ending", "stopping", "told"),
    [
        ("decided", "decided", "The run ended because no cell needs more trials."),
        ("rounds", "decided", "The run ended after the rounds of its plan."),
        ("rounds", "fixed", "The run ended after the rounds of its plan."),
        ("budget", "decided", "The run ended because its budget of 10 min was used up."),
    ],
)
def test_why_a_run_ended(ending: str, stopping: str, told: str) -> None:
    document = documents.build("ended", ["4kB", "8kB"], ["8kB"])
    document["run"].update(ending=ending, stopping=stopping, budget_seconds=600.0)
    assert run_history.ending_sentence(document) == told
    assert run_history.ending_sentence(document | {"run": document["run"] | {"status": "interrupted"}}) is None


def test_trials_are_left_out_by_rule_not_by_figures(sequential: Document) -> None:
    groups = {(group.status, len(group.trials)) for group in left_out(sequential)}
    assert groups == {("invalid", 3), ("failed", 4)}
    assert any(group.reason.endswith("(and the like)") for group in left_out(sequential))
    for number, trial in enumerate(t for t in sequential["trials"] if t["status"] == "invalid"):
        trial["facts"] = {"rule": "steal" if number else "clock"}
    assert sorted(len(g.trials) for g in left_out(sequential) if g.status == "invalid") == [1, 2]


def test_components_that_cannot_be_told_apart(sequential: Document) -> None:
    row = model(sequential, "read-only")
    assert row is not None
    together = {**row} | {"together_deviation_percent": 1.3, "residual_deviation_percent": None}
    assert dict(model_rows(together))["standard deviation of loads and trials"] == "1.3 % (1 degree of freedom)"
    alone = {**row} | {"load_deviation_percent": None, "load_degrees_of_freedom": 0}
    assert dict(model_rows(alone))["standard deviation between loads"] == "unknown (0 degrees of freedom)"


def test_a_document_without_the_newer_keys_is_shown() -> None:
    document = documents.build("old", ["4kB", "8kB"], ["8kB"])
    for key in ("model", "alarms", "given_up"):
        del document[key]
    for key in ("precision", "stopping", "budget_seconds", "ending"):
        del document["run"][key]
    for effect in document["effects"]:
        for key in ("look", "negative_control", "own_scatter", "degrees_of_freedom"):
            del effect[key]
    assert model_sentence(document, "read-only") is None
    for text in texts(document).values():
        assert "5 of 5 rounds" in text
