"""Sentences, alarms and limitations in the report."""

from dataclasses import replace
from typing import Any

import pytest

from octavo.analysis.document import cells_that_wrote
from octavo.analysis.limitations import alarms, circumstances, limits, warnings
from octavo.analysis.trials import Key, TrialKey
from octavo.analysis.verdict_sentence import sentence
from octavo.host.checks.base import CheckFinding
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord, TrialStatus

from .making import read_only_plan, trial

PLAN, CELLS = read_only_plan()
SMALL, BASELINE, CONTROL = CELLS


def effect(**changes: object) -> dict[str, Any]:
    return {
        "cell": SMALL.id, "condition": "", "metric": "tps", "item": None, "verdict": "faster", "ratio": 1.1,
        "low": 1.05, "high": 1.15, "loads": 2, "conditional": False, "negative_control": False, "own_scatter": False,
        "noise_floor": 0.02, "alarm": False,
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("compared", "word", "claim"),
    [
        (["data_block"], "faster", "4 kB data blocks are faster than 8 kB: TPS × 1.100"),
        (["data_block"], "same within 3 %", "4 kB and 8 kB data blocks are the same within 3 %: "),
        (["clients"], "slower", "clients 4 kB is slower than 8 kB: "),
        (["clients", "mode"], "slower", "clients/mode 4 kB is slower than 8 kB: "),
        (["clients"], "undecided (needs 2 more rounds)", "clients 4 kB vs 8 kB: undecided (needs 2 more rounds), TPS "),
    ],
)
def test_a_sentence_names_what_is_compared(compared: list[str], word: str, claim: str) -> None:
    text = sentence(effect(verdict=word, conditional=True), CELLS, compared, "TPS", writes=False)
    assert text.startswith(claim)
    assert text.endswith("(95 % interval 1.050 to 1.150; noise floor 2.0 %), conditional on these 2 loads.")


def test_a_sentence_does_not_repeat_factors_that_the_cells_name() -> None:
    text = sentence(effect(verdict="slower"), CELLS, ["data_block", "wal_block"], "TPS", writes=False, named=False)
    assert text.startswith("4 kB is slower than 8 kB: ")


def test_a_sentence_without_an_interval_says_so() -> None:
    text = sentence(effect(low=None, high=None), CELLS, ["data_block"], "TPS", writes=False)
    assert text.endswith("TPS × 1.100 (too few rounds for an interval).")


def test_a_sentence_names_the_wal_regime_of_what_writes() -> None:
    assert ", WAL regime after-checkpoint." in sentence(effect(), CELLS, ["data_block"], "TPS", writes=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"cell": CONTROL.id, "alarm": True},
            "The A/A control 8kB again seems to differ from the baseline, although both are the same: TPS ",
        ),
        ({"negative_control": True, "alarm": True}, "A negative control seems to differ from the baseline: 4kB: TPS "),
    ],
)
def test_a_control_that_excludes_1_is_said_loudly(changes: dict[str, object], words: str) -> None:
    (alarm,) = alarms([effect(**changes)], CELLS, "tps", "TPS")
    assert alarm.startswith(words)


def test_an_alarm_without_an_interval_is_said_too() -> None:
    (alarm,) = alarms([effect(cell=CONTROL.id, alarm=True, ratio=5e6, low=None, high=None)], CELLS, "tps", "TPS")
    assert alarm.endswith(": TPS × 5,000,000. Do not trust effects of this size: the host may cause them.")


@pytest.mark.parametrize(
    "changes",
    [{}, {"cell": CONTROL.id}, {"cell": CONTROL.id, "alarm": True, "item": "q1"}, {"alarm": True, "metric": "wal"}],
)
def test_what_is_no_alarm(changes: dict[str, object]) -> None:
    assert alarms([effect(**changes)], CELLS, "tps", "TPS") == []


