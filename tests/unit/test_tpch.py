"""TPC-H without PostgreSQL: known queries and answers, the comparison of results, a trial's figures from its runs."""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plans import small_plan

from octavo import workloads
from octavo.costs.calibrate import CalibrationRequest
from octavo.errors import OctavoError, UsageError
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.recall import recall_results
from octavo.lab.trial import Equipment, Trial
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.thresholds import Thresholds
from octavo.store.records import TrialRecord
from octavo.workload_support.explained import document
from octavo.workloads.base import MeasuresBeforehand
from octavo.workloads.tpch import answers, loading, metrics, queries, references, schema, usage
from octavo.workloads.tpch.captured import Captured
from octavo.workloads.tpch.costs import cost_settings
from octavo.workloads.tpch.duckdb_tpch import ORDERED_BY, QUERIES, RANDOM_TEXT, known, rows_of
from octavo.workloads.tpch.query import Ran, Session
from octavo.workloads.tpch.references import References

LEVELS = {"scale": "0.37", "data_block": "8kB", "queries": "1,6", "repetitions": "2", "min_time": "none",
          "query_timeout": "none", "costs": "default"}  # fmt: skip
SERVER: Any = SimpleNamespace(build=SimpleNamespace(prefix=Path("/builds/x")), journal=None, account=None)
EARLY, LATE = (
    usage.UsageSnapshot(1.0, 10.0, 0.0, (0, 0, 0, 0, 0, 0)),
    usage.UsageSnapshot(3.0, 11.0, 0.5, (100, 8192, 1, 512, 1000, 4000)),
)
PLAN = {"Plan": {"Node Type": "Aggregate", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "lineitem"}]}}


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "_first", {})


def test_duckdb_has_the_queries_and_the_answers_at_three_scales_offline() -> None:
    found = known()
    assert set(found.queries) == set(QUERIES)
    assert set(found.answers) == {0.01, 0.1, 1.0}
    assert found.answer(1.0, 1) is not None
    assert found.answer(0.2, 1) is None
    assert all("lineitem" in found.queries[number] for number in (1, 3, 6, 9))


def test_a_reference_answer_is_right_and_not_with_one_value_changed() -> None:
    for scale in ("0.01", "0.1", "1"):
        for number in set(QUERIES) - {13}:
            reference = known().answer(float(scale), number)
            assert reference is not None
            References(scale, None).check(number, reference, "8kB")
            changed = [list(row) for row in reference]
            columns = set(range(len(changed[0]))) - set(RANDOM_TEXT.get(number, ()))
            for column in columns if any(changed[-1]) else ():
                value = changed[-1][column]
                changed[-1][column] = f"{value}x" if not _is_number(value) else str(float(value) * 1.01 + 1)
                with pytest.raises(OctavoError, match=f"q{number} at scale factor {scale}: wrong result"):
                    References(scale, None).check(number, [tuple(row) for row in changed], "8kB")
                changed[-1][column] = value


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


@pytest.mark.parametrize("number", [number for number in QUERIES if number in ORDERED_BY and number != 13])
def test_a_result_in_another_order_than_the_query_asks_for_is_wrong(number: int) -> None:
    reference = known().answer(1.0, number)
    assert reference is not None
    References("1", None).check(number, reference, "8kB")
    if len(set(answers.keys(reference, ORDERED_BY[number]))) > 1:
        with pytest.raises(OctavoError, match=f"q{number} at scale factor 1: wrong order of rows"):
            References("1", None).check(number, reference[::-1], "8kB")
    text = known().queries[number].lower().rpartition("order by")[2].partition("limit")[0]
    header = known().answers[1.0][number][0]
    assert [header[column] for column in ORDERED_BY[number]] == [one.split()[0] for one in text.split(",")]


def test_queries_that_are_not_known_to_be_ordered_are_not() -> None:
    plain = [number for number in QUERIES if number not in ORDERED_BY]
    assert plain == [6, 14, 17, 19]
    assert not any("order by" in known().queries[number].lower() for number in plain)


