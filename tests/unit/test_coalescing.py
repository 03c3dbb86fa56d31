"""The workload `coalescing` without a server: the options of its reader, and the conversion of its result."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import OctavoError
from octavo.io.engine import make, measure
from octavo.io.job import Job
from octavo.io.policies import POLICIES
from octavo.plan.cells import make_cells
from octavo.plan.condition_text import condition_text
from octavo.plan.presets import find_plan
from octavo.workloads.coalescing import WORKLOAD
from octavo.workloads.coalescing.lists import SCANS, database_bytes, rows_of
from octavo.workloads.coalescing.reader import ceiling_of, observations, options, unchanged

BLOCK = 8192


def test_a_condition_says_what_is_random() -> None:
    plan, _ = find_plan("coalescing", size="here")
    conditions = {condition_text(cell.condition) for cell in make_cells(plan)}
    assert "a 1,000 IOPS device, bitmap heap scan of 5 % of the rows, without readahead" in conditions
    assert "no device limit, random blocks, with readahead" in conditions


def unseen(phase: str, done: float, total: int) -> None:
    """Ignores progress."""


def result(**changes: Any) -> dict[str, Any]:
    """1,000 blocks wanted, in 250 requests of 48 kB."""
    return {
        "blocks": 1000, "requests": 250, "bytes": 250 * 6 * BLOCK, "seconds": 2.0,
        "blocks_per_second": 500.0, "requests_per_second": 125.0, "bytes_per_request": 6 * BLOCK,
        "cpu_seconds_per_block": 4e-6, "latency_us": {"p50": 90.0, "p99": 400.0},
        "device": {"reads": 500, "read_bytes": 2000 * BLOCK, "bytes_per_read": 4 * BLOCK},
        **changes,
    }  # fmt: skip


def test_what_a_result_says() -> None:
    found = {one.metric: one.value for one in observations(result(), BLOCK, "iops=1000")}
    assert found["blocks_per_second"] == 500.0
    assert found["asked_per_wanted"] == 1.5
    assert found["read_per_wanted"] == 2.0
    assert found["device_bytes_per_read"] == 4 * BLOCK
    assert found["cpu_us_per_block"] == pytest.approx(4.0)
    assert found["ceiling_blocks_per_second"] == 4000.0  # a quarter of a request per block
    assert set(found) <= {metric.name for metric in WORKLOAD.metrics}


def test_what_cannot_be_told_is_left_out() -> None:
    found = {one.metric for one in observations(result(device=None), BLOCK, "native")}
    assert found.isdisjoint({"read_per_wanted", "device_bytes_per_read", "ceiling_blocks_per_second"})
    assert "blocks_per_second" in found


@given(st.integers(1, 10_000), st.integers(1, 1000), st.floats(0.01, 1.0), st.floats(1.0, 16.0))
def test_the_tighter_limit_makes_the_ceiling(iops: int, mbps: int, requests: float, blocks: float) -> None:
    both = ceiling_of(f"iops={iops},mbps={mbps}", requests, blocks * BLOCK)
    one = ceiling_of(f"iops={iops}", requests, blocks * BLOCK)
    other = ceiling_of(f"mbps={mbps}", requests, blocks * BLOCK)
    assert one == pytest.approx(iops / requests)
    assert one is not None
    assert other is not None
    assert both == min(one, other)


@pytest.mark.parametrize(("device", "blocks"), [("gp2:600", 3000.0), ("gp2:600,credits=0", 1800.0)])
def test_a_volume_without_credits_has_its_baseline_as_the_ceiling(device: str, blocks: float) -> None:
    assert ceiling_of(device, 1.0, BLOCK) == blocks


@given(st.integers(1, 10_000), st.integers(1, 14))
def test_a_hole_pays_while_the_requests_are_the_limit(iops: int, hole: int) -> None:
    """Two blocks with a hole between them: joined they are one request, and the hole's bytes on top."""
    device = f"iops={iops},mbps=25"
    apart, joined = ceiling_of(device, 1.0, BLOCK), ceiling_of(device, 0.5, (2 + hole) / 2 * BLOCK)
    assert apart is not None
    assert joined is not None
    per_request = 25 * 1024**2 / iops / BLOCK  # blocks in the time of a request
    assert (joined > apart) == (2 + hole < 2 * max(1.0, per_request))


def test_what_the_reader_is_asked() -> None:
    levels = {factor.name: factor.default for factor in WORKLOAD.factors}
    levels |= {"cache": "cold", "policy": "coalesced", "hole": "2", "advice": "random", "access": "direct"}
    asked = options(levels, 32 * 1024, Path("list"), 7)
    pairs = dict(pairwise(asked))
    assert pairs["--pattern"] == "list"
    assert pairs["--block-list"] == "list"
    assert pairs["--block"] == "32768B"
    assert (pairs["--policy"], pairs["--hole"], pairs["--max-request"]) == ("coalesced", "2", "131072B")
    assert "--direct" in asked
    levels |= {"pattern": "runs", "access": "buffered", "max_request": "4kB"}
    pairs = dict(pairwise(asked := options(levels, BLOCK, None, 7)))
    assert (pairs["--pattern"], pairs["--run"]) == ("runs", "16")  # 128 kB
    assert pairs["--max-request"] == f"{BLOCK}B"  # one block is the minimum
    assert (pairs["--cache"], pairs["--readahead"]) == ("cold", "random")
    assert "--direct" not in asked
    assert "--block-list" not in asked
    assert options({**levels, "pattern": "random"}, BLOCK, None, 7)[2:4] == ["--run", "1"]  # each block alone


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("access", ["direct", "buffered"])
@pytest.mark.parametrize("listed", [True, False])
def test_the_reader_is_asked_for_nothing_without_effect(
    tmp_path: Path, policy: str, access: str, *, listed: bool
) -> None:
    levels = {factor.name: factor.default for factor in WORKLOAD.factors}
    levels |= {"cache": "cold", "policy": policy, "access": access, **({} if listed else {"pattern": "runs"})}
    (tmp_path / "list").write_text("1\n")
    asked = options(levels, BLOCK, tmp_path / "list" if listed else None, 7)
    found = CliRunner().invoke(app, ["io", str(tmp_path / "none"), *asked], standalone_mode=False)
    assert "no such file" in str(found.exception) or "which --direct bypasses" in str(found.exception)


def test_a_file_that_is_written_to_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "own"
    make(path, 64 * BLOCK, unseen)
    with unchanged([path]):
        measure(Job((str(path),), BLOCK, "sequential", once=True), unseen)
    with pytest.raises(OctavoError, match="hint bits"), unchanged([path]), path.open("r+b") as file:
        file.write(b"hint")


def test_the_data_is_estimated_and_identified() -> None:
    assert rows_of(1) == 1
    assert database_bytes(256 * 1024**2) > 256 * 1024**2
    small, large = ({"table_size": size} for size in ("1MB", "2MB"))
    assert WORKLOAD.contents(small) != WORKLOAD.contents(large)
    (pattern,) = [factor for factor in WORKLOAD.factors if factor.name == "pattern"]
    assert [pattern.level(name) for name in SCANS] == list(SCANS)
