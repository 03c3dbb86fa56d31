"""Scans on real servers: PostgreSQL's requests, the plan, the answer, and the limit on the same blocks."""

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from octavo.analysis.document import make_document
from octavo.home import store_path
from octavo.lab.session import start_run
from octavo.plan.presets import find_plan
from octavo.store.store import Store

pytestmark = pytest.mark.measures

# Small, and without the checks that only a quiet machine passes.
_SMALL = """
name = "small"
question = "Does the whole way work?"
workload = "scan"
rounds = 1
loads = 1
control = false
[baseline]
settings.io_method = "sync"
[factors]
data_block = "4kB"
settings.io_method = ["sync", "worker"]
query = ["seq-scan", "bitmap-scan"]
placement = "stretches of 32kB"
share = "10%"
table = "32MB"
cache = "cold"
recycled_wal = "32MB"
shared_buffers = "64MB"
[settings]
autovacuum = "off"
work_mem = "64MB"
[validity]
fewest_transactions = 1
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
"""


def trials_of(plan: str, path: Path, wanted: int = 4) -> list[dict[str, Any]]:
    path.write_text(plan)
    ended = start_run(find_plan(str(path))[0], "", "octavo run", 7, lambda _: None)
    with closing(Store.open(store_path())) as store:
        trials: list[dict[str, Any]] = make_document(store, ended.run)["trials"]
    assert [(trial["status"], trial["reason"]) for trial in trials] == [("ok", None)] * wanted
    return trials


@pytest.fixture(scope="module")
def trials(home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return trials_of(_SMALL, tmp_path_factory.mktemp("scan") / "small.toml")


def observed(trial: dict[str, Any]) -> dict[str, float]:
    return {each["metric"]: each["value"] for each in trial["observations"] if each["item"] is None}


def of_kind(trials: list[dict[str, Any]], query: str) -> dict[str, dict[str, float]]:
    chosen = [trial for trial in trials if trial["levels"]["query"] == query]
    return {trial["levels"]["settings.io_method"]: observed(trial) for trial in chosen}


def test_a_cold_sequential_scan_reads_the_table_once_in_combined_requests(trials: list[dict[str, Any]]) -> None:
    for numbers in of_kind(trials, "seq-scan").values():
        assert math.isclose(numbers["shared_read_bytes"], 32 * 1024**2, rel_tol=0.15)
        assert math.isclose(
            numbers["asked_requests"] * numbers["asked_request_bytes"], numbers["shared_read_bytes"], rel_tol=0.01
        )  # plus a few blocks of catalogs
        assert 0.75 * 128 * 1024 < numbers["asked_request_bytes"] <= 128 * 1024  # io_combine_limit
        assert numbers["seconds"] > 0


def test_the_scan_s_share_of_the_limit_is_its_rate_by_the_best_of_octavo_io(trials: list[dict[str, Any]]) -> None:
    for trial in trials:
        numbers = observed(trial)
        ways = [value for name, value in numbers.items() if name in {f"limit_{way}_mb_per_second" for way in
                ("plain", "queued", "direct")}]  # fmt: skip
        assert numbers["limit_mb_per_second"] == max(ways)
        assert math.isclose(numbers["limit_share"], numbers["mb_per_second"] / numbers["limit_mb_per_second"])


def test_a_bitmap_scan_reads_the_blocks_with_its_rows_and_joins_neighbours(trials: list[dict[str, Any]]) -> None:
    for numbers in of_kind(trials, "bitmap-scan").values():
        assert numbers["lossy_heap_blocks"] == 0
        # A tenth of the rows in stretches of 32 kB: about a tenth of the blocks, plus those at the boundaries of
        # stretches.
        assert 0.05 * 32 * 1024**2 < numbers["shared_read_bytes"] < 0.3 * 32 * 1024**2
        assert 2 * 4096 < numbers["asked_request_bytes"] < 128 * 1024


def test_both_methods_ask_for_the_same(trials: list[dict[str, Any]]) -> None:
    for query in ("seq-scan", "bitmap-scan"):
        kinds = of_kind(trials, query)
        assert kinds["sync"]["shared_read_blocks"] == kinds["worker"]["shared_read_blocks"]


def test_parallel_workers_take_part_also_where_reading_is_nearly_all_of_the_work(home: Path, tmp_path: Path) -> None:
    few = _SMALL.replace('"stretches of 32kB"', '"scattered"').replace('"10%"', '"0.5%"')
    trials = trials_of(few.replace("recycled_wal", "workers = 2\nrecycled_wal"), tmp_path / "parallel.toml")
    for trial in trials:  # none of them is valid without both workers
        numbers = observed(trial)
        assert math.isclose(
            numbers["asked_requests"] * numbers["asked_request_bytes"], numbers["shared_read_bytes"], rel_tol=0.05
        )


def test_index_scans_find_the_rows_of_a_bitmap_scan_block_by_block(home: Path, tmp_path: Path) -> None:
    other = _SMALL.replace('settings.io_method = "sync"', 'query = "bitmap-scan"')
    other = other.replace('settings.io_method = ["sync", "worker"]\n', 'settings.io_method = "sync"\n')
    other = other.replace(
        'query = ["seq-scan", "bitmap-scan"]', 'query = ["bitmap-scan", "index-scan", "hash-index-scan"]'
    )
    trials = trials_of(other, tmp_path / "kinds.toml", 3)  # each answer is checked against the same counts
    asked = {trial["levels"]["query"]: observed(trial)["asked_request_bytes"] for trial in trials}
    assert asked["index-scan"] == asked["hash-index-scan"] == 4096
    assert asked["bitmap-scan"] > 2 * 4096


def test_the_first_scan_sets_hint_bits_and_a_checkpoint_runs_beside_one(home: Path, tmp_path: Path) -> None:
    other = _SMALL.replace('settings.io_method = "sync"', 'state = "settled"')
    other = other.replace(
        'settings.io_method = ["sync", "worker"]\n', 'state = ["settled", "first after load", "during a checkpoint"]\n'
    )
    other = other.replace('["seq-scan", "bitmap-scan"]', '"seq-scan"').replace(
        '"64MB"\n[settings]', '"32MB"\n[settings]'
    )
    trials = trials_of(other, tmp_path / "states.toml", 3)
    seen = {trial["levels"]["state"]: observed(trial) for trial in trials}
    # All blocks of the table and no others, except a few blocks of catalogs.
    first = seen["first after load"]
    assert math.isclose(first["dirtied_blocks"], first["shared_read_blocks"], rel_tol=0.02)
    assert seen["settled"]["dirtied_blocks"] == 0
    assert 0 < seen["during a checkpoint"]["checkpoint_share"] <= 1
    assert "checkpoint_share" not in first
