"""Rounds in slices, in the reports."""

from tests.unit.report import documents

from octavo.report.document import Document
from octavo.report.slices import slices
from octavo.report.statistical_model import model_sentence


def in_slices(**facts: object) -> Document:
    document = documents.build("s", ["4kB", "8kB"], ["8kB"])
    for trial in document["trials"]:
        trial["facts"] = {
            "interleave": "slices", "slice_seconds": 0.05, "turns": 100, "turns_disturbed": 0, "turns_dropped": 0,
            **facts,
        }  # fmt: skip
    return document


def test_turns_are_counted_once_a_round_and_not_by_cell() -> None:
    document = in_slices()
    rounds = len({trial["round"] for trial in document["trials"]})
    assert rounds > 1
    assert slices(document, "read-only") == f"of 50 ms, {100 * rounds} turns"
    assert str(model_sentence(document, "read-only")).endswith(f"Measured in slices of 50 ms, {100 * rounds} turns.")


def test_turns_of_a_round_that_was_repeated_do_not_count() -> None:
    document = in_slices()
    trials = [trial for trial in document["trials"] if trial["round"] == 1]
    document["trials"].extend(
        {**trial, "id": trial["id"] + 1000, "attempt": 2, "facts": {**trial["facts"], "turns": 80}} for trial in trials
    )
    for trial in trials:
        trial["used"] = False
    rounds = len({trial["round"] for trial in document["trials"]})
    assert slices(document, "read-only") == f"of 50 ms, {100 * (rounds - 1) + 80} turns"


def test_what_was_disturbed_and_carried_over_is_said() -> None:
    document = in_slices(turns_disturbed=20, turns_dropped=10, carry_over=0.004, carry_over_error=0.006)
    document["trials"][0]["facts"] |= {"slice_seconds": 0.1, "carry_over": 0.002, "carry_over_error": 0.001}
    assert str(slices(document, "read-only")).endswith(
        "turns, 20 % of them disturbed by other processes or the hypervisor and 10 % dropped; "
        "carry-over from the preceding slice 0.2 % (standard error 0.1 %)"
    )
    assert str(slices(document, "read-only")).startswith("of 50 ms to 100 ms")


def test_trials_by_themselves_have_no_turns() -> None:
    assert slices(documents.build("t", ["4kB", "8kB"], ["8kB"]), "read-only") is None
