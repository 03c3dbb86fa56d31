"""A forecast for another machine: pgbench at scale 7500 on a host with 64 GB and an NVMe disk.

    .venv/bin/python -m benchmarks.predict_forecast [--json forecast.json]

pgbench draws accounts uniformly, so its caches' behaviour depends only on the proportions of the sizes: everything is
made at a hundredth of the size (scale 75, 640 MB, checkpoints a hundredth of the time apart), and rates are unchanged.
The published experiment does not specify clients and shared_buffers: they are varied, and so are the CPU time of a
transaction and the interval between checkpoints. The result is TPS of each data block relative to that at 8 kB: the
lowest and highest value of all variations' intervals.
"""

import argparse
import dataclasses
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import predict_synthetic

from octavo.predict.assumptions import intervals
from octavo.predict.conditions import Conditions
from octavo.predict.device import device_of
from octavo.predict.image_correction import correction
from octavo.predict.model import assumed_of, bottleneck, figures
from octavo.predict.model import varied as varied_of
from octavo.predict.rates import Rates
from octavo.predict.recorded import recorded
from octavo.predict.simulation import simulate
from octavo.predict.size import Size
from octavo.trace.surface import PAGE_SIZES

PART = 100
MEMORY = 64 * 1024**3 // PART
SCALE = 7500 // PART
# Intel Optane 900P 280 GB, product brief: 550,000 random reads of 4 kB a second, 2,500 MB/s, under 10 microseconds.
DISK = {
    "requests_per_second_ceiling": 550e3,
    "bytes_per_second_ceiling": 2500e6,
    "latency_line": {"latency_us": 10.0, "bytes_per_second": 2500e6},
}
# 2 processors of 6 cores with 2 threads each.
PROCESSORS = 24
BUFFERS = ("8GB", "16GB")
CLIENTS = (16, 64)
# CPU time per transaction in the server and its client, microseconds, on 2.4 GHz processors of 2014.
CPU = {"read-only": (60.0, 150.0), "read-write": (200.0, 400.0)}
# Seconds between checkpoints: the default, and twice as much.
CHECKPOINTS = {"read-only": (None,), "read-write": (300.0, 600.0)}
TRANSACTIONS = {"read-only": 250_000, "read-write": 250_000}
# The assumed rate of the synthetic recording; only the interval between checkpoints in transactions depends on it.
TPS = {"read-only": 100_000.0, "read-write": 42_000.0}


def forecasts(mode: str, directory: Path) -> Iterator[dict[str, Any]]:
    """A prediction for each variation; the simulations are those of one trace, at each shared_buffers and interval."""
    probe = directory / "disk.json"
    probe.write_text(json.dumps(DISK))
    disk = device_of(str(probe))
    path = directory / f"{mode}.octrace"
    buffers = {text: int(text.removesuffix("GB")) * 1024**3 // PART for text in BUFFERS}
    asked = argparse.Namespace(
        out=path, scale=SCALE, transactions=TRANSACTIONS[mode], mode=mode, tps=TPS[mode], clients=CLIENTS[0],
        processors=PROCESSORS, cpu_us=CPU[mode][0], busy=0.9, shared_buffers=f"{buffers[BUFFERS[0]] // 1024}kB",
        wal_bytes=700.0, seed=1,
    )  # fmt: skip
    predict_synthetic.write(asked)
    trace = recorded(path)
    for checkpoint in CHECKPOINTS[mode]:
        seconds = None if checkpoint is None else min(checkpoint / PART, trace.seconds)
        sizes = {text: [Size(block, size, MEMORY) for block in PAGE_SIZES] for text, size in buffers.items()}
        here = trace.data_block
        owns = {text: Size(here, size, MEMORY, is_as_recorded=True) for text, size in buffers.items()}
        rates = simulate(trace, [*(size for many in sizes.values() for size in many), *owns.values()], seconds)
        for text, clients, cpu in itertools.product(BUFFERS, CLIENTS, CPU[mode]):
            # Transactions wait for CPU and disk only: the recorded rate is what the model computes for these clients.
            varied = dataclasses.replace(trace, cpu_each=cpu / 1e6, clients=clients, host_busy_share=None,
                                         transactions=1e9 * trace.seconds)  # fmt: skip
            own, base = owns[text], Size(here, buffers[text], MEMORY)
            given = Conditions(varied, own, rates[own], base, rates[base], disk, disk, clients, seconds,
                               correction=correction(varied, rates[own][0], assumed_of(varied).image_fill))  # fmt: skip
            found = [figures_of(size, rates[size], given) for size in sizes[text]]
            yield {"mode": mode, "shared_buffers": text, "clients": clients, "cpu_us": cpu,
                   "checkpoint_seconds": checkpoint, "sizes": found}  # fmt: skip


def figures_of(size: Size, rates: list[Rates], given: Conditions) -> dict[str, Any]:
    """TPS, its ratio to that at 8 kB, and the bottleneck."""
    assumed = dataclasses.replace(assumed_of(given.trace), commits_a_sync=(given.clients or 1) / 2)
    found = intervals(
        lambda one: figures(size, rates, given.trace.wal_block, one, given),
        assumed,
        varied_of(assumed, given, len(rates)),
    )
    limit = bottleneck(size, rates, given.trace.wal_block, assumed, given)
    shown = {name: (one.as_dict() if (one := found[name]) else None) for name in ("tps", "tps_ratio")}
    return {"data_block_bytes": size.data_block, **shown, "bottleneck": limit}


def main() -> None:
    """Prints the table, a row per data block and mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--modes", default="read-only,read-write")
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        for mode in asked.modes.split(","):
            for one in forecasts(mode, Path(directory)):
                found.append(one)
                ratios = " ".join(f"{row['tps_ratio']['value']:.2f}" for row in one["sizes"])
                print(mode, one["shared_buffers"], one["clients"], one["cpu_us"], one["checkpoint_seconds"], ratios,
                      one["sizes"][3]["bottleneck"], round(one["sizes"][3]["tps"]["value"]), flush=True)  # fmt: skip
    if asked.json:
        asked.json.write_text(json.dumps(found))
    for mode in asked.modes.split(","):
        rows = [one["sizes"] for one in found if one["mode"] == mode]
        for sizes in zip(*rows, strict=True):
            ends = [(row["tps_ratio"]["low"], row["tps_ratio"]["high"]) for row in sizes]
            values = sorted(row["tps_ratio"]["value"] for row in sizes)
            print(f"| {mode} | {sizes[0]['data_block_bytes'] // 1024} kB | {values[len(values) // 2]:.2f} | "
                  f"{min(low for low, _ in ends):.2f} to {max(high for _, high in ends):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
