"""Generates report documents: numbers come from a seeded generator, so every run of the tests has the same."""

import math
import random
import statistics
from datetime import UTC, datetime, timedelta

from .surroundings import METRICS, Document, kilobytes, make_environment, plan_text

STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}
START = datetime(2026, 11, 21, 22, 1, 2, tzinfo=UTC)
LIMITS = [
    "Two loads are few: their variance has 1 degree of freedom, so the verdicts hold for these loads.",
    "The machine is virtual; what the hypervisor's page cache did is not visible from inside.",
    "The WAL regime is after-checkpoint: a server in its steady state writes fewer full-page images.",
]


def make_cell(data: str, wal: str, mode: str, label: str, *, baseline: bool = False, control: bool = False) -> Document:
    again = " again" if control else ""
    return {
        "id": f"data_block={data} wal_block={wal} mode={mode}{again}",
        "label": label,
        "condition": mode,
        "levels": {"data_block": data, "wal_block": wal, "mode": mode, "scale": "20", "clients": "4"},
        "baseline": baseline,
        "control": control,
    }


def true_values(cell: Document, generator: random.Random) -> dict[str, float]:
    """One trial's metrics: small data blocks improve writes, large WAL blocks reduce them, reads are hardly
    affected."""
    data, wal = kilobytes(cell["levels"]["data_block"]), kilobytes(cell["levels"]["wal_block"])
    writes = cell["condition"] == "read-write"
    factor = (8 / data) ** (0.16 if writes else 0.035)
    if writes:
        factor *= 1 - 0.022 * max(0, math.log2(wal / 16)) ** 2
    tps = (1240 if writes else 18650) * factor * math.exp(generator.gauss(0, 0.012))
    return {
        "tps": tps,
        "latency_avg_ms": 4000 / tps,
        "wal_bytes_per_transaction": (310 * data + 260 + 6 * wal) * generator.uniform(0.98, 1.02) if writes else 0.0,
        "device_read_bytes_per_transaction": 1024 * data * generator.uniform(0.52, 0.58),
        "device_written_bytes_per_transaction": 1024 * data * generator.uniform(1.6, 1.8) if writes else 0.0,
        "client_cpu_share": generator.uniform(0.14, 0.19) if writes else generator.uniform(0.33, 0.38),
    }


def make_trials(cells: list[Document], rounds: int, loads: int, generator: random.Random) -> list[Document]:
    """Rounds in random order, with a slow drift over the run and an effect of the load."""
    trials: list[Document] = []
    pull = {(load, cell["id"]): generator.gauss(0, 0.006) for load in range(1, loads + 1) for cell in cells}
    for number in range(1, rounds + 1):
        for position, cell in enumerate(generator.sample(cells, len(cells)), 1):
            load = (number - 1) % loads + 1
            values = true_values(cell, generator)
            speed = math.exp(pull[load, cell["id"]]) * (1 - 0.05 * len(trials) / (rounds * len(cells)))
            values["tps"], values["latency_avg_ms"] = values["tps"] * speed, values["latency_avg_ms"] / speed
            trials.append(
                {
                    "id": len(trials) + 1,
                    "cell": cell["id"],
                    "round": number,
                    "attempt": 1,
                    "position": position,
                    "load": load,
                    "status": "ok",
                    "reason": None,
                    "used": True,
                    "levels": dict(cell["levels"]),
                    "started": (START + timedelta(seconds=40 * len(trials))).isoformat(),
                    "seconds": round(generator.uniform(30.0, 30.4), 3),
                    "observations": [
                        {
                            "item": None,
                            "repetition": 1,
                            "metric": metric,
                            "value": round(value, 4),
                            "unit": METRICS[metric]["unit"],
                        }
                        for metric, value in values.items()
                    ],
                }
            )
    return trials


def make_model(condition: str, rounds: int) -> Document:
    """The model on which the intervals of a condition are based."""
    return {
        "condition": condition,
        "metric": "tps",
        "item": None,
        "load_deviation_percent": 0.62,
        "load_degrees_of_freedom": 1,
        "residual_deviation_percent": 1.24,
        "residual_degrees_of_freedom": 2 * rounds,
        "together_deviation_percent": None,
        "loads_in_general": False,
        "fewest_between_loads": 5,
        "loads": 2,
        "rounds": rounds,
        "looks": 1,
        "first_look": rounds,
        "comparisons": 1,
        "confidence": 0.975,
        "critical_value": 2.87,
        "method": "Dunnett, one analysis at the end",
    }


def value_of(trial: Document, metric: str) -> float | None:
    return next((seen["value"] for seen in trial["observations"] if seen["metric"] == metric), None)


def judge(ratio: float, low: float | None, high: float | None, better: str | None, threshold: float) -> str:
    if low is None or high is None:
        return "undecided (needs 2 more rounds)"
    if low > 1 or high < 1:
        up, down = {"higher": ("faster", "slower"), "lower": ("slower", "faster")}.get(str(better), ("more", "less"))
        return up if ratio > 1 else down
    if low > 1 - threshold and high < 1 + threshold:
        return f"same within {100 * threshold:.0f} %"
    return "undecided (needs 4 more rounds)"


