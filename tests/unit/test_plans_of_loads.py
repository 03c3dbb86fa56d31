"""Statements about plans that differ between loads, for synthetic plans."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from octavo.factor import complete
from octavo.postgres.plan_shape import Shape
from octavo.query_plans.loads import LoadPlans, LoadsRequest, announcement
from octavo.query_plans.loads_document import document, verdict, view
from octavo.units import human_duration
from octavo.workloads import tpch

A, B = Shape("Seq Scan", "t"), Shape("Index Scan", "t", "t_pkey")
FACTS = {"version": "18.6", "scale": "0.1", "loads": 2, "draws": 2}


def of(block: str, load: int, own: tuple[Shape, ...], carried: Shape) -> LoadPlans:
    return LoadPlans(block, load, {"q1": (A, A), "q7": own}, {"q1": A, "q7": carried})


def made(*loads: LoadPlans) -> dict[str, Any]:
    return document(loads, FACTS)


def text(found: Mapping[str, Any]) -> str:
    file = StringIO()
    Console(file=file, width=200).print(view(found))
    return file.getvalue()


def test_it_says_what_it_will_do_and_how_long() -> None:
    levels = complete(tpch.WORKLOAD.factors, {"scale": "0.1"})
    seconds = 8 * tpch.WORKLOAD.seconds_asked({**levels, "phase": "load"})
    assert announcement(["8kB", "32kB"], levels, LoadsRequest(4, 5, {})) == (
        "8 loads of TPC-H at scale 0.1, one after the other (4 at each of 8kB, 32kB), with 5 ANALYZE runs each; "
        f"loading takes about {human_duration(seconds)} (--loads, --data-block and --scale change that)"
    )


def test_flapping_that_one_loads_statistics_end_is_statistics() -> None:
    found = made(of("8kB", 1, (A, A), A), of("8kB", 2, (B, A), A))
    assert verdict(found).startswith("The flapping is statistics")
    (size,) = found["sizes"]
    assert (size["flapping_own"], size["flapping_draws"], size["flapping_carried"]) == (["q7"], ["q7"], [])
    (query,) = [one for one in found["queries"] if one["query"] == "q7"]
    assert query["sizes"][0] == {
        "data_block": "8kB", "own": ["A", "B"], "draws": ["A", "A", "B", "A"], "carried": ["A", "A"],
    }  # fmt: skip
    assert "1 of 2 queries have more than one plan over 2 loads (q7)" in text(found)
    assert "A × 3 B × 1" in text(found)


def test_flapping_that_stays_is_named() -> None:
    found = made(of("8kB", 1, (A, A), A), of("8kB", 2, (B, B), B))
    assert verdict(found) == (
        "The flapping is not statistics alone: with one load's statistics everywhere, plans still differ for q7."
    )


def test_one_load_that_is_analysed_once_cannot_flap() -> None:
    found = document([of("8kB", 1, (A,), A)], {**FACTS, "loads": 1, "draws": 1})
    assert verdict(found).startswith("Flapping was not tested")


def test_a_draw_alone_may_change_a_plan() -> None:
    found = made(of("8kB", 1, (A, B), A), of("8kB", 2, (A, A), A))
    assert found["sizes"][0]["flapping_own"] == []
    assert found["sizes"][0]["flapping_draws"] == ["q7"]
    assert verdict(found).startswith("The flapping is statistics")


def test_what_differs_between_sizes_with_one_loads_statistics_is_the_page_sizes() -> None:
    found = made(of("8kB", 1, (A, A), A), of("32kB", 1, (B, B), B))
    assert found["other_between_sizes"] == ["q7"]
    assert verdict(found).startswith("No query's plan differs between loads")
    assert "Between 8kB and 32kB" in text(found)


@pytest.mark.parametrize("count", [1, 2])
def test_one_plan_everywhere_has_no_table(count: int) -> None:
    found = made(*(of("8kB", load, (A, A), A) for load in range(1, count + 1)))
    assert "Queries with more than one plan" not in text(found)
