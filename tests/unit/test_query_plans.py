"""Plans across page sizes: forcing with a fake planner, effects of planted times, the output."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from rich.console import Console

from octavo.errors import OctavoError, UsageError
from octavo.postgres.plan_shape import Shape
from octavo.query_plans import servers as query_servers
from octavo.query_plans.costs import compared, parse_calibration
from octavo.query_plans.document import document
from octavo.query_plans.effects import chosen, effects, means, medians
from octavo.query_plans.force import Forced, distance, force
from octavo.query_plans.parting import Joined, joins_of, parting
from octavo.query_plans.render import view
from octavo.query_plans.table import Table, TimedPlan

SEQ = Shape("Seq Scan", "t")
INDEX = Shape("Index Scan", "t", "t_pkey")
HASH = Shape("Hash Join", below=(SEQ, Shape("Hash", below=(Shape("Seq Scan", "u"),))))
LOOP = Shape("Nested Loop", below=(SEQ, Shape("Index Scan", "u", "u_pkey")))
SMALL, LARGE = 8192, 32768


# ── Forcing ───────────────────────────────────────────────────────────────────────────────────


def test_what_is_chosen_anyway_takes_one_try() -> None:
    assert force(lambda settings: SEQ, SEQ, page_ratio=4.0) == Forced({}, 1)


def test_costs_of_pages_are_scaled_first() -> None:
    def planner(settings: Mapping[str, str]) -> Shape:
        return INDEX if float(settings.get("random_page_cost", 4)) > 10 else SEQ

    found = force(planner, INDEX, page_ratio=4.0)
    assert found == Forced({"seq_page_cost": "4", "random_page_cost": "16"}, 2)


def test_methods_that_the_plan_does_not_have_are_switched_off() -> None:
    def planner(settings: Mapping[str, str]) -> Shape:
        return LOOP if settings.get("enable_hashjoin") == "off" else HASH

    found = force(planner, LOOP, page_ratio=1.0)
    assert found is not None and found.settings["enable_hashjoin"] == "off"
    assert "enable_nestloop" not in found.settings and "enable_seqscan" not in found.settings


def test_a_hash_of_each_worker_is_none_that_they_share() -> None:
    def plan(kind: str) -> Shape:
        inner = Shape(f"{kind}Hash", below=(Shape(f"{kind}Seq Scan", "u"),))
        return Shape("Gather", below=(Shape(f"{kind}Hash Join", below=(Shape("Parallel Seq Scan", "t"), inner)),))

    shared, own = plan("Parallel "), plan("")

    def planner(settings: Mapping[str, str]) -> Shape:
        return own if settings.get("enable_parallel_hash") == "off" else shared

    found = force(planner, own, page_ratio=1.0, tries=60)
    assert found is not None and "enable_hashjoin" not in found.settings
    assert force(lambda settings: own, shared, page_ratio=1.0, tries=60) is None


def test_the_rest_is_searched_from_what_comes_nearest() -> None:
    def planner(settings: Mapping[str, str]) -> Shape:
        cheap = float(settings.get("cpu_tuple_cost", 0.01)) < 0.002
        dear = float(settings.get("cpu_operator_cost", 0.0025)) > 0.02
        return LOOP if cheap and dear else Shape("Nested Loop", below=(SEQ, SEQ)) if cheap else HASH

    found = force(planner, LOOP, page_ratio=1.0)
    assert found is not None and planner(found.settings) == LOOP
    assert found == force(planner, LOOP, page_ratio=1.0)
    assert force(planner, LOOP, page_ratio=1.0, tries=20) is None


def test_no_setting_is_one_that_the_executor_reads() -> None:
    seen: set[str] = set()

    def planner(settings: Mapping[str, str]) -> Shape:
        seen.update(settings)
        return HASH

    assert force(planner, LOOP, page_ratio=2.0, tries=400) is None
    assert all(name.endswith("_cost") or name.startswith("enable_") or name == "effective_cache_size" for name in seen)


def test_distance_is_zero_for_the_same_plan_alone() -> None:
    assert distance(HASH, HASH) == 0
    assert 0 < distance(HASH, Shape("Hash Join", below=(INDEX, HASH.below[1]))) < distance(HASH, INDEX)


# ── Effects ───────────────────────────────────────────────────────────────────────────────────


def planted(*, at_small: float = 2.0, at_large: float = 2.0, forced: bool = True) -> Table:
    """A page of 32 kB takes half the time with both plans; plan B takes the given multiple of plan A's time."""
    a, b = SEQ.identity, INDEX.identity
    times = {(SMALL, a): 1.0, (SMALL, b): at_small, (LARGE, a): 0.5, (LARGE, b): 0.5 * at_large}
    by = {(SMALL, a): ("default", "scaled"), (LARGE, b): ("default",), (LARGE, a): ("scaled",)}
    return Table(
        "q1",
        {a: SEQ, b: INDEX},
        tuple(
            TimedPlan(block, plan, by.get((block, plan), ()), Forced({}, 1), [seconds, seconds * 1.1, seconds * 0.9])
            if (block, plan) in by or forced
            else TimedPlan(block, plan, (), None)
            for (block, plan), seconds in times.items()
        ),
        {},
    )