def analyse(document: Document) -> None:
    """Fills in summary, effects, noise floor and verdicts from the trials (paired logs, Student's t)."""
    cells, threshold = document["cells"], document["run"]["threshold"]
    used = {(t["cell"], t["round"]): t for t in document["trials"] if t["used"]}
    for key in ("summary", "effects", "noise_floor", "verdicts"):
        document[key] = []
    for cell in cells:
        base = next((c for c in cells if c["condition"] == cell["condition"] and c["baseline"]), None)
        mine = {number: trial for (name, number), trial in used.items() if name == cell["id"]}
        for metric, about in document["metrics"].items():
            seen = [v for v in (value_of(t, metric) for t in mine.values()) if v]
            if not mine:
                continue
            mean = math.exp(statistics.fmean(map(math.log, seen))) if seen else 0.0
            document["summary"].append(
                {
                    "cell": cell["id"],
                    "metric": metric,
                    "item": None,
                    "value": mean,
                    "unit": about["unit"],
                    "low_trial": min(seen, default=0.0),
                    "high_trial": max(seen, default=0.0),
                    "trials": len(mine),
                }
            )
            pairs = [
                (value_of(t, metric), value_of(used[base["id"], n], metric))
                for n, t in mine.items()
                if base is not None and base is not cell and (base["id"], n) in used
            ]
            logs = [math.log(a / b) for a, b in pairs if a and b]
            if logs:
                document["effects"].append(make_effect(cell, metric, about["better"], logs, threshold))
    for effect in document["effects"]:
        cell = next(c for c in cells if c["id"] == effect["cell"])
        if effect["metric"] != document["run"]["primary_metric"]:
            continue
        if cell["control"]:
            ends = [effect["low"], effect["high"]]
            floor = None if None in ends else max(effect["high"], 1 / effect["low"]) - 1
            row = {key: effect[key] for key in ("condition", "metric", "item", "cell", "ratio", "low", "high")}
            document["noise_floor"].append(row | {"floor": floor})
        else:
            document["verdicts"].append(verdict(cell, effect, document))


def make_effect(cell: Document, metric: str, better: str | None, logs: list[float], threshold: float) -> Document:
    mean, low, high = statistics.fmean(logs), None, None
    if len(logs) > 2:
        half = STUDENT[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = math.exp(mean - half), math.exp(mean + half)
    return {
        "cell": cell["id"],
        "condition": cell["condition"],
        "metric": metric,
        "item": None,
        "ratio": math.exp(mean),
        "low": low,
        "high": high,
        "verdict": judge(math.exp(mean), low, high, better, threshold),
        "conditional": True,
        "loads": 2,
        "rounds": len(logs),
        "degrees_of_freedom": len(logs) - 1,
        "look": 0,
        "negative_control": False,
        "own_scatter": False,
    }


def verdict(cell: Document, effect: Document, document: Document) -> Document:
    ends = (
        "no interval yet" if effect["low"] is None else (f"95 % interval {effect['low']:.3f} to {effect['high']:.3f}")
    )
    sentence = (
        f"{cell['condition'].capitalize()}: {cell['label']} against the baseline is {effect['verdict']}: "
        f"TPS × {effect['ratio']:.3f} ({ends}), conditional on these {document['run']['loads']} loads."
    )
    return {
        "condition": cell["condition"],
        "cell": cell["id"],
        "metric": effect["metric"],
        "sentence": sentence,
    }


def build(name: str, data: list[str], wal: list[str], *, rounds: int = 5, seed: int = 1) -> Document:
    """data blocks × WAL blocks × (read-only, read-write), the baseline 8kB/8kB and its control."""
    cells: list[Document] = []
    for mode in ("read-only", "read-write"):
        for d in data:
            for w in wal:
                label = d if len(wal) == 1 else f"{d}/{w}"
                cells.append(make_cell(d, w, mode, label, baseline=(d, w) == ("8kB", "8kB")))
        label = "8kB again" if len(wal) == 1 else "8kB/8kB again"
        cells.append(make_cell("8kB", "8kB", mode, label, control=True))
    trials = make_trials(cells, rounds, 2, random.Random(seed))
    document: Document = {
        "schema_version": 2,
        "run": {
            "id": f"20261121-220102-{name}-3f9a",
            "name": name,
            "status": "finished",
            "seed": seed,
            "loads": 2,
            "question": "Which page size is faster for OLTP on this machine?",
            "started": START.isoformat(),
            "ended": (START + timedelta(seconds=40 * len(trials))).isoformat(),
            "rounds": rounds,
            "rounds_finished": rounds,
            "threshold": 0.03,
            "precision": 0.015,
            "stopping": "fixed",
            "budget_seconds": None,
            "ending": "rounds",
            "workload": "pgbench",
            "primary_metric": "tps",
            "wal_regime": "after-checkpoint",
            "plan": plan_text(name, data, wal),
            "repeat": f"octavo run {name} --seed {seed}",
        },
        "metrics": {key: dict(about) for key, about in METRICS.items()},
        "cells": cells,
        "trials": trials,
        "limits": list(LIMITS),
        "alarms": [],
        "given_up": [],
        "model": [make_model(mode, rounds) for mode in dict.fromkeys(cell["condition"] for cell in cells)],
        "environment": make_environment(cells),
    }
    analyse(document)
    return document