def test_what_must_not_be_is_said_of_trials_that_do_not_count_too() -> None:
    metrics: dict[str, dict[str, Any]] = {
        "lost": {"title": "commits that were lost", "warns": "alarm"},
        "survived": {"title": "nothing was killed", "warns": "limit"},
        "tps": {"title": "TPS"},
    }

    def made(cell: Cell, round_number: int, lost: int, survived: int, status: TrialStatus = "ok") -> TrialRecord:
        seen = (Observation("lost", lost, "1"), Observation("survived", survived, "1"))
        return replace(trial(cell, round_number, status=status), observations=seen)

    trials = [made(SMALL, 1, 3, 0, "invalid"), made(BASELINE, 2, 0, 1), made(BASELINE, 3, 1, 1)]
    assert warnings(trials, CELLS, metrics, "alarm") == ["Commits that were lost: 4 in 2 trials (4kB, 8kB)."]
    assert warnings(trials, CELLS, metrics, "limit") == ["Nothing was killed: in 2 trials (8kB)."]
    assert warnings(trials[:1], CELLS, metrics, "limit") == []


def test_the_items_of_what_is_warned_of_are_named() -> None:
    def made(cell: Cell, *items: str) -> TrialRecord:
        return replace(trial(cell, 1, 1), observations=tuple(Observation("timed_out", 1, "1", item) for item in items))

    metrics = {"timed_out": {"title": "runs that were cancelled at the timeout", "warns": "limit"}}
    found = warnings([made(SMALL, "q17", "q20"), made(SMALL, "q17"), made(BASELINE, "q2")], CELLS, metrics, "limit")
    assert found == ["Runs that were cancelled at the timeout: in 3 trials (4kB: q17, q20; 8kB: q2)."]
    assert "only the fast runs ended" in told(values={("q17", "timed_out"): {(1, 1, SMALL.id): 1.0}})
    assert "only the fast runs ended" not in told()


def told(
    plan: Plan = PLAN,
    *effects: dict[str, Any],
    written: set[str] | None = None,
    values: dict[Key, dict[TrialKey, float]] | None = None,
) -> str:
    return "\n".join(limits(plan, CELLS, effects, values or {}, written or set()))


def test_conditional_verdicts_name_their_loads() -> None:
    assert "hold only for the one load that was measured; " in told(PLAN, effect(conditional=True, loads=1))
    assert "hold only for the 2 or 3 loads that were measured; " in told(
        PLAN, *(effect(conditional=True, loads=loads) for loads in (2, 3))
    )
    assert "hold only for the 1 to 3 loads that were measured; " in told(
        PLAN, *(effect(conditional=True, loads=loads) for loads in (1, 2, 3))
    )
    assert "1 or 2 or 4 loads" in told(PLAN, *(effect(conditional=True, loads=loads) for loads in (1, 2, 4)))
    assert "conditional" not in told(PLAN, effect())


def test_a_cell_judged_by_its_own_scatter_is_told() -> None:
    assert "their own scatter" in told(PLAN, effect(own_scatter=True))
    assert "their own scatter" not in told(PLAN, effect())


def test_a_plan_without_a_control_has_no_noise_floor() -> None:
    assert "no noise floor" in told(PLAN.model_copy(update={"control": False}))
    assert "no noise floor" not in told(PLAN.model_copy(update={"control": False, "negative": ["wal_block"]}))


def test_bytes_written_are_those_of_the_measured_time() -> None:
    assert "still dirty" in told(written={SMALL.id})
    assert "still dirty" not in told()


def test_segments_that_had_to_be_created_are_told() -> None:
    assert "create new ones" in told(values={(None, "wal_segments_created"): {(1, 1, SMALL.id): 2.0}})
    assert "create new ones" not in told(values={(None, "wal_segments_created"): {(1, 1, SMALL.id): 0.0}})


def test_a_fixed_plan_that_has_not_ended_is_not_final() -> None:
    fixed = PLAN.model_copy(update={"stopping": "fixed"})
    assert "no interval is final" in circumstances(fixed, {}, 1, finished=False)[0]
    assert circumstances(fixed, {}, 1, finished=True) == []
    assert circumstances(PLAN, {}, 1, finished=False) == []