def test_page_and_plan_are_told_apart() -> None:
    (found,) = effects(planted(), SMALL)
    assert (found.page, found.plan, found.whole) == pytest.approx((0.5, 2.0, 1.0))
    assert found.page_range == pytest.approx((0.5, 0.5)) and not found.same_plan
    assert found.regret == pytest.approx(2.0)


def test_their_product_is_the_whole_also_where_they_act_together() -> None:
    (found,) = effects(planted(at_small=3.0, at_large=1.5), SMALL)
    assert found.page is not None and found.plan is not None and found.whole is not None
    assert found.page * found.plan == pytest.approx(found.whole)
    assert found.page_range == pytest.approx((0.25, 0.5))


def test_what_was_not_forced_or_cut_off_has_no_effect() -> None:
    (found,) = effects(planted(forced=False), SMALL)
    assert (found.page, found.plan) == (None, None) and found.whole == pytest.approx(1.0)
    table = planted()
    table.entries[0].seconds[:] = [None]
    assert (SMALL, SEQ.identity) not in medians(table)
    assert effects(table, SMALL)[0].whole is None
    assert means(effects(table, SMALL)) is None


def test_costs_are_compared_by_the_plans_that_they_choose() -> None:
    default, scaled = (chosen([planted()], costs, LARGE, SMALL) for costs in ("default", "scaled"))
    assert (default.flips, scaled.flips) == (("q1",), ())
    assert (default.seconds, scaled.seconds) == pytest.approx((1.0, 0.5))
    assert (default.regret, scaled.regret) == pytest.approx((2.0, 1.0))
    assert default.worst == ("q1", pytest.approx(2.0))
    assert default.queries == 1


def test_a_plan_that_was_cut_off_is_not_the_best_one() -> None:
    """Plan B, that of the default costs at 32 kB, did not end: no costs have a comparable sum there."""
    table = planted()
    next(one for one in table.entries if (one.block, one.plan) == (LARGE, INDEX.identity)).seconds[:] = [1.0, None]
    default, scaled = (chosen([table], costs, LARGE, SMALL) for costs in ("default", "scaled"))
    assert (default.queries, default.regret, default.worst, default.cut_off) == (0, None, None, ("q1",))
    assert (scaled.queries, scaled.regret, scaled.cut_off) == (0, None, ())
    made = document([table, replace(planted(), query="q2")], SMALL, ["default", "scaled"], {"statistics": "own"})
    json.dumps(made, allow_nan=False)
    out = StringIO()
    Console(file=out, width=120).print(view(made))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "default 32kB 1 1.00 s 500 ms × 2.00 2 q2 × 2.00" in lines
    assert "Cancelled at the time limit, and not in these times: q1 (default, 32kB)." in lines
    assert "q1 A 100 % B cancelled" in lines


# ── Where plans differ ────────────────────────────────────────────────────────────────────────


def test_rows_at_the_join_where_plans_part() -> None:
    def scan(name: str) -> dict[str, object]:
        return {"Node Type": "Seq Scan", "Relation Name": name, "Actual Rows": 5, "Plan Rows": 5, "Actual Loops": 1}

    def join(kind: str, *below: dict[str, object]) -> dict[str, object]:
        facts = {"Plan Rows": 10, "Actual Rows": 400, "Actual Loops": 2, "Join Type": "Inner"}
        return {"Node Type": kind, **facts, "Plans": list(below)}

    one = joins_of(join("Hash Join", join("Nested Loop", scan("a"), scan("b")), scan("c")))
    other = joins_of(join("Hash Join", join("Hash Join", scan("a"), scan("b")), scan("c")))
    assert parting(one, one) is None
    found = parting(one, other)
    assert found is not None
    assert [join.relations for join in found] == [("a", "b"), ("a", "b")]
    assert (found[0].estimated, found[0].actual) == (20, 800) and found[0].factor == pytest.approx(801 / 21)


# ── Output ────────────────────────────────────────────────────────────────────────────────────


def test_the_document_says_what_it_comes_to_first() -> None:
    table = planted()
    joined = (Joined(("t", "u"), "Hash Join(…)", 10.0, 900.0),)
    other = (Joined(("t", "u"), "Nested Loop(…)", 12.0, 900.0),)
    table = Table(table.query, table.plans, table.entries, {SEQ.identity: joined, INDEX.identity: other})
    made = document([table], SMALL, ["default", "scaled"], {"statistics": "each load's own"})
    json.dumps(made, allow_nan=False)
    out = StringIO()
    Console(file=out, width=120).print(view(made))
    text = out.getvalue()
    assert text.startswith("32kB against 8kB: page effect × 0.50, plan effect × 2.00 on time")
    assert "2 of 2" not in text and "1 of 1 plans could be forced" in text
    assert "A 100 %" in " ".join(text.split()) and "B 100 %" in " ".join(text.split())
    assert "B: t: Seq Scan → Index Scan using t_pkey" in text
    assert "10 rows estimated, 900 returned, × 81.9" in text


