"""The documents of the tests: two like those of a finished run, and those of unusual runs and hostile texts."""

import math
import random
import statistics

from .making import analyse, build, make_effect, verdict
from .surroundings import Document


def spoil(document: Document, index: int, status: str, reason: str, *, empty: bool = False) -> None:
    """Changes a trial so that it does not count."""
    trial = document["trials"][index]
    trial.update(status=status, reason=reason, used=False)
    if empty:
        trial["observations"] = []


def small() -> Document:
    """4kB, 8kB and 8kB again, read-only and read-write, with two invalid trials and a failed one."""
    document = build("oltp-blocks-demo", ["4kB", "8kB"], ["8kB"])
    spoil(document, 4, "invalid", "another process used 31 % of the CPU while the trial ran")
    spoil(document, 11, "failed", "pgbench ended with status 2: connection to server was lost", empty=True)
    spoil(document, 20, "invalid", "lasted 0.07 s of the 30 s requested")
    analyse(document)
    return document


def grid() -> Document:
    """Six data blocks × seven WAL blocks, the table of the published experiments."""
    blocks = [f"{2**n}kB" for n in range(7)]
    return build("oltp-grid", blocks[:6], blocks, rounds=3, seed=7)


def sequential() -> Document:
    """Analyses after each round, with every way in which a cell can get no more trials; rounds in two parts."""
    document = build("sequential", [f"{2**n}kB" for n in range(6)], ["8kB"], rounds=6, seed=5)
    document["run"].update(stopping="decided", ending="budget", budget_seconds=7200.0, rounds=100, rounds_finished=6)
    skipped, lost, narrow, negative = "1kB", "2kB", "16kB", "32kB"
    kept: list[Document] = []
    for trial in document["trials"]:
        block, number = trial["levels"]["data_block"], trial["round"]
        trial["part"] = 1 if trial["levels"]["mode"] == "read-only" else 2
        trial["facts"] = {"seconds": {"copy": 4.1, "start": 0.6, "warm": 2.2, "measure": 30.1, "stop": 0.9}}
        if (block == skipped and number > 1) or (block == lost and number > 2):
            continue
        if block in (skipped, lost):
            reason = "no device for 1kB sectors here" if block == skipped else f"initdb ended with 1 in round {number}"
            trial.update(status="skipped" if block == skipped else "failed", used=False, observations=[], reason=reason)
        kept.append(trial)
    document["trials"] = kept
    good = [index for index, trial in enumerate(kept) if trial["status"] == "ok"]
    for index, share in zip(good[5::9], (3.1, 4.7, 12.0), strict=False):
        spoil(document, index, "invalid", f"the hypervisor took {share} % of the CPU while the trial ran")
    analyse(document)
    words = {"4kB": "faster", narrow: "undecided (within −1.2 % to +4.1 %)", negative: "faster"}
    for effect in document["effects"]:
        block = next(c["levels"]["data_block"] for c in document["cells"] if c["id"] == effect["cell"])
        effect.update(look=4, degrees_of_freedom=17, negative_control=block == negative)
        effect["verdict"] = words.get(block, effect["verdict"])
        if block == narrow:
            effect.update(ratio=1.014, low=0.988, high=1.041)
    document["verdicts"] = [
        verdict(next(c for c in document["cells"] if c["id"] == effect["cell"]), effect, document)
        for effect in document["effects"]
        if effect["metric"] == "tps" and "again" not in effect["cell"]
    ]
    document["given_up"] = sorted({t["cell"] for t in kept if t["status"] == "failed"})
    document["alarms"] = ["A negative control seems to differ from the baseline: 32kB (read-only): TPS × 1.082."]
    disturbed = "The host disturbed the run from the start: processes: others take 31 % of the CPU: cc1 31 %."
    document["limits"] = [*document["alarms"], disturbed, *document["limits"]]
    for row in document["model"]:
        method = "Dunnett, repeated at every interim analysis (Lan-DeMets)"
        row.update(looks=5, first_look=2, comparisons=3, method=method)
    document["environment"]["host_checks"] = [
        {"check": "processes", "severity": "disturbs", "found": "others take 31 % of the CPU: cc1 31 %",
         "why": "they take CPU time from the server", "fix": "stop them, or wait until they end"},
        {"check": "swap", "severity": "fine", "found": "nothing is swapped", "why": "", "fix": ""},
    ]  # fmt: skip
    return document


