"""The workload scan: its factors, the plans that it accepts, and the blocks on which the limit is measured."""

import itertools
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo import workloads
from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.plan import setting_versions
from octavo.plan.cells import make_cells
from octavo.plan.impossible import impossible_cells
from octavo.plan.presets import find_plan
from octavo.plan.server_settings import settings_of
from octavo.postgres.datasets.spec import UNVACUUMED
from octavo.workload_support import explained
from octavo.workloads.base import MeasuresAfterwards
from octavo.workloads.scan import (
    _observations,  # pyright: ignore[reportPrivateUsage]
    ceiling,
    table,
)
from octavo.workloads.scan import query as queries
from octavo.workloads.scan.query import Scan

SCAN = workloads.find("scan")
LEVELS = {
    "query": "bitmap-scan",
    "share": "0.5%",
    "workers": "0",
    "table": "64MB",
    "placement": "scattered",
    "state": "settled",
}


def factor(name: str) -> Factor:
    return next(each for each in SCAN.factors if each.name == name)


def plan_of(*types: str, **more: Any) -> dict[str, Any]:
    """A plan of nested nodes."""
    plan: dict[str, Any] = {}
    for name in reversed(types):
        plan = {"Node Type": name, **({"Plans": [plan]} if plan else {})}
    return {**plan, **more}