# ── Calibrations ──────────────────────────────────────────────────────────────────────────────

_NAMES = ("seq_page_cost", "random_page_cost", "cpu_tuple_cost", "cpu_index_tuple_cost", "cpu_operator_cost")


def calibration(*sizes: str) -> str:
    settings = [{"name": name, "value": 0.5} for name in _NAMES]
    return json.dumps({"data_blocks": [{"data_block": size, "settings": settings} for size in sizes]})


def test_costs_that_are_compared(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(calibration("8kB", "32kB"))
    found = compared([SMALL, LARGE], file)
    assert list(found) == ["default", "scaled", "calibrated"]
    assert found["default"] == {SMALL: {}, LARGE: {}}
    assert found["scaled"][LARGE] == {"seq_page_cost": "4", "random_page_cost": "16"}
    assert found["calibrated"][SMALL]["cpu_tuple_cost"] == "0.500000000"
    file.write_text(calibration("8kB"))
    with pytest.raises(UsageError, match="it has no 32kB; octavo costs calibrate --data-block 8kB,32kB"):
        compared([SMALL, LARGE], file)
    with pytest.raises(UsageError, match="cannot be read"):
        compared([SMALL], tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"data_blocks": []}', calibration("7kB"), calibration("8kB").replace("0.5", "-1"), "[" * 9999],
)
def test_what_is_no_calibration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the calibration has no settings"):
        parse_calibration(text)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("table", "--data-block", "8kB"), "two sizes or more"),
        (("table", "--base", "4kB"), "--base 4kB: it is none of 8kB, 32kB"),
        (("table", "--queries", "23"), "queries: invalid level '23'"),
        (("table", "-c", "work_mem"), "not a setting"),
        (("table", "--timeout", "0s"), "--timeout 0s: it must be from 1ms to 24d"),
        (("table", "--timeout", "25d"), "--timeout 25d: it must be from 1ms to 24d"),
        (("table", "--pg", "17"), "--pg 17: statistics can be carried from PostgreSQL 18 on; use 18, or --statistics"),
        (("loads", "--pg", "17"), "--pg 17: statistics can be carried from PostgreSQL 18 on; use 18"),
        (("loads", "--pg", "18,17"), "--pg 18,17: name one version"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    from typer.testing import CliRunner

    from octavo.cli.app import app

    ran = CliRunner().invoke(app, ["plans", *arguments])
    assert isinstance(ran.exception, UsageError) and problem in str(ran.exception)


# ── Servers ───────────────────────────────────────────────────────────────────────────────────


def nothing(*_: object) -> None:
    """Takes whatever it is asked."""


class FailingServer:
    """A scratch server whose disk is full."""

    def connect(self, database: str) -> AbstractContextManager[Any]:
        return nullcontext(SimpleNamespace(execute=nothing))

    def execute(self, statement: str) -> None:
        raise psycopg.errors.DiskFull("could not extend file:\nNo space left on device")

    def disconnect(self) -> None:
        """There is no connection."""


def test_a_load_that_fails_is_an_error_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def scratch_server(*_: object) -> AbstractContextManager[FailingServer]:
        return nullcontext(FailingServer())

    build: Any = SimpleNamespace(manifest={"data_block": "8kB"})
    workload: Any = SimpleNamespace(fill=nothing)
    nobody: Any = None
    monkeypatch.setattr(query_servers, "scratch_server", scratch_server)
    loading = query_servers.loaded(build, workload, {}, {}, nobody, nobody)
    with pytest.raises(OctavoError, match=r"^loading failed: could not extend file: No space left on device$"), loading:
        pass


def test_statistics_that_a_server_refuses_are_an_error_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def carry(source: object, target: object) -> int:
        raise psycopg.errors.UndefinedFunction("function pg_restore_relation_stats does not exist")

    def loaded(*_: object) -> AbstractContextManager[None]:
        return nullcontext()

    builds: Any = [SimpleNamespace(manifest={"data_block": size}) for size in ("8kB", "32kB")]
    nobody: Any = None
    monkeypatch.setattr(query_servers, "loaded", loaded)
    monkeypatch.setattr(query_servers, "carry", carry)
    found = query_servers.servers(builds, nobody, {}, {}, nobody, nobody, lambda text: None, one_statistics=True)
    with pytest.raises(OctavoError, match=r"^the server refuses the statistics: function pg_restore"), found:
        pass
