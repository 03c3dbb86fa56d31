"""TPC-H's queries in slices of 0.1 s against whole queries in turn, on the same machine, one after the other.

    .venv/bin/python -m benchmarks.query_slices [--rounds 4] [--scale 0.1] [--repetitions 2] [--shared-buffers 512MB]

Each round is a separate run of `octavo`: 8 kB, 8 kB again and 16 kB on one load each, all in memory, the 22 queries
`--repetitions` times. Whole queries are slices of 10 s, the longest possible slice.

Printed for both: seconds per round; the standard deviation of the logarithm of a query's time, 8 kB again over 8 kB,
over all queries, repetitions and rounds (the plans are the same, so this is noise), as root mean square and as median;
the deviation of the sum of all queries; and how many times more rounds whole queries take for the same width.
"""

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.interleave import document_of

SLICES = {"slices of 0.1 s": "100ms", "whole queries": "10s"}
PLAN = """
name = "query-slices"
question = "How far do two equal cells lie apart?"
workload = "tpch"
control = true
loads = 1
rounds = 1
stopping = "fixed"
interleave = "slices"
slice = "{slice}"

[baseline]
data_block = "8kB"

[factors]
data_block = ["8kB", "16kB"]
scale = "{scale}"
repetitions = {repetitions}
shared_buffers = "{buffers}"
cache = "warm"

[settings]
autovacuum = "off"
checkpoint_timeout = "1h"

[validity]
fewest_transactions = 1
"""


@dataclass(slots=True)
class Seen:
    """The results of one way of measuring: seconds by round, and the logarithms of ratios of the two equal cells."""

    seconds: list[float] = field(default_factory=list[float])
    queries: list[float] = field(default_factory=list[float])
    totals: list[float] = field(default_factory=list[float])


def one_round(slice_length: str, options: argparse.Namespace, seed: int, directory: Path) -> dict[str, Any]:
    """The report's document of a run of one round."""
    text = PLAN.format(
        slice=slice_length, scale=options.scale, repetitions=options.repetitions, buffers=options.shared_buffers
    )
    return document_of(text, seed, directory)


def add(seen: Seen, document: dict[str, Any]) -> None:
    """Adds the ratios of the control to the baseline, query by query and in total."""
    cells = {cell["id"]: cell for cell in document["cells"]}
    times: dict[bool, dict[tuple[str | None, int], float]] = {}
    trials = [trial for trial in document["trials"] if trial["status"] == "ok"]
    for trial in trials:
        cell = cells[trial["cell"]]
        if cell["baseline"] or cell["control"]:
            times[bool(cell["control"])] = {
                (one["item"], one["repetition"]): one["value"]
                for one in trial["observations"]
                if one["metric"] == "seconds"
            }
    if len(times) < 2:
        sys.exit(f"a round in which not both equal cells counted: {document['run']['id']}")
    seen.seconds.append(sum(trial["seconds"] for trial in trials))  # a round's trials share its time
    for key, base in times[False].items():
        ratio = math.log(times[True][key] / base)
        (seen.totals if key[0] is None else seen.queries).append(ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--shared-buffers", default="512MB")
    options = parser.parse_args()
    seen = {name: Seen() for name in SLICES}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.rounds):
            for name in SLICES if number % 2 == 0 else list(SLICES)[::-1]:
                add(seen[name], one_round(SLICES[name], options, number, Path(directory)))
    print("way                s/round   a query: rms  median   all queries")
    spread = {name: float(np.sqrt(np.mean(np.square(one.queries)))) for name, one in seen.items()}
    for name, one in seen.items():
        print(
            f"{name:16} {np.mean(one.seconds):9.1f} {spread[name]:14.1%} {np.median(np.abs(one.queries)):7.1%} "
            f"{np.sqrt(np.mean(np.square(one.totals))):13.1%}"
        )
    few, many = spread.values()
    print(f"for the same width whole queries take {(many / few) ** 2:.1f} times as many rounds")


if __name__ == "__main__":
    main()