def test_random_text_is_left_out_and_a_row_too_few_is_not() -> None:
    reference = known().answer(0.01, 20)
    assert reference is not None
    References("0.01", None).check(20, [(name, "another address") for name, _ in reference], "8kB")
    with pytest.raises(OctavoError, match="0 rows, the reference has 1"):
        References("0.01", None).check(20, [], "8kB")


@pytest.mark.parametrize(
    ("value", "reference", "equal"),
    [
        ("380456.00", "380456", True),
        ("25.5751546114546921", "25.575154611454693", True),
        ("0.0345", "0.0344", False),  # equal when rounded, but not to a millionth
        ("505822441.4861", "505822441.48", False),
        ("505822441.4861", "505822441.51", False),
        ("NaN", "0", False),
        ("1e999999999", "1", False),
        ("9" * 80, "1", False),
        ("9" * 50, "1", False),
        ("", "0", False),
        ("Supplier#1", "Supplier#1 ", True),
    ],
)
def test_numbers_are_equal_as_rounded(value: str, reference: str, equal: bool) -> None:
    assert answers.same(value, reference) is equal


def test_rows_that_are_equal_for_the_order_may_come_in_any_order() -> None:
    answers.check([("1", "b"), ("1", "a")], [("1", "a"), ("1", "b")], "q")
    answers.check([("1", "b"), ("1", "a")], [("1", "a"), ("1", "b")], "q", ordered_by=(0,))
    with pytest.raises(OctavoError, match="q: wrong order of rows: row 1, column 2 is 'b', not 'a'"):
        answers.check([("1", "b"), ("1", "a")], [("1", "a"), ("1", "b")], "q", ordered_by=(0, 1))
    assert answers.digest([("1", "b"), ("1", "a")]) == answers.digest([("1", "a"), ("1", "b")])
    assert answers.digest([("1", "b")]) != answers.digest([("1b", "")])


def test_without_a_reference_every_cell_must_give_what_the_first_one_gave() -> None:
    one, other = References("0.37", None), References("0.37", None)
    one.check(5, [("CHINA", "1.00")], "8kB")
    other.check(5, [("CHINA", "1.00")], "32kB")
    with pytest.raises(OctavoError, match="it differs at 32kB from an earlier trial's result"):
        other.check(5, [("CHINA", "1.01")], "32kB")
    rows = [("CHINA", "2.00"), ("INDIA", "1.00")]
    References("0.38", None).check(5, rows, "8kB")
    with pytest.raises(OctavoError, match="wrong order of rows: it differs at 32kB"):
        References("0.38", None).check(5, rows[::-1], "32kB")


def restart(monkeypatch: pytest.MonkeyPatch, scale: str, *results: dict[str, str]) -> None:
    """Simulates another process, which resumes a run whose trials had these results."""
    monkeypatch.setattr(references, "_first", {})
    cell = replace(make_cells(small_plan())[0], levels={"scale": scale})
    trials = [
        TrialRecord(cell.id, 1, 1, place, 1, "ok", None, 0.0, 1.0, 1, facts={"results": its})
        for place, its in enumerate(results, 1)
    ]
    lost = replace(trials[0], status="failed", facts={"results": {"q5": "0/0", "q1": "0/0"}})
    recall_results(workloads.find("tpch"), [cell], [lost, *trials])


def test_a_resumed_run_compares_with_the_trials_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("CHINA", "2.00"), ("INDIA", "1.00")]
    identity = References("0.37", None).check(5, rows, "8kB")
    restart(monkeypatch, "0.37", {"q5": identity}, {"q5": "another"})
    assert References("0.37", None).check(5, rows, "32kB") == identity
    with pytest.raises(OctavoError, match="wrong result: it differs at 32kB from an earlier trial's result"):
        References("0.37", None).check(5, rows[1:], "32kB")
    with pytest.raises(OctavoError, match="wrong order of rows: it differs at 32kB from an earlier trial's result"):
        References("0.37", None).check(5, rows[::-1], "32kB")
    References("0.38", None).check(5, rows[1:], "32kB")
    References("0.37", None).check(1, rows, "32kB")