def unfinished() -> Document:
    """A run that has measured its first two trials."""
    document = build("just-begun", ["4kB", "8kB"], ["8kB"])
    document["run"].update(status="running", ended=None, rounds_finished=0)
    document["trials"] = document["trials"][:2]
    for trial in document["trials"]:
        trial["used"] = False
    analyse(document)
    return document


def single() -> Document:
    """One cell, without any other for comparison."""
    document = build("one-cell", ["8kB"], ["8kB"])
    document["cells"] = [cell for cell in document["cells"] if cell["baseline"]][:1]
    document["trials"] = [t for t in document["trials"] if t["cell"] == document["cells"][0]["id"]]
    analyse(document)
    return document


def all_invalid() -> Document:
    """Every trial was measured and none is valid."""
    document = build("noisy-neighbour", ["4kB", "8kB"], ["8kB"])
    for index in range(len(document["trials"])):
        spoil(document, index, "invalid", "CPU steal of 38 % while the trial ran")
    document["run"].update(status="interrupted", rounds_finished=0)
    analyse(document)
    return document


def hostile() -> Document:
    """HTML, markup and ten thousand characters in place of names and texts."""
    document = small()
    nasty = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)> [red]x[/red] | `a` \x1b["
    for key in ("name", "question", "plan", "repeat", "id", "workload"):
        document["run"][key] = nasty + key
    document["run"]["question"] = "Q" * 10_000
    document["cells"][0]["label"] = "L" * 10_000
    document["cells"][2]["label"] = nasty
    spoil(document, 4, "invalid", nasty + "R" * 10_000)
    document["limits"] = [nasty, "W" * 10_000]
    document["metrics"]["tps"]["title"] = nasty
    document["verdicts"][0]["sentence"] = nasty + "V" * 10_000
    document["environment"]["host"]["cpu"] = nasty
    document["environment"]["pinned"][nasty] = "P" * 10_000
    return document


def queries() -> Document:
    """TPC-H: seconds by query, less is better, the total as an effect without an item."""
    document = build("tpch-blocks", ["8kB", "32kB"], ["8kB"], rounds=4, seed=3)
    generator = random.Random(11)
    document["run"].update(workload="tpch", primary_metric="seconds", wal_regime=None)
    document["metrics"] = {"seconds": {"title": "Query time", "unit": "s", "better": "lower"}}
    names = [f"q{n}" for n in range(1, 23)]
    for trial in document["trials"]:
        gain = 0.91 if trial["levels"]["data_block"] == "32kB" else 1.0
        times = {name: gain * (1 + len(name)) * generator.uniform(0.97, 1.03) for name in names} | {"load.copy": 30.0}
        trial["observations"] = [
            {"item": name, "repetition": 1, "metric": "seconds", "value": value, "unit": "s"}
            for name, value in times.items()
        ]
    document.update(summary=[], effects=[], noise_floor=[], verdicts=[])
    for cell in document["cells"]:
        mine = [t for t in document["trials"] if t["cell"] == cell["id"]]
        base = next(c for c in document["cells"] if c["baseline"] and c["condition"] == cell["condition"])
        for index, name in enumerate(names):
            seen = [t["observations"][index]["value"] for t in mine]
            row = {
                "cell": cell["id"],
                "metric": "seconds",
                "item": name,
                "value": statistics.fmean(seen),
                "unit": "s",
                "low_trial": min(seen),
                "high_trial": max(seen),
                "trials": len(seen),
            }
            document["summary"].append(row)
            bases = [t["observations"][index]["value"] for t in document["trials"] if t["cell"] == base["id"]]
            if cell is not base:
                logs = [math.log(a / b) for a, b in zip(seen, bases, strict=True)]
                document["effects"].append(make_effect(cell, "seconds", "lower", logs, 0.03) | {"item": name})
        if cell is not base:
            mean = [math.log(e["ratio"]) for e in document["effects"] if e["cell"] == cell["id"]]
            effect = make_effect(cell, "seconds", "lower", mean[:8], 0.03)
            document["effects"].append(effect)
            document["verdicts"].append(verdict(cell, effect, document))
    return document
