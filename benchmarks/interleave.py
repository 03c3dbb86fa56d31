"""Slices against trials: the wall time until a ratio is known to ± 3 %, alternately on the same machine.

    .venv/bin/python benchmarks/interleave.py [--rounds 6] [--duration 8s] [--rows NAME,…]

Each row is a condition with the baseline (8 kB), the baseline again and 4 kB. A round is measured in slices, then trial
by trial, then in slices again, each as a separate run of `octavo`, on the same loads. The cost of a round is the wall
time from its first copy to its last stop, even if its trials were invalid; its yield is two logarithms of a ratio.

Printed by row and ratio, for slices and for trials: seconds per round, rounds in which both cells counted, the standard
deviation of a round's ratio in percent, and the wall time, of at least three rounds, after which 1.96 standard errors
are 3 %; then how many times longer trials take, and the difference of the two mean ratios with its standard error.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
HALF_WIDTH = 0.03
FEWEST_ROUNDS = 3
MODES = ("slices", "trials")
ROWS = {
    "-S cached": {"mode": "read-only", "scale": "20", "shared_buffers": "512MB"},
    "-N cached": {"mode": "read-write", "scale": "20", "shared_buffers": "512MB"},
    "-S beyond": {"mode": "read-only", "scale": "50", "shared_buffers": "128MB"},
    "-N beyond": {"mode": "read-write", "scale": "50", "shared_buffers": "128MB"},
    "-S limited": {
        "mode": "read-only", "scale": "25", "shared_buffers": "128MB", "device": "mbps=40", "memory": "224MB",
    },
}  # fmt: skip
PLAN = """
name = "interleave"
question = "Slices or trials?"
workload = "pgbench"
control = true
loads = 1
rounds = 1
stopping = "fixed"
interleave = "{interleave}"

[baseline]
data_block = "8kB"

[factors]
data_block = ["8kB", "4kB"]
{factors}
clients = 4
duration = "{duration}"
cache = "warm"
wal_regime = "after-checkpoint"

[settings]
max_wal_size = "16GB"
checkpoint_timeout = "1h"
autovacuum = "off"
"""


@dataclass(slots=True)
class Seen:
    """The results of one way of measuring: seconds by round, and by cell the logarithms of the rounds that counted."""

    seconds: list[float] = field(default_factory=list[float])
    logs: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def until_known(self, name: str) -> tuple[float, float]:
        """The standard deviation of a round's logarithm, and the wall time in seconds until it is known to ± 3 %."""
        logs = self.logs.get(name, [])
        if len(logs) < 2:
            return math.nan, math.inf
        deviation = float(np.std(logs, ddof=1))
        rounds = max(FEWEST_ROUNDS, (1.96 * deviation / math.log1p(HALF_WIDTH)) ** 2)
        return deviation, rounds * sum(self.seconds) / len(logs)


def one_round(interleave: str, factors: dict[str, str], duration: str, seed: int, directory: Path) -> dict[str, Any]:
    """The report's document of a run of one round."""
    lines = "\n".join(f'{name} = "{level}"' for name, level in factors.items())
    return document_of(PLAN.format(interleave=interleave, factors=lines, duration=duration), seed, directory)


def document_of(text: str, seed: int, directory: Path) -> dict[str, Any]:
    """The report's document of a run of this plan. Ends the benchmark if the plan cannot run."""
    plan = directory / "plan.toml"
    plan.write_text(text)
    command = [str(ROOT / "octavo"), "run", str(plan), "--seed", str(seed)]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode not in (0, 4):
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip().splitlines()[-1:]}")
    shown = subprocess.run(
        [str(ROOT / "octavo"), "report", "--format", "json"], check=True, capture_output=True, text=True
    )
    return json.loads(shown.stdout)


def add(seen: Seen, document: dict[str, Any], mode: str) -> None:
    """Adds the cost of a round and its ratios. Ends the benchmark if it was not measured as requested."""
    trials = [trial for trial in document["trials"] if trial["status"] != "skipped"]
    if any(trial["status"] == "ok" and trial["facts"].get("interleave", "trials") != mode for trial in trials):
        sys.exit(f"a round that was to be {mode} was measured otherwise: {document['run']['id']}")
    seen.seconds.append(sum(trial["seconds"] for trial in trials))  # a round's trials share its time
    cells = {cell["id"]: cell for cell in document["cells"]}
    tps = {
        trial["cell"]: next(one["value"] for one in trial["observations"] if one["metric"] == "tps")
        for trial in trials
        if trial["status"] == "ok"
    }
    base = next(name for name, cell in cells.items() if cell["baseline"])
    for name, value in tps.items():
        if name != base and base in tps:
            kind = "8 kB again" if cells[name]["control"] else "4 kB"
            seen.logs.setdefault(kind, []).append(math.log(value / tps[base]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--duration", default="8s")
    parser.add_argument("--rows", default=",".join(ROWS))
    options = parser.parse_args()
    print("condition   ratio       | way     s/round  counted  deviation  until ± 3 % | trials / slices   apart")
    with tempfile.TemporaryDirectory() as directory:
        for row in options.rows.split(","):
            seen = {mode: Seen() for mode in MODES}
            for number in range(options.rounds):
                for mode in MODES if number % 2 == 0 else MODES[::-1]:
                    document = one_round(mode, ROWS[row], options.duration, number, Path(directory))
                    add(seen[mode], document, mode)
            for kind in ("8 kB again", "4 kB"):
                show(row, kind, seen)


def show(row: str, kind: str, seen: dict[str, Seen]) -> None:
    """Two lines: slices, then trials with the comparison."""
    until = {mode: one.until_known(kind) for mode, one in seen.items()}
    for mode, one in seen.items():
        deviation, seconds = until[mode]
        count = len(one.logs.get(kind, []))
        line = (
            f"{row:11} {kind:11} | {mode:7} {np.mean(one.seconds):7.1f} {count:4} / {len(one.seconds):<2}"
            f"  {deviation * 100:7.2f} %  {seconds:9.0f} s |"
        )
        if mode == "trials":
            logs = [each.logs.get(kind, []) for each in seen.values()]
            if all(len(found) > 1 for found in logs):
                apart = np.mean(logs[0]) - np.mean(logs[1])
                error = math.sqrt(sum(np.std(found, ddof=1) ** 2 / len(found) for found in logs))
                line += f" {until['trials'][1] / until['slices'][1]:10.1f}   {apart * 100:+.1f} ± {error * 100:.1f} %"
        print(line, flush=True)


if __name__ == "__main__":
    main()