def test_trials_of_an_earlier_octavo_kept_the_rows_without_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("CHINA", "2.00"), ("INDIA", "1.00")]
    restart(monkeypatch, "0.37", {"q5": answers.digest(rows)})
    with pytest.raises(OctavoError, match="wrong result"):
        References("0.37", None).check(5, rows[1:], "8kB")
    References("0.37", None).check(5, rows, "8kB")
    with pytest.raises(OctavoError, match="wrong order of rows"):
        References("0.37", None).check(5, rows[::-1], "32kB")


def test_a_load_has_no_results_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    restart(monkeypatch, "0.37", {})
    cell = make_cells(small_plan())[0]
    trial = TrialRecord(cell.id, 1, 1, 1, 1, "ok", None, 0.0, 1.0, 1, facts={"plans": {}})
    recall_results(workloads.find("tpch"), [replace(cell, levels={"scale": "0.37"})], [trial])
    recall_results(workloads.find("pgbench"), [cell], [trial])
    assert References("0.37", None).check(5, [("CHINA", "1.00")], "8kB")


def ran(seconds: float, rows: tuple[answers.Row, ...] | None = (("1",),)) -> Ran:
    return Ran(seconds, rows, PLAN, usage.between(EARLY, LATE))


def numbers(observations: tuple[Observation, ...], metric: str) -> dict[tuple[str | None, int], float]:
    return {(one.item, one.repetition): one.value for one in observations if one.metric == metric}


def test_repetitions_are_kept_apart_and_have_totals() -> None:
    power = queries.Power(LEVELS, References("0.37", None))
    for number, repetition, seconds in ((1, 1, 2.0), (1, 2, 1.0), (6, 1, 0.5), (6, 2, 0.75)):
        power.add(number, repetition, ran(seconds), "same")
    result = power.result(10.0, restarts=0)
    assert numbers(result.observations, "seconds") == {
        (None, 1): 2.5, (None, 2): 1.75, ("q1", 1): 2.0, ("q1", 2): 1.0, ("q6", 1): 0.5, ("q6", 2): 0.75,
    }  # fmt: skip
    assert numbers(result.observations, "seconds_min") == {(None, 1): 1.5, ("q1", 1): 1.0, ("q6", 1): 0.5}
    assert numbers(result.observations, "seconds_median")["q6", 1] == 0.625
    assert numbers(result.observations, "server_cpu_share")["q1", 1] == 0.5
    assert numbers(result.observations, "server_cpu_wait_share")["q1", 1] == 0.25
    assert numbers(result.observations, "query_device_busy_share")["q1", 1] == 0.5
    assert numbers(result.observations, "query_device_queue")["q1", 1] == 4.0
    assert (result.transactions, set(result.facts["results"]), set(result.facts["plans"])) == (
        4, {"q1", "q6"}, {"q1", "q6"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "is_parallel", "share"),
    [
        ({"Plan": {"Node Type": "Gather", "Workers Launched": 3}}, True, 0.125),  # of four processors
        ({"Plan": {"Node Type": "Gather", "Workers Planned": 1}}, True, 0.25),
        (PLAN, True, 0.5),
        (None, False, 0.5),
        (None, True, None),
    ],
)
def test_the_share_of_the_cpu_needs_the_number_of_workers(
    plan: dict[str, Any] | None, is_parallel: bool, share: float | None
) -> None:
    power = queries.Power({**LEVELS, "queries": "1", "repetitions": "1"}, References("0.37", None))
    used = replace(usage.between(EARLY, LATE), processors=8)
    power.add(1, 1, Ran(2.0, (("1",),), plan, used, is_parallel), "same")
    found = numbers(power.result(2.0, restarts=0).observations, "server_cpu_share")
    assert found == ({} if share is None else {("q1", 1): share})


def test_short_queries_are_repeated_and_the_total_is_of_the_runs_that_all_have() -> None:
    levels = {**LEVELS, "repetitions": "1", "min_time": "2s"}
    power = queries.Power(levels, References("0.37", None))
    pieces = queries.QueryPieces(SERVER, levels, power, None)
    for item, runs in {"q1": [2.5], "q6": [0.75, 0.5, 0.75]}.items():
        for repetition, seconds in enumerate(runs, 1):
            assert not pieces.enough(item)
            pieces.kept.setdefault(item, []).append(seconds)
            power.add(int(item[1:]), repetition, ran(seconds), "same")
        assert pieces.enough(item)
    result = power.result(10.0, restarts=0)
    assert {key: value for key, value in numbers(result.observations, "seconds").items() if key[0] is None} == {
        (None, 1): 3.25
    }
    assert numbers(result.observations, "seconds_median") == {("q6", 1): 0.75}


