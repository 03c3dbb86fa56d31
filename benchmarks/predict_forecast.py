"""A forecast for a machine that is not here: pgbench at scale 7500 on a host with 64 GB and an NVMe disk.

    .venv/bin/python -m benchmarks.predict_forecast [--json forecast.json]

pgbench draws accounts evenly, so what its caches do depends on sizes only in proportion: everything is made at a
hundredth of the size (scale 75, 640 MB, checkpoints a hundredth of the time apart), and rates stay as they are. The
published experiment leaves clients and shared_buffers open: they are varied, and so are the CPU of a transaction and
the distance of checkpoints. What comes out is TPS of each data block over that at 8 kB, the least and the most of all
variations' intervals.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import predict_synthetic

from octavo.predict.predict import Request, predict

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
# Of a transaction in the server and its client, microseconds: of processors of 2.4 GHz of 2014.
CPU = {"read-only": (60.0, 150.0), "read-write": (200.0, 400.0)}
# Between checkpoints: that of the default, and of an experiment that avoids them.
CHECKPOINTS = {"read-only": (None,), "read-write": (300.0, 1800.0)}
TRANSACTIONS = {"read-only": 500_000, "read-write": 500_000}
# At which the made-up server is taken to have been recorded; only the distance of checkpoints in transactions follows.
TPS = {"read-only": 100_000.0, "read-write": 42_000.0}


def forecasts(mode: str, directory: Path) -> Iterator[dict[str, Any]]:
    """A prediction for each variation."""
    probe = directory / "disk.json"
    probe.write_text(json.dumps(DISK))
    trace = directory / f"{mode}.octrace"
    for buffers, clients, cpu in itertools.product(BUFFERS, CLIENTS, CPU[mode]):
        size = int(buffers.removesuffix("GB")) * 1024**3 // PART
        asked = argparse.Namespace(
            out=trace, scale=SCALE, transactions=TRANSACTIONS[mode], mode=mode, tps=TPS[mode], clients=clients,
            processors=PROCESSORS, cpu_us=cpu, busy=min(0.95, TPS[mode] * cpu / 1e6 / PROCESSORS),
            shared_buffers=f"{size // 1024}kB", wal_bytes=700.0, seed=1,
        )  # fmt: skip
        predict_synthetic.write(asked)
        for checkpoint in CHECKPOINTS[mode]:
            length = TRANSACTIONS[mode] / TPS[mode]
            seconds = None if checkpoint is None else min(checkpoint / PART, length)
            found = predict(
                Request(trace, memory=MEMORY, device=str(probe), recorded_device=str(probe), checkpoint=seconds)
            )
            yield {"mode": mode, "shared_buffers": buffers, "clients": clients, "cpu_us": cpu,
                   "checkpoint_seconds": None if seconds is None else seconds * PART, "sizes": [
                       {"data_block_bytes": row["data_block_bytes"], "tps": row["figures"]["tps"],
                        "tps_ratio": row["figures"]["tps_ratio"], "bottleneck": row["bottleneck"],
                        "wal": row["figures"]["wal_bytes_per_transaction"],
                        "read_bytes": row["figures"]["device_read_bytes_per_transaction"]}
                       for row in found["sizes"]]}  # fmt: skip


def main() -> None:
    """Prints the table, a row a data block and mode."""
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