@pytest.mark.parametrize(
    ("ending", "undecided", "words"),
    [
        ("budget", 1, "Stopped when the budget of 2h was used up, with 1 cell undecided. "),
        ("rounds", 3, "Stopped after 4 rounds, the plan's limit, with 3 cells undecided."),
        ("decided", 1, None),  # given up
        ("rounds", 0, None),
    ],
)
def test_how_a_run_ended_is_told_while_cells_are_undecided(ending: str, undecided: int, words: str | None) -> None:
    plan = PLAN.model_copy(update={"budget": "2h"})
    found = circumstances(plan, {"ending": ending}, undecided, finished=True)
    if words is None:
        assert found == []
    else:
        assert found[0].startswith(words) and "octavo run --resume RUN" in found[0]


def test_a_fixed_plan_cannot_be_extended() -> None:
    fixed = PLAN.model_copy(update={"stopping": "fixed"})
    (ended,) = circumstances(fixed, {"ending": "rounds"}, 3, finished=True)
    assert ended == "Stopped after 4 rounds, the plan's limit, with 3 cells undecided."


def test_what_disturbed_the_host_is_told_and_notes_are_not() -> None:
    checks = [
        CheckFinding("processes", "disturbs", "gcc takes 20 % of the CPU", "it slows the server", "end it").as_dict(),
        CheckFinding("SMT", "note", "on").as_dict(),
    ]
    (told_of,) = circumstances(PLAN, {"host_checks": checks}, 0, finished=True)
    assert told_of == (
        "The host disturbed the run from the start: processes: gcc takes 20 % of the CPU (it slows the server). "
        "To do: end it."
    )


def test_what_disturbed_each_host_of_a_fleet_is_told() -> None:
    """The facts of the first host that began are those of the run, too."""
    busy = [CheckFinding("processes", "disturbs", "gcc takes 20 % of the CPU", fix="end it").as_dict()]
    slow = [CheckFinding("CPU clock", "disturbs", "powersave", fix="performance").as_dict()]
    fleet = {
        "db2": {"number": 2, "host": {"hostname": "b"}, "host_checks": [*busy, *slow]},
        "db1": {"number": 1, "host": {"hostname": "a"}, "host_checks": busy},
        "never came": {"number": 3},
    }
    assert circumstances(PLAN, {"host_checks": busy, "fleet": fleet}, 0, finished=True) == [
        "The hosts db1, db2 disturbed the run from the start: processes: gcc takes 20 % of the CPU. To do: end it.",
        "The host db2 disturbed the run from the start: CPU clock: powersave. To do: performance.",
    ]


def test_unlike_numbers_of_checkpoints_in_a_steady_round_are_said() -> None:
    steady = [replace(cell, levels={**cell.levels, "wal_regime": "steady"}) for cell in CELLS]
    seen = {(number, 1, cell.id): 1.0 for number in (1, 2, 3) for cell in CELLS}
    key: Key = (None, "checkpoints")
    assert "numbers of checkpoints" not in "".join(limits(PLAN, steady, [], {key: seen}, set()))
    seen |= {(number, 2, cell.id): 2.0 for number in (1, 2, 3) for cell in CELLS}  # another host, with its own baseline
    assert "numbers of checkpoints" not in "".join(limits(PLAN, steady, [], {key: seen}, set()))
    seen |= {(2, 1, SMALL.id): 0.0}
    (found,) = (one for one in limits(PLAN, steady, [], {key: seen}, set()) if "numbers of checkpoints" in one)
    assert found.startswith("In 1 round the cells had different numbers of checkpoints")
    assert "numbers of checkpoints" not in told(values={key: seen})  # after a checkpoint there should be none


def test_what_a_server_writes_by_itself_is_no_writing() -> None:
    place: TrialKey = (1, 1, SMALL.id)
    each: Key = (None, "wal_bytes_per_transaction")
    whole: Key = (None, "wal_bytes")
    assert cells_that_wrote({each: {place: 7920.0}, whole: {place: 7920.0}}) == set()  # one scan
    assert cells_that_wrote({each: {place: 300.0}, whole: {place: 3e8}}) == {SMALL.id}
    assert cells_that_wrote({each: {place: 300.0}}) == {SMALL.id}  # imported: the total is unknown
    assert cells_that_wrote({each: {place: 0.01}, whole: {place: 3e8}}) == set()