def test_the_totals_are_of_the_repetitions_in_which_every_query_has_run() -> None:
    """In slices a query ends when half of the cells have enough of it, which may be fewer than `repetitions`."""
    power = queries.Power({**LEVELS, "repetitions": "3"}, References("0.37", None))
    for number, runs in {1: (2.0, 1.0, 4.0), 6: (0.5, 0.75)}.items():
        for repetition, seconds in enumerate(runs, 1):
            power.add(number, repetition, ran(seconds), "same")
    seconds = numbers(power.result(10.0, restarts=0).observations, "seconds")
    assert {key: value for key, value in seconds.items() if key[0] is None} == {(None, 1): 2.5, (None, 2): 1.75}


def test_a_query_that_takes_no_time_is_not_repeated_for_ever() -> None:
    pieces = queries.QueryPieces(
        SERVER, {**LEVELS, "min_time": "1s"}, queries.Power(LEVELS, References("1", None)), None
    )
    pieces.kept["q6"] = [0.0] * (queries.MOST_RUNS - 1)
    assert not pieces.enough("q6")
    pieces.kept["q6"].append(0.0)
    assert pieces.enough("q6")


def test_a_query_that_is_cut_off_has_no_total_though_it_ended_once() -> None:
    power = queries.Power({**LEVELS, "repetitions": "1", "min_time": "2s"}, References("0.37", None))
    for number, repetition, rows in ((1, 1, (("1",),)), (6, 1, None), (6, 2, (("1",),))):
        power.add(number, repetition, ran(1.0, rows), rows and "same")
    assert (None, 1) not in numbers(power.result(10.0, restarts=0).observations, "seconds")


def test_a_query_that_is_cut_off_is_marked_and_its_repetitions_have_no_total() -> None:
    power = queries.Power(LEVELS, References("0.37", None))
    for number, repetition, rows in ((1, 1, (("1",),)), (1, 2, (("1",),)), (6, 1, None), (6, 2, (("1",),))):
        power.add(number, repetition, ran(1.0, rows), rows and "same")
    result = power.result(10.0, restarts=3)
    assert numbers(result.observations, "timed_out") == {("q6", 1): 1.0}
    assert (None, 1) not in numbers(result.observations, "seconds")
    assert numbers(result.observations, "seconds")["q6", 2] == 1.0
    assert (result.facts["timed_out"], result.facts["restarts"]) == (["q6 (1)"], 3)


def test_plans_of_a_query_have_an_order_of_their_own() -> None:
    """Two trials whose runs had the same two plans, in either order, had the same plans."""
    other = {"Plan": {"Node Type": "Seq Scan", "Relation Name": "lineitem"}}
    one, again = Captured(), Captured()
    for captured, plans in ((one, (PLAN, other)), (again, (other, PLAN))):
        for repetition, plan in enumerate(plans, 1):
            captured.add("q1", f"q1.{repetition}", [plan])
    assert one.facts()["plans"] == again.facts()["plans"]


def test_a_wrong_result_ends_the_trial() -> None:
    with pytest.raises(OctavoError, match=r"q6 at scale factor 0.01: wrong result: row 1, column 1"):
        References("0.01", None).check(6, [("1193053.2353",)], "8kB")


@pytest.mark.parametrize("text", ["", "{}", '{"Plan": 1}', '{"Plan": {"Node Type": 7}}', "[" * 5000])
def test_what_is_no_plan_is_an_error_in_a_line(text: str) -> None:
    with pytest.raises(OctavoError, match=r"\A.*\Z"):
        document(text)


