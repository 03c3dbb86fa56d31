"""Effects of known size on real servers: coverage of the intervals, correctness of the verdicts, slices against trials.

    .venv/bin/python benchmarks/truth.py [--runs 40] [--trials 0] [--disturbed] [--duration 4s] [--budget 6m]
        [--minutes N]

The baseline's transaction is 20 index lookups; the others do 0.6, 1 and 2 more on average, so that they are slower by
3, 5 and 10 %: work, and not a sleep, which would continue while a cell is stopped. The control is equal to the
baseline. Every run is a run of `octavo` with its own loads and order, stopped by its own rules. `--trials N`: that many
runs trial by trial in addition. `--disturbed`: two processes burn CPU in bursts of 0.1 to 10 s meanwhile. `--minutes
N`: no run begins after that many minutes.

Printed by way of measuring and effect: runs; intervals that contain the true effect; false verdicts (faster or slower
of the wrong sign or where nothing differs, same of 5 % and more), right verdicts; the mean error of the ratio with its
standard error, and the median half-width, in percent; seconds per run.
"""

import argparse
import json
import math
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
LOOKUPS = 20
ROWS = 100_000
# Additional lookups, on average.
EFFECTS = {"none": 0.0, "3 %": 0.6, "5 %": 1.0, "10 %": 2.0}
THRESHOLD = 0.03
ARCHIVE = f"""
CREATE TABLE looked_up AS SELECT n AS id, repeat('x', 80) AS content FROM generate_series(1, {ROWS}) AS n;
ALTER TABLE looked_up ADD PRIMARY KEY (id);
"""  # noqa: S608  # a number of our own
LOOKUP = f"\\set id random(1, {ROWS})\nSELECT content FROM looked_up WHERE id = :id;\n"
PLAN = """
name = "truth"
question = "Is what was planted found?"
workload = "custom"
control = true
threshold = "3%"
rounds = 8
loads = 8
budget = "{budget}"
interleave = "{interleave}"

[baseline]
script = "{baseline}"

[factors]
archive = "{archive}"
script = [{scripts}]
shared_buffers = "128MB"
clients = 4
duration = "{duration}"
cache = "warm"
recycled_wal = "64MB"

[settings]
checkpoint_timeout = "1h"
autovacuum = "off"
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's result for one effect: logarithms of the ratio and of its half-width, the verdict, the run's seconds."""

    effect: str
    centre: float
    half_width: float
    word: str
    seconds: float

    @property
    def truth(self) -> float:
        """The logarithm of the planted effect."""
        return math.log(LOOKUPS / (LOOKUPS + EFFECTS[self.effect]))

    @property
    def is_false(self) -> bool:
        """Whether the verdict contradicts the truth."""
        if self.word in ("faster", "slower"):
            return self.effect == "none" or self.word == "faster"
        return self.word == "same" and self.truth < math.log(1 - THRESHOLD)


def script_of(more: float) -> str:
    """A transaction with that many more lookups on average."""
    whole, part = divmod(more, 1)
    text = LOOKUP * (LOOKUPS + int(whole))
    if part:
        text += f"\\set chance random(1, 1000)\n\\if :chance <= {round(1000 * part)}\n{LOOKUP}\\endif\n"
    return text


