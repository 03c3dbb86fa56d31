"""The answer at the beginning of a report, for runs whose numbers are known."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.planted_runs import plant
from tests.unit.plans import changed_plan, small_plan

from octavo.analysis.document import make_document
from octavo.plan.model import Plan
from octavo.plan.presets import find_plan
from octavo.report.answer import FEW_CONDITIONS, answer, answers
from octavo.report.document import Document
from octavo.report.html import render
from octavo.report.picture import forest_heading
from octavo.report.plain import group_text
from octavo.store.store import Store

from . import documents
from .test_report_html import check_form

DEVICES = {'mode = ["read-only", "read-write"]': 'mode = "read-only"\ndevice = "mbps=40"\nmemory = "224MB"'}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "octavo.sqlite")) as opened:
        yield opened


def made(store: Store, plan: Plan, rounds: int = 6) -> Document:
    return make_document(store, plant(store, plan, rounds=rounds), most_numbers=0)


def test_the_better_size_its_gain_and_the_bottleneck_are_one_sentence(store: Store) -> None:
    found = answer(made(store, changed_plan(DEVICES)))
    assert found.kind == "better"
    assert found.headline.startswith(("4 kB data blocks give 1.5", "4 kB data blocks give 1.6"))
    assert found.headline.endswith(" times the TPS of 8 kB; the bottleneck is the device's bandwidth.")
    assert found.lines[0].startswith("95 % interval of the TPS ratio: 1.")


def test_the_interval_of_a_time_is_the_one_of_the_tables(store: Store) -> None:
    """If less is better a gain is a ratio below 1, as in tables and verdicts."""
    document = made(store, changed_plan(DEVICES))
    document["metrics"]["tps"] |= {"better": "lower", "unit": "s", "title": "time"}
    effects = [one for one in document["effects"] if one["metric"] == "tps" and one["low"]]
    for one in effects:
        one["ratio"], one["low"], one["high"] = 1 / one["ratio"], 1 / one["high"], 1 / one["low"]
    found = answer(document)
    assert "less time than 8 kB" in found.headline
    assert found.lines[0].startswith("95 % interval of the time ratio: 0.")


def test_the_ratio_of_a_time_without_a_difference_is_the_one_of_the_tables(store: Store) -> None:
    document = made(store, changed_plan(DEVICES))
    document["metrics"]["tps"] |= {"better": "lower", "unit": "s", "title": "time"}
    for one in document["effects"]:
        one.update(ratio=0.91, low=0.79, high=1.05, verdict="undecided (needs 3 more rounds)")
    found = answer(document)
    assert found.kind == "undecided"
    assert found.headline.startswith("No difference found between ")
    assert "(time ratio 0.91, 0.79 to 1.05)" in found.headline


@pytest.mark.parametrize(
    ("missing", "claim"),
    [
        ("3 more rounds", "The difference between 4 kB data blocks and 8 kB is within the noise floor"),
        ("a valid trial of the control", "Undecided between 8 kB and 4 kB data blocks: no noise floor"),
    ],
)
def test_a_difference_that_is_not_decided_is_not_denied(store: Store, missing: str, claim: str) -> None:
    document = made(store, changed_plan(DEVICES))
    for one in document["effects"]:
        one.update(ratio=1.05, low=1.02, high=1.08, verdict=f"undecided (needs {missing})")
    assert answer(document).headline.startswith(claim)


def test_an_interval_that_excludes_1_does_so_as_it_is_printed(store: Store) -> None:
    document = made(store, changed_plan(DEVICES))
    for one in document["effects"]:
        one.update(ratio=1.01, low=1.003, high=1.017, verdict="faster")
    assert answer(document).lines[0] == "95 % interval of the TPS ratio: 1.003 to 1.017."


def test_of_a_metric_without_a_better_direction_less_is_not_worse(store: Store) -> None:
    document = made(store, changed_plan(DEVICES))
    document["metrics"]["tps"]["better"] = None
    for one in document["effects"]:
        one.update(ratio=0.9, low=0.88, high=0.92, verdict="less")
    assert answer(document).lines == ("Less than the baseline: 4 kB (−10 %).",)


def test_of_few_conditions_each_has_its_line(store: Store) -> None:
    found = answer(made(store, small_plan()))
    assert found.headline.startswith("4 kB data blocks give ")
    assert " % more TPS than 8 kB" in found.headline
    assert found.headline.endswith("(read-write).")  # the answer first, then the condition
    assert any(line.startswith("Read-only: ") for line in found.lines)


def test_a_baseline_that_is_a_word_has_its_factor_s_name(store: Store) -> None:
    compared = {
        '[baseline]\ndata_block = "8kB"': '[baseline]\nhuge_pages = "off"',
        'data_block = ["4kB", "8kB"]': 'huge_pages = ["off", "2MB"]',
        'mode = ["read-only", "read-write"]': 'mode = "read-only"',
    }
    document = made(store, changed_plan(compared))
    assert "huge_pages = off" in answer(document).headline
    assert forest_heading(document) == "TPS relative to huge_pages = off"


def test_cells_of_two_modes_are_named_by_both(store: Store) -> None:
    document = made(store, find_plan("thp")[0])
    cells = {str(cell["label"]): cell for cell in document["cells"] if not cell["control"]}
    both = [cells["never/always"], cells["always/always"]]
    assert group_text(document, both) == "thp/shmem_thp never/always and always/always"
    assert group_text(document, both[:1]) == "thp/shmem_thp never/always"


def test_cells_of_two_modes_that_lose_are_named_by_both(store: Store) -> None:
    """By the first mode alone never/always and the baseline would have one name."""
    document = made(store, find_plan("thp")[0])
    for one in document["effects"]:
        one.update(ratio=0.9, low=0.88, high=0.92, verdict="slower")
    (line,) = (line for line in answer(document).lines if line.startswith("Slower"))
    assert all(f"“{label}” (−10 %)" in line for label in ("never/always", "always/never", "always/always")), line


def test_the_plans_metric_is_named(store: Store) -> None:
    document = made(store, changed_plan(DEVICES))
    document["metrics"]["tps"].update(title="latency, 99th percentile", better="lower", unit="ms")
    for one in document["effects"]:
        one.update(ratio=0.95, low=0.84, high=1.08, verdict="undecided (needs 3 more rounds)")
    assert "(latency ratio 0.95, 0.84 to 1.08)" in answer(document).headline


def test_what_is_left_of_a_rate_is_not_rounded_to_nothing(store: Store) -> None:
    document = made(store, changed_plan(DEVICES))
    for one in document["effects"]:
        one.update(ratio=0.003, low=0.0028, high=0.0032, verdict="slower")
    assert answer(document).lines == ("Slower than the baseline: 4 kB (× 0.00300).",)


def test_levels_whose_intervals_overlap_are_named_together(store: Store) -> None:
    blocks = 'data_block = ["2kB", "4kB", "8kB", "16kB"]\nwal_block = ["4kB", "8kB"]'
    plan = changed_plan(
        {
            'data_block = ["4kB", "8kB"]': blocks,
            'mode = ["read-only", "read-write"]': 'mode = "read-only"\ndevice = "mbps=40"\nmemory = "224MB"',
            '[baseline]\ndata_block = "8kB"': '[baseline]\ndata_block = "8kB"\nwal_block = "8kB"',
        }
    )
    found = answer(made(store, plan))
    assert found.headline.startswith("2 kB data blocks with any WAL block size give 2.")
    assert " times the TPS of 8 kB" in found.headline
    # Overlap shows neither that they differ nor that they are equal.
    assert found.lines[0].endswith("); the interval of the other overlaps it.")
    assert any(line.startswith("Slower than the baseline: 16 kB (−") for line in found.lines)


def test_of_several_best_levels_each_s_share_of_a_time_is_within_the_range(store: Store) -> None:
    """The best one takes a twelfth of the time, the one that it cannot be told from an eighth."""
    plan = changed_plan({'data_block = ["4kB", "8kB"]': 'data_block = ["2kB", "4kB", "8kB"]'}, mode=["read-only"])
    document = made(store, plan)
    document["metrics"]["tps"] |= {"better": "lower", "unit": "s", "title": "time"}
    ratios = {"2kB": (1 / 12, 0.07, 0.13), "4kB": (1 / 8, 0.08, 0.2)}
    labels = {cell["id"]: cell["label"] for cell in document["cells"]}
    for one in document["effects"]:
        if one["metric"] == "tps" and (found := ratios.get(labels[one["cell"]])):
            one.update(ratio=found[0], low=found[1], high=found[2], verdict="faster")
    assert answer(document).headline.startswith("2 kB and 4 kB data blocks take 0.0833 to 0.12 of the time of 8 kB")


def test_of_many_conditions_the_cell_that_is_best_most_often_is_named(store: Store) -> None:
    plan, _ = find_plan("coalescing", size="quick")
    document = make_document(store, plant(store, plan, rounds=3, metrics=20), most_numbers=0)
    found = answer(document)
    count = len(answers(document))
    assert count > FEW_CONDITIONS
    assert f" of {count} conditions; the largest gain is " in found.headline
    assert found.lines[0].startswith(f"Of {count} conditions: in ")
    page = check_form(render(document))
    assert found.headline in page.text


def test_of_many_conditions_the_largest_gain_in_time_is_that_of_its_claim(store: Store) -> None:
    """0.8 of the time are 20 % less, and not a gain of 25 %."""
    plan, _ = find_plan("coalescing", size="quick")
    document = make_document(store, plant(store, plan, rounds=3, metrics=20), most_numbers=0)
    primary = document["run"]["primary_metric"]
    document["metrics"][primary] |= {"better": "lower", "unit": "s"}
    for one in document["effects"]:
        if (one["metric"], one["item"]) == (primary, None):
            one.update(ratio=0.8, low=0.78, high=0.82, verdict="faster")
    found = answer(document)
    assert "; the largest gain is 20 % less time with " in found.headline
    assert found.lines[1].startswith("Largest gain: ") and " 20 % less time than " in found.lines[1]


def test_of_many_conditions_the_baseline_may_be_the_best_most_often(store: Store) -> None:
    plan, _ = find_plan("coalescing", size="quick")
    document = make_document(store, plant(store, plan, rounds=3, metrics=20), most_numbers=0)
    primary = document["run"]["primary_metric"]
    document["metrics"][primary] |= {"better": "higher", "unit": "1/s"}
    for one in document["effects"]:
        if (one["metric"], one["item"]) == (primary, None):
            faster = one["condition"] == document["cells"][0]["condition"]
            one |= {"ratio": 1.2, "low": 1.1, "high": 1.3, "verdict": "faster"} if faster else {
                "ratio": 0.8, "low": 0.7, "high": 0.9, "verdict": "slower"}  # fmt: skip
    count = len(answers(document))
    headline = answer(document).headline
    assert f" in {count - 1} of {count} conditions; the largest gain is 20 % with " in headline


def test_the_page_opens_with_question_and_answer_and_alarms_come_first() -> None:
    document = documents.small()
    document["alarms"] = ["Something that cannot matter seems to matter."]
    page = check_form(render(document))
    places = [page.text.index(text) for text in (document["alarms"][0], document["run"]["question"],
              answer(document).headline, "Verdicts", "Controls and noise floor", "Statistical model",
              "Environment", "Limitations")]  # fmt: skip
    assert places == sorted(places)


def test_too_few_rounds_for_an_interval_are_undecided_and_not_the_same(store: Store) -> None:
    found = answer(made(store, small_plan(), rounds=1))
    sentences = " ".join((found.headline, *found.lines))
    assert "ndecided between 8 kB and 4 kB data blocks: too few rounds for an interval" in sentences
    assert "o difference found" not in sentences


def test_before_the_first_analysis_no_difference_was_looked_for(store: Store) -> None:
    late = changed_plan({**DEVICES, "\n[baseline]": "\nfirst_look = 9\nbudget = '1h'\n\n[baseline]"})
    found = answer(made(store, late))
    assert found.headline.startswith("Undecided between 8 kB and 4 kB data blocks: too few rounds for a first analysis")


def test_a_run_without_numbers_has_no_answer_yet() -> None:
    for name in ("unfinished", "all_invalid"):
        found = answer(getattr(documents, name)())
        assert found.kind == "none"
        assert found.headline.startswith("No answer yet: ")


def test_a_trial_of_0_is_named_where_no_cell_has_a_ratio(store: Store) -> None:
    document: Document = {**made(store, small_plan()), "effects": [], "verdicts": []}
    for row in document["summary"]:
        row["low_trial"] = 0.0
    assert "no ratio if one of its trials has a value of 0 or less" in answer(document).headline


def test_odd_documents_have_an_answer(edge: Document) -> None:
    assert answer(edge).headline.endswith(".")