@pytest.mark.parametrize(
    ("factor", "text", "level"),
    [("scale", "1.0", "1"), ("scale", "0.010", "0.01"), ("scale", "100", "100"), ("queries", "6, 1,6", "1,6"),
     ("queries", "all", "all"), ("query_timeout", "90s", "90s"), ("min_time", "2min", "120s"),
     ("order", "indexes-first", "indexes-first")],
)  # fmt: skip
def test_levels_have_one_spelling(factor: str, text: str, level: str) -> None:
    known_factors = {one.name: one for one in workloads.find("tpch").factors}
    assert known_factors[factor].level(text) == level


@pytest.mark.parametrize(
    ("factor", "text"),
    [("scale", "0"), ("scale", "-1"), ("scale", "1e3"), ("scale", "0.0001"), ("queries", "23"), ("queries", ""),
     ("query_timeout", "0s"), ("min_time", "100ms"), ("phase", "both")],
)  # fmt: skip
def test_what_is_no_level_is_refused(factor: str, text: str) -> None:
    known_factors = {one.name: one for one in workloads.find("tpch").factors}
    with pytest.raises(UsageError, match=factor):
        known_factors[factor].level(text)


def test_each_table_refers_to_earlier_ones_and_both_orders_have_all_steps() -> None:
    order = list(schema.TABLES)
    for statement in schema.FOREIGN_KEYS:
        table, other = statement.split()[2], statement.split()[-1]
        assert order.index(other) < order.index(table)
    assert {frozenset(steps) for steps in loading.ORDERS.values()} == {frozenset(loading.STEPS)}
    assert metrics.SECONDS.name == "seconds"


def test_rows_of_an_answer_keep_their_blanks() -> None:
    assert rows_of("a|b\n1| x\n\n") == (("a", "b"), ("1", " x"), ("",))


def test_the_cost_of_plan_capture_has_an_item_and_a_whole() -> None:
    power = queries.Power(LEVELS, References("0.37", None))
    power.add(6, 1, ran(1.0), "same")
    power.add_capture(6, 1.02)
    power.add_capture(11, 1.08)
    seen = numbers(power.result(10.0, restarts=0).observations, "plan_capture_ratio")
    assert seen["q6", 1] == 1.02
    assert seen[None, 1] == pytest.approx((1.02 * 1.08) ** 0.5)


def test_capture_is_timed_between_two_runs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    session, asked = object.__new__(Session), list[bool]()
    times = iter((1.0, 1.3, 1.2))

    def run(server: object, query: str, *, capture: bool) -> Ran:
        asked.append(capture)
        return ran(next(times))

    monkeypatch.setattr(session, "run", run)
    session._captures = True  # pyright: ignore[reportPrivateUsage]
    assert session.capture_ratio(SERVER, "SELECT 1") == pytest.approx(1.3 / 1.1)
    assert asked == [False, True, False]
    session._captures = False  # pyright: ignore[reportPrivateUsage]
    assert session.capture_ratio(SERVER, "SELECT 1") is None


@pytest.mark.parametrize(
    ("block", "costs", "settings"),
    [
        ("8kB", "default", {}),
        ("32kB", "scaled", {"seq_page_cost": "4", "random_page_cost": "16"}),
        ("4kB", "scaled", {"seq_page_cost": "0.5", "random_page_cost": "2"}),
    ],
)
def test_costs_in_proportion_to_the_block(block: str, costs: str, settings: dict[str, str]) -> None:
    assert cost_settings(SERVER, {**LEVELS, "data_block": block, "costs": costs}) == settings


def test_measured_costs_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, bool]]()

    def measured(builds: object, request: CalibrationRequest, level: str, *rest: object) -> dict[str, Any]:
        asked.append((level, request.cold))
        return {"data_blocks": [{"settings": [{"name": "seq_page_cost", "value": 0.25}]}]}

    monkeypatch.setattr("octavo.costs.calibrate.calibrate_builds", measured)
    monkeypatch.setattr("octavo.workloads.tpch.costs._measured", {})
    levels = {**LEVELS, "data_block": "8kB", "costs": "calibrated", "device": "native", "cache": "warm"}
    assert cost_settings(SERVER, levels) == cost_settings(SERVER, levels) == {"seq_page_cost": "0.250000000"}
    cost_settings(SERVER, {**levels, "cache": "cold"})
    assert asked == [("native", False), ("native", True)]