def one_run(interleave: str, options: argparse.Namespace, seed: int, directory: Path) -> list[Answer]:
    """Plants the effects, runs, and reads the answers."""
    names: dict[str, str] = {}
    for effect, more in EFFECTS.items():
        # Baseline and control use one file; a level is its path.
        path = directory / f"{effect.replace(' %', '') if more else 'base'}.sql"
        path.write_text(script_of(more))
        names[str(path)] = effect
    archive, plan = directory / "looked_up.sql", directory / "truth.toml"
    archive.write_text(ARCHIVE)
    baseline = next(iter(names))
    scripts = ", ".join(f'"{name}"' for name in names)
    plan.write_text(
        PLAN.format(
            interleave=interleave, budget=options.budget, duration=options.duration, archive=archive,
            baseline=baseline, scripts=scripts,
        )
    )  # fmt: skip
    began = time.monotonic()
    command = [str(ROOT / "octavo"), "run", str(plan), "--seed", str(seed)]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode not in (0, 4):
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip()[-400:]}")
    seconds = time.monotonic() - began
    report = [str(ROOT / "octavo"), "report", "--format", "json"]
    document: dict[str, Any] = json.loads(subprocess.run(report, check=True, capture_output=True, text=True).stdout)
    if any(t["status"] == "ok" and t["facts"].get("interleave", "trials") != interleave for t in document["trials"]):
        sys.exit(f"a run that was to be in {interleave} was measured otherwise: {document['run']['id']}")
    cells = {cell["id"]: cell for cell in document["cells"]}
    found: list[Answer] = []
    for effect in document["effects"]:
        cell = cells[effect["cell"]]
        if effect["metric"] != "tps" or effect["item"] is not None or effect["low"] is None:
            continue
        low, high = math.log(effect["low"]), math.log(effect["high"])
        name = "none" if cell["control"] else names[cell["levels"]["script"]]
        word = effect["verdict"].split(" ")[0]
        found.append(Answer(name, math.log(effect["ratio"]), (high - low) / 2, word, seconds))
    return found


def burn(seed: int) -> None:
    """Bursts of CPU, 0.1 to 10 s long, with pauses that are equally long on average."""
    chance = random.Random(seed)
    while True:
        until = time.monotonic() + 10 ** chance.uniform(-1, 1)
        while time.monotonic() < until:
            pass
        time.sleep(10 ** chance.uniform(-1, 1))


@contextmanager
def strangers(*, there: bool) -> Generator[None, None, None]:
    """Two processes that burn CPU, if requested."""
    burning = [multiprocessing.Process(target=burn, args=(seed,), daemon=True) for seed in (1, 2)] if there else []
    for one in burning:
        one.start()
    try:
        yield
    finally:
        for one in burning:
            one.terminate()
            one.join()


def show(way: str, answers: list[Answer]) -> None:
    """Prints a line for each effect."""
    for effect in EFFECTS:
        mine = [one for one in answers if one.effect == effect]
        if not mine:
            continue
        errors = [100 * (one.centre - one.truth) for one in mine]
        error = np.std(errors, ddof=1) / math.sqrt(len(mine)) if len(mine) > 1 else math.nan
        held = sum(abs(one.centre - one.truth) <= one.half_width for one in mine)
        right = sum(one.word == ("same" if effect == "none" else "slower") for one in mine)
        print(
            f"| {way} | {effect} | {len(mine)} | {held} | {sum(one.is_false for one in mine)} | {right} | "
            f"{np.mean(errors):+.2f} ± {error:.2f} | {100 * np.median([one.half_width for one in mine]):.1f} | "
            f"{np.mean([one.seconds for one in mine]):.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--trials", type=int, default=0, help="so many runs trial by trial as well")
    parser.add_argument("--disturbed", action="store_true")
    parser.add_argument("--duration", default="4s")
    parser.add_argument("--budget", default="6m")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    answers: dict[str, list[Answer]] = {"slices": [], "trials": []}
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as directory, strangers(there=options.disturbed):
        try:
            for number in range(options.runs):
                if time.monotonic() > until:
                    break
                ways = ["slices"] if number >= options.trials else ["slices", "trials"]
                for way in ways:
                    answers[way] += one_run(way, options, options.seed * 1000 + number, Path(directory))
                print(f"{number + 1} of {options.runs}", file=sys.stderr, flush=True)
        finally:
            table(answers)


def table(answers: dict[str, list[Answer]]) -> None:
    """Prints the results so far."""
    print("| way | planted | runs | intervals hold | false words | right words | error, % | half-width, % | s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for way, found in answers.items():
        show(way, found)


if __name__ == "__main__":
    main()
