"""Runs with synthetic numbers, put into a store by Octavo's own functions: for reports, which need no server.

The numbers are seeded: the same plan gives the same run each time. The effect of a cell's levels on its primary metric
is defined in `effect_of`, so that a test knows the answer that a report must give.
"""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from octavo.analysis.charted_series import CHARTED
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentSet
from octavo.observation import Metric, Observation
from octavo.plan.cells import Cell, load_of, make_cells, order_of_round
from octavo.plan.model import Plan
from octavo.series import Series
from octavo.store.records import RunRecord, RunStatus, TrialRecord
from octavo.store.store import Store
from octavo.workloads import find

START, TRIAL_SECONDS = 1_785_542_400.0, 40.0
SCATTER = 0.012
_SERIES_POINTS = 60
# Reasons for trials that are not valid.
_REASONS = (
    ("invalid", "the hypervisor took 3.1 % of the CPU while the trial ran, more than 2 %"),
    ("failed", "pgbench measured nothing (exit 1): connection to server was lost"),
)


def plant(
    store: Store, plan: Plan, *, text: str = "", rounds: int | None = None, name: str | None = None,
    series: bool = False, spoiled: float = 0.0, number: int = 1, status: RunStatus = "finished",
    metrics: int | None = None,
) -> str:  # fmt: skip
    """Puts a run of the plan into the store, and returns its id.

    `spoiled`: the share of trials that do not count. `number` makes the run's time, id and numbers distinct.
    `metrics`: the number of metrics that each trial has; by default all.
    """
    cells = make_cells(plan)
    about = _metrics(plan)
    started = START + 86_400 * number
    identifier = f"2026{number:04d}-000000-{name or plan.name}"
    record = RunRecord(
        identifier, name or plan.name, status, "", number, started, started + 86_000,
        json.loads(plan.model_dump_json()), text, f"octavo run {plan.name} --seed {number}",
        {metric.name: metric.as_dict() for metric in about}, _environment(cells, status),
    )  # fmt: skip
    generator = np.random.default_rng(number)
    trials = _trials(plan, cells, about[:metrics], rounds or plan.rounds, started, spoiled, generator, series=series)
    store.add_finished_run(record, cells, trials)
    return identifier


def effect_of(levels: Mapping[str, str]) -> float:
    """The factor by which a cell's levels multiply its primary metric, relative to a cell of 8 kB data and WAL blocks.

    A data block matters if bandwidth is limited or WAL is written, and hardly otherwise; other factors by a hash of
    their level.
    """
    found = 1.0
    if block := levels.get("data_block"):
        limited = levels.get("device", "native").startswith("mbps")
        power = 0.65 if limited else 0.16 if levels.get("mode") == "read-write" else 0.0
        found *= (8 / int(block.removesuffix("kB"))) ** power
    if (wal := levels.get("wal_block")) and levels.get("mode") == "read-write":
        found *= 1 - 0.01 * abs(math.log2(int(wal.removesuffix("kB")) / 8))
    for name in ("policy", "hole"):
        if (level := levels.get(name)) not in (None, "single", "0"):
            where = levels.get("device", "")
            found *= math.exp(zlib.crc32(f"{name}{level}{where}".encode()) / 2**32 * 2.4 - 0.6)
    return found


def _metrics(plan: Plan) -> list[Metric]:
    own = {metric.name: metric for metric in find(plan.workload).metrics}
    return list((own | {m.name: m for m in InstrumentSet(instruments(), print).metrics}).values())


def _trials(
    plan: Plan, cells: Sequence[Cell], metrics: Sequence[Metric], rounds: int, started: float, spoiled: float,
    generator: np.random.Generator, *, series: bool,
) -> list[TrialRecord]:  # fmt: skip
    """Rounds in random order, with a slow drift, and an effect of each load."""
    base = np.exp(np.linspace(3, 12, len(metrics)))
    pull: dict[tuple[str, int], float] = {}
    found: list[TrialRecord] = []
    for number in range(1, rounds + 1):
        for position, cell in enumerate(order_of_round(cells, number, 1, 1), 1):
            load = load_of(cell, number, plan.loads)
            shift = pull.setdefault((cell.dataset, load), float(generator.normal(0, SCATTER / 2)))
            speed = effect_of(cell.levels) * math.exp(shift + generator.normal(0, SCATTER) - 0.0001 * len(found))
            values = base * np.exp(generator.normal(0, 0.02, len(metrics)))
            values[0] = 1_000 * speed
            seen = dict(zip((metric.name for metric in metrics), values.tolist(), strict=True))
            _use_device(seen, cell.levels, speed)
            status, reason = _REASONS[int(generator.integers(2))] if generator.random() < spoiled else ("ok", None)
            begun = started + TRIAL_SECONDS * len(found)
            found.append(
                TrialRecord(
                    cell.id, number, 1, position, load, status, reason, begun, begun + 36.5, number,  # pyright: ignore[reportArgumentType]
                    tuple(Observation(m.name, seen[m.name], m.unit) for m in metrics),
                    settings={"block_size": cell.levels.get("data_block", "8kB"), "shared_buffers": "128MB"},
                    facts={"log": f"runs/{number}/{len(found):05d}.server.log", "database_bytes": 787_000_000},
                    series=_series(seen, generator) if series else (),
                )
            )  # fmt: skip
    return found


def _use_device(values: dict[str, float], levels: Mapping[str, str], speed: float) -> None:
    """Sets the device's figures: a volume with a MB/s limit is saturated, any other device is not."""
    limited = levels.get("device", "native").startswith("mbps")
    share = {"device_read_kb_per_second": 39_500.0 if limited else 1_200.0 * speed}
    share |= {"device_written_kb_per_second": 80.0}
    share |= {"device_reads_per_second": 900.0 * speed if limited else 40.0, "device_writes_per_second": 4.0}
    share |= {"device_util": 0.99 if limited else 0.08, "aqu_sz": 7.5 if limited else 0.1}
    share |= {"cpu_busy_share": 0.31 if limited else 0.97, "cpu_steal_share": 0.0}
    values.update({name: value for name, value in share.items() if name in values})


def _series(values: Mapping[str, float], generator: np.random.Generator) -> tuple[Series, ...]:
    seconds = tuple(float(second) for second in range(1, _SERIES_POINTS + 1))
    units = {metric.name: metric.unit for metric in InstrumentSet(instruments(), print).metrics}
    return tuple(
        Series.of(name, units[name], seconds, tuple((values[name] * generator.uniform(0.6, 1, len(seconds))).tolist()))
        for name in CHARTED
        if name in values
    )


def _environment(cells: Sequence[Cell], status: RunStatus) -> dict[str, Any]:
    return {
        "octavo": "0.1.0",
        "ending": "decided" if status == "finished" else None,
        "host": {
            "kernel": "Linux 6.12.8", "cpu": "Example CPU 2620 v3 @ 2.40GHz", "cores": 2, "memory_bytes": 8 << 30,
            "virtualization": "kvm", "page_stack": [],
        },
        "pinned": {"wal_buffers": "16MB", "effective_cache_size": "4GB", "shared_buffers": "128MB"},
        "not_pinned": [{"name": "WAL page headers", "reason": "part of the format"}],
        "builds": [
            {"name": f"18.6-b{block}", "version": "18.6", "data_block": block, "wal_block": "8kB",
             "origin": "postgresql-18.6.tar.bz2", "compiler": "gcc 12.2.0", "options": []}
            for block in dict.fromkeys(cell.levels.get("data_block", "8kB") for cell in cells)
        ],
    }  # fmt: skip