@pytest.mark.parametrize(
    ("name", "text", "level"),
    [
        ("share", "0.5%", "0.5%"),
        ("share", "100%", "100%"),
        ("placement", "stretches of 65536B", "stretches of 64kB"),
        ("placement", "clustered", "clustered"),
        ("table", "1024MB", "1GB"),
    ],
)
def test_levels_have_one_spelling(name: str, text: str, level: str) -> None:
    assert factor(name).level(text) == level
    assert factor(name).level(level) == level


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("share", "0%"), ("share", "0.001%"), ("share", "101%"), ("share", "0.015%"), ("share", "much"),
        ("placement", "stretches of 2GB"), ("placement", "stretches of many"), ("placement", "somewhere"),
        ("query", "tid-scan"), ("state", "cold"), ("workers", "-1"), ("table", "1kB"),
    ],
)  # fmt: skip
def test_what_is_no_level_is_told_in_a_line(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: .*allowed: ") as caught:
        factor(name).level(text)
    assert "\n" not in str(caught.value)


def test_the_table_has_the_same_rows_at_every_block_size() -> None:
    rows = {table.rows_of({**LEVELS, "data_block": block}) for block in ("1kB", "8kB", "32kB")}
    assert rows == {64 * 1024**2 // table.ROW_BYTES}
    assert SCAN.contents({**LEVELS, "data_block": "1kB"}) == SCAN.contents({**LEVELS, "data_block": "8kB"})


def test_a_hash_index_and_a_table_that_nothing_has_read_are_loads_of_their_own() -> None:
    levels = {**LEVELS, "data_block": "8kB"}
    loads = {SCAN.contents({**levels, **other}) for other in ({}, {"query": "index-scan"}, {"query": "seq-scan"})}
    assert len(loads) == 1
    assert UNVACUUMED not in next(iter(loads))
    hashed = SCAN.contents({**levels, "query": "hash-index-scan"})
    first = SCAN.contents({**levels, "state": "first after load"})
    assert {hashed, first}.isdisjoint(loads)
    assert UNVACUUMED in first
    assert SCAN.contents({**levels, "state": "during a checkpoint"}) in loads


@pytest.mark.parametrize(
    ("query", "asked"), [("index-scan", "key < 50"), ("hash-index-scan", "generate_series(0, 49)")]
)
def test_every_kind_of_scan_asks_for_the_same_rows(query: str, asked: str) -> None:
    assert asked in queries.statement({**LEVELS, "query": query})


def test_the_planner_is_held_to_one_way() -> None:
    ways = {
        "seq-scan": "enable_seqscan",
        "bitmap-scan": "enable_bitmapscan",
        "index-scan": "enable_indexscan",
        "hash-index-scan": "enable_indexscan",
    }
    for query, way in ways.items():
        settings = queries.settings_for({**LEVELS, "query": query})
        assert {name for name, value in settings.items() if value == "on"} == {way}
        assert settings["max_parallel_workers_per_gather"] == "0"
    assert queries.settings_for({**LEVELS, "workers": "2"})["parallel_setup_cost"] == "0"


@pytest.mark.parametrize(
    ("query", "workers", "plan", "reason"),
    [
        ("seq-scan", "0", plan_of("Aggregate", "Seq Scan"), None),
        ("bitmap-scan", "0", plan_of("Aggregate", "Bitmap Heap Scan", "Bitmap Index Scan"), None),
        ("bitmap-scan", "0", plan_of("Aggregate", "Seq Scan"), "the plan has Seq Scan where a Bitmap Heap Scan"),
        ("bitmap-scan", "0", plan_of("Aggregate", "Index Scan"), "the plan has Index Scan"),
        ("seq-scan", "0", plan_of("Aggregate", "Index Only Scan"), "the plan has Index Only Scan"),
        ("seq-scan", "0", plan_of("Result"), "the plan has no scan"),
        ("index-scan", "0", plan_of("Aggregate", "Index Scan"), None),
        ("index-scan", "0", plan_of("Aggregate", "Index Only Scan"), "the plan has Index Only Scan"),
        ("hash-index-scan", "0", plan_of("Aggregate", "Nested Loop", "Function Scan", "Index Scan"), None),
        ("hash-index-scan", "0", plan_of("Hash Join", "Function Scan", "Seq Scan"), "the plan has Seq Scan"),
        ("seq-scan", "2", plan_of("Gather", "Aggregate", "Seq Scan", **{"Workers Launched": 2}), None),
        (
            "seq-scan",
            "2",
            plan_of("Gather", "Seq Scan", **{"Workers Launched": 1}),
            "1 parallel workers were launched, 2 requested; see max_worker_processes and max_parallel_workers",
        ),
        (
            "seq-scan",
            "0",
            plan_of("Gather", "Seq Scan", **{"Workers Launched": 1}),
            "1 parallel workers were launched, 0",
        ),
    ],
)
def test_another_plan_is_not_what_was_to_be_measured(
    query: str, workers: str, plan: dict[str, Any], reason: str | None
) -> None:
    problem = queries.problem_of(plan, {**LEVELS, "query": query, "workers": workers})
    assert (problem is None) if reason is None else (problem or "").startswith(reason)


def test_the_plan_is_taken_from_auto_explain_s_message_only() -> None:
    plan = plan_of("Aggregate", "Seq Scan")
    message = f"duration: 12.345 ms  plan:\n{json.dumps({'Query Text': 'SELECT', 'Plan': plan})}"
    assert explained.document(explained.plan_text(message) or "")["Plan"] == plan
    assert explained.plan_text("there is no plan:\nhere") is None


@given(st.sets(st.integers(0, 300)))
def test_the_limit_is_measured_on_the_very_blocks(blocks: set[int]) -> None:
    lines = ceiling.ranges(sorted(blocks))
    pairs = [tuple(map(int, line.split("-"))) for line in lines]
    assert [block for first, last in pairs for block in range(first, last + 1)] == sorted(blocks)
    assert all(second[0] > first[1] + 1 for first, second in itertools.pairwise(pairs))  # as far apart as possible


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("query", ["seq-scan", "bitmap-scan"])
def test_the_limit_is_measured_with_the_servers_limits(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, cache: str, query: str
) -> None:
    """On cgroup version 2 a device limit is the group's, on both versions the memory for the page cache is."""
    (tmp_path / "1").write_bytes(bytes(64 * 8192))
    server = MagicMock(
        directory=tmp_path, account=Account("ourselves", os.geteuid(), os.getegid()), journal=journal,
        group=tmp_path / "group",
    )  # fmt: skip
    answer = server.connection.execute.return_value
    answer.fetchone.return_value = {"path": "1"}
    answer.fetchall.return_value = [{"block": block} for block in (3, 4, 9)]
    groups: list[Any] = []
    run = children.run

    def outside(arguments: Any, journal: Journal, **given: Any) -> children.Finished:
        groups.append(given.pop("groups"))
        return run(arguments, journal, **given)

    monkeypatch.setattr(children, "run", outside)
    found = ceiling.ceiling(server, {"cache": cache, "query": query, "data_block": "8kB", "share": "1%"}, 50.0)
    values = {one.metric: one.value for one in found}
    names = ("plain", "queued", "direct") if cache == "cold" else ("cached",)
    ways = {f"limit_{name}_mb_per_second" for name in names}
    measured = [values[way] for way in ways & values.keys()]
    assert measured or cache == "cold"  # where files stay in memory (tmpfs) nothing is cold
    assert values.get("limit_mb_per_second") == max(measured, default=None)
    assert groups == [[server.group]] * len(ways)


@pytest.mark.parametrize(
    ("version", "settings", "named"),
    [
        ("17", {"io_method": "worker"}, "io_method came with PostgreSQL 18"),
        ("15", {"io_combine_limit": "128kB"}, "io_combine_limit came with PostgreSQL 17"),
        ("15", {"transaction_buffers": "1MB"}, "transaction_buffers came with PostgreSQL 17"),
        ("15", {"vacuum_buffer_usage_limit": "2MB"}, "vacuum_buffer_usage_limit came with PostgreSQL 16"),
        ("17", {"vacuum_truncate": "off"}, "vacuum_truncate came with PostgreSQL 18"),
        ("17", {"io_combine_limit": "128kB", "transaction_buffers": "1MB", "summarize_wal": "on"}, None),
        ("18.6", {"io_method": "io_uring", "io_max_combine_limit": "1MB"}, None),
    ],
)
def test_a_setting_that_a_version_lacks_makes_a_cell_that_cannot_exist(
    version: str, settings: dict[str, str], named: str | None
) -> None:
    reason = setting_versions.judge({"version": version}, settings)
    assert (reason is None) if named is None else (reason or "").startswith(named)


def test_as_found_leaves_a_setting_alone() -> None:
    assert settings_of({"settings.io_method": "as-found", "settings.work_mem": "4MB"}) == {"work_mem": "4MB"}


def test_a_version_without_asynchronous_reads_cannot_be_crossed_with_their_methods() -> None:
    plan, _ = find_plan("seq-scan", size="quick")
    bad = plan.model_copy(update={"cells": [*plan.cells, {"version": "17"}]})
    found = impossible_cells(bad, make_cells(bad))
    assert {each.cell.levels["version"] for each in found} == {"17"}
    assert all("came with PostgreSQL 18" in each.reason for each in found)


def test_it_measures_the_limit_after_the_instruments_have_stopped() -> None:
    assert isinstance(SCAN, MeasuresAfterwards)
    assert not isinstance(workloads.find("pgbench"), MeasuresAfterwards)


def test_lossy_blocks_are_those_of_all_processes_of_a_parallel_scan() -> None:
    """PostgreSQL 18 reports those of the workers separately."""
    workers = [{"Worker Number": 0, "Lossy Heap Blocks": 40}, {"Worker Number": 1, "Lossy Heap Blocks": 60}]
    blocks = {f"Shared {kind} Blocks": 0 for kind in ("Read", "Hit", "Dirtied", "Written")}
    heap = {"Node Type": "Bitmap Heap Scan", "Lossy Heap Blocks": 50, "Workers": workers}
    plan = {"Node Type": "Gather", **blocks, "Plans": [heap]}
    found = _observations(Scan(0.0, 1.0, plan, None), 8192)
    assert {one.metric: one.value for one in found}["lossy_heap_blocks"] == 150.0