def test_costs_and_answers_are_known_before_anything_is_warmed_up_or_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial would contain the measuring of costs otherwise, and cells that warm up at the same time disturb it."""
    asked: list[str] = []

    def costs(server: object, levels: Mapping[str, str]) -> None:
        asked.append(levels["costs"])

    def first_answers(server: object, scale: str) -> None:
        asked.append(scale)

    monkeypatch.setattr(queries, "cost_settings", costs)
    monkeypatch.setattr(queries, "references", first_answers)
    workload = workloads.find("tpch")
    assert isinstance(workload, MeasuresBeforehand)
    workload.beforehand(SERVER, {**LEVELS, "phase": "load"})
    assert asked == []
    workload.beforehand(SERVER, {**LEVELS, "phase": "queries", "costs": "calibrated"})
    assert asked == ["calibrated", "0.37"]


def test_a_trial_measures_beforehand_on_a_server_that_is_not_warm_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Warmed(Exception):
        """The end of what is tested."""

    events: list[str] = []

    def nothing(*_: object, **__: object) -> AbstractContextManager[Any]:
        return nullcontext(server)

    def copy(*_: object) -> AbstractContextManager[Any]:
        return nullcontext((tmp_path, {}))

    def server_group(*_: object, **__: object) -> AbstractContextManager[None]:
        return nullcontext()

    def pin(*_: object) -> None:
        """Nothing is pinned."""

    def warm_up(*_: object) -> None:
        raise Warmed

    def query(name: str) -> list[dict[str, int]]:
        return [{"bytes": 1}]

    def beforehand(server: object, levels: Mapping[str, str]) -> None:
        events.append(levels["cache"])

    def of(*_: object) -> dict[str, str]:
        return {}

    server: Any = SimpleNamespace(
        as_dict=dict, query=query, process=SimpleNamespace(pid=1), settings=dict,
        directory=tmp_path,
    )  # fmt: skip
    for name in ("device.volume", "knobs.applied", "set_user_id.none_left", "cluster.start", "limited_log"):
        monkeypatch.setattr(f"octavo.lab.trial.{name}", nothing)
    monkeypatch.setattr("octavo.lab.trial.pristine_copy", copy)
    monkeypatch.setattr("octavo.lab.trial.server_group", server_group)
    monkeypatch.setattr("octavo.lab.trial.cpu_pinning.pin", pin)
    monkeypatch.setattr("octavo.lab.trial.warm_up", warm_up)
    workload: Any = SimpleNamespace(beforehand=beforehand)
    settings: Any = SimpleNamespace(of=of)
    nobody: Any = None
    equipment = Equipment(workload, Thresholds(), settings, nobody, nobody, nobody, nobody)
    dataset: Any = SimpleNamespace(copy_bytes=0, spec=SimpleNamespace(wal_bytes=0), build=None)
    trial = Trial({"cache": "cold", "server_cpus": "all", "device": "native"}, dataset, 1, tmp_path / "1.server.log")
    with pytest.raises(Warmed):
        equipment.run(trial, {}, PhaseTimings())
    assert events == ["cold"]


def test_the_estimate_counts_the_runs_of_min_time_and_their_restarts() -> None:
    """A query takes 40 / 22 s at scale factor 1, twice that from the device, and a restart a second."""
    workload, one = workloads.find("tpch"), 0.11 * 40 / 22
    levels = {**LEVELS, "phase": "queries", "scale": "0.11", "cache": "warm"}  # 0.2 s, 0.4 s cold
    assert workload.seconds_asked(levels) == pytest.approx(2 * (1 + 2) * one)
    assert workload.seconds_asked({**levels, "min_time": "1s"}) == pytest.approx(2 * (1 + 5) * one)
    cold = {**levels, "cache": "cold"}
    assert workload.seconds_asked(cold) == pytest.approx(2 * 2 * (2 * one + 1))
    assert workload.seconds_asked({**cold, "min_time": "2s"}) == pytest.approx(2 * 5 * (2 * one + 1))
    assert workload.seconds_asked({**levels, "min_time": "1000s"}) == pytest.approx(2 * (1 + queries.MOST_RUNS) * one)


def test_a_cold_trial_tells_the_most_that_was_left_in_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter((4096, 8192, 0))

    def drop_caches(directory: Path) -> dict[str, Any]:
        return {"caches_emptied_by": "posix_fadvise", "cached_bytes_left": next(left)}

    def restart(meanwhile: Callable[[], object]) -> None:
        meanwhile()

    def begin(server: object, query: object) -> None:
        """Nothing is asked."""

    def open_session(server: object, levels: object) -> SimpleNamespace:
        return SimpleNamespace(begin=begin, timeout=1.0)

    def query(name: str) -> list[dict[str, int]]:
        return [{"read_bytes": 0, "clients": 0}]

    monkeypatch.setattr(queries, "drop_caches", drop_caches)
    monkeypatch.setattr(queries, "open_session", open_session)
    server: Any = SimpleNamespace(directory=Path("/data"), restart=restart, query=query)
    power = queries.Power(LEVELS, References("0.37", None))
    pieces = queries.QueryPieces(server, {**LEVELS, "cache": "cold"}, power, None)
    for repetition in (1, 2, 3):
        pieces.begin(("q6", repetition))
    power.add(6, 1, ran(1.0), "same")
    facts = pieces.result().facts
    assert (facts["restarts"], facts["caches_emptied_by"], facts["cached_bytes_left"]) == (3, "posix_fadvise", 8192)


@pytest.mark.parametrize(
    ("counter", "device", "facts"),
    [
        ((500, 7700), (0, 4096, 0, 0, 0, 0), {"cold_requested_bytes": 7200, "cold_device_read_bytes": 8192}),
        ((500, 7700), None, {"cold_requested_bytes": 7200}),
        ((500, 40), (0, 4096, 0, 0, 0, 0), {"cold_device_read_bytes": 8192}),  # the counters were reset
    ],
)
def test_a_cold_trial_counts_what_its_restarts_hide_from_the_instruments(
    monkeypatch: pytest.MonkeyPatch, counter: tuple[int, int], device: tuple[int, ...] | None, facts: dict[str, int]
) -> None:
    readings, clients = iter(counter), iter((1, 0))

    def query(name: str) -> list[dict[str, int]]:
        return [{"clients": next(clients)} if name == "other_clients" else {"read_bytes": next(readings)}]

    def restart(meanwhile: object) -> None:
        """Nothing is restarted."""

    def end(seconds: float) -> Ran:
        return replace(ran(seconds), used=usage.QueryUsage(seconds, 0.0, 0.0, device))

    def begin(server: object, query: object) -> SimpleNamespace:
        return SimpleNamespace(end=end, cpu=0.0)

    def open_session(server: object, levels: object) -> SimpleNamespace:
        return SimpleNamespace(begin=begin, timeout=1.0, connection=SimpleNamespace(close=lambda: None))

    def check(*_: object) -> str:
        return "same"

    monkeypatch.setattr(queries, "open_session", open_session)
    server: Any = SimpleNamespace(restart=restart, query=query)
    expected: Any = SimpleNamespace(check=check)
    levels = {**LEVELS, "cache": "cold"}
    pieces = queries.QueryPieces(server, levels, queries.Power(levels, expected), None)
    for number in (1, 6):
        pieces.begin((f"q{number}", 1)).end(1.0).keep()
    found = pieces.result().facts
    assert {name: value for name, value in found.items() if name.startswith("cold_")} == facts


def test_the_shortest_run_is_one_of_as_many_in_every_cell() -> None:
    """A faster cell has more runs in `min_time`; the shortest of these would be shorter by their number alone."""
    power = queries.Power({**LEVELS, "min_time": "2s"}, References("0.37", None))
    for number, runs in {1: (1.5, 1.25), 6: (0.75, 0.5, 0.25, 0.5)}.items():
        for repetition, seconds in enumerate(runs, 1):
            power.add(number, repetition, ran(seconds), "same")
    result = power.result(10.0, restarts=0)
    assert numbers(result.observations, "seconds_min") == {(None, 1): 1.75, ("q1", 1): 1.25, ("q6", 1): 0.5}
    assert numbers(result.observations, "seconds_median")["q6", 1] == 0.5
