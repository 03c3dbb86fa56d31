"""The history of a run: why it ended, how each cell came to its verdict, missing results and disturbances.

Queries on the document, as in `octavo.report.document`. Keys that an older document lacks are read as empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.analysis.limitations import recorded_hosts
from octavo.plan.parts import PARTS_OF_A_HOST, host_of_part
from octavo.report import numbers
from octavo.report.document import Document, Row, cells, clean, effects_by_key, facts_of
from octavo.report.memo import once
from octavo.report.plain import condition_text, spaced
from octavo.units import human_count

# What a trial's time is spent on for its own sake; all else is Octavo's.
MEASURING = "measure"
ENOUGH = 5


@dataclass(frozen=True)
class CellHistory:
    """The history of a cell's verdict: its trials, and why there are no more."""

    label: str
    rounds: int
    loads: int
    look: int
    freedom: int
    why: str


def compared_cells(document: Document, condition: str) -> list[Row]:
    """The cells that the baseline is compared with, controls of both kinds left out."""
    negative = negative_controls(document)
    mine = cells(document, condition)
    return [c for c in mine if not c["baseline"] and not c["control"] and c["id"] not in negative]


@once
def negative_controls(document: Document) -> set[str]:
    """Cells that differ from their baseline only in what cannot matter."""
    return {effect["cell"] for effect in document["effects"] if effect.get("negative_control")}


@once
def skipped(document: Document) -> dict[str, str]:
    """Cells that this host could not run, by id, with the reason."""
    return {t["cell"]: t["reason"] or "no reason is recorded" for t in document["trials"] if t["status"] == "skipped"}


@once
def given_up(document: Document) -> dict[str, str]:
    """Cells that were given up because they failed, or were invalid, again and again, by id, with the last reason."""
    lost = set(document.get("given_up", ()))
    return {
        t["cell"]: t["reason"] or ""
        for t in document["trials"]
        if t["cell"] in lost and t["status"] in ("failed", "invalid")
    }


@once
def absent(document: Document) -> dict[str, str]:
    """For every cell without an estimate, the reason in a word."""
    return dict.fromkeys(skipped(document), "skipped") | dict.fromkeys(given_up(document), "given up")


@once
def missing_cells(document: Document) -> list[tuple[str, str, list[str]]]:
    """Skipped cells and cells given up: the word, the reason, and the cells that share it."""
    found: dict[tuple[str, str], list[str]] = {}
    for word, reasons in (("skipped", skipped(document)), ("given up", given_up(document))):
        for cell in document["cells"]:
            if (reason := reasons.get(cell["id"])) is not None:
                found.setdefault((word, reason), []).append(_name(document, cell))
    return [(word, reason, mine) for (word, reason), mine in found.items()]


def _name(document: Document, cell: Row) -> str:
    several = len({one["condition"] for one in document["cells"]}) > 1
    label = f"{spaced(cell['label'])}{' (A/A)' if cell['control'] else ''}"
    return f"{condition_text(cell['condition'])}: {label}" if several and cell["condition"] else label


def is_narrow(effect: Row) -> bool:
    """Whether it is undecided with an interval as narrow as the plan asks for: more trials would not help."""
    return effect["verdict"].startswith("undecided (within")


def steps(document: Document, condition: str) -> list[CellHistory]:
    """How each compared cell of a condition came to its verdict."""
    effects, excused = effects_by_key(document), missing_reasons(document)
    primary = document["run"]["primary_metric"]
    found: list[CellHistory] = []
    for cell in compared_cells(document, condition):
        effect = effects.get((cell["id"], primary, None))
        label = clean(cell["label"])
        if effect is None:
            found.append(CellHistory(label, 0, 0, 0, 0, excused.get(cell["id"], "no complete round with its baseline")))
            continue
        why = excused.get(cell["id"]) or _why(document, effect)
        freedom = int(effect.get("degrees_of_freedom") or 0)
        found.append(CellHistory(label, effect["rounds"], effect["loads"], effect.get("look") or 0, freedom, why))
    return found


@once
def missing_reasons(document: Document) -> dict[str, str]:
    """Why a cell has no (more) trials, for those that were skipped or given up."""
    return {cell: f"skipped: {reason}" for cell, reason in skipped(document).items()} | {
        cell: f"given up after repeated failures: {reason}" for cell, reason in given_up(document).items()
    }


def _why(document: Document, effect: Row) -> str:
    run = document["run"]
    if run.get("stopping") == "fixed":
        return "analysed once, at the end" if run["status"] == "finished" else "not final: analysed at the end"
    if is_narrow(effect):
        return f"undecided, but the interval is narrow enough (± {numbers.percent(run.get('precision'))})"
    if effect["verdict"].startswith("undecided"):
        return {"budget": "undecided when the budget was used up", "rounds": "undecided at the last round"}.get(
            str(run.get("ending")), "undecided at the end" if run["status"] == "finished" else "undecided so far"
        )
    return "decided"


def rounds_text(document: Document) -> str:
    """The number of rounds, and of how many if the run continues to a fixed number.

    >>> run = {"rounds": 6, "rounds_finished": 4, "status": "running", "budget_seconds": None}
    >>> rounds_text({"run": run}), rounds_text({"run": run | {"status": "finished", "ending": "decided"}})
    ('4 of 6 rounds', '4 rounds')
    """
    run = document["run"]
    unlimited = run.get("budget_seconds") is not None and run.get("stopping") != "fixed"
    done = run["rounds_finished"]
    if unlimited or run.get("ending") == "decided":
        return human_count(done, "round")
    return f"{done} of {human_count(run['rounds'], 'round')}"


def loads_text(document: Document) -> str:
    """How many loads each cell was measured on, of how many where there were fewer rounds than loads.

    >>> run = {"loads": 8, "rounds_finished": 1}
    >>> loads_text({"run": run}), loads_text({"run": run | {"rounds_finished": 12}})
    ('1 of 8 loads', '8 loads')
    """
    loads, done = document["run"]["loads"], document["run"]["rounds_finished"]
    of = f"{done} of " if 0 < done < loads else ""
    return of + human_count(loads, "load")


def ending_sentence(document: Document) -> str | None:
    """Why a finished run has no more rounds; None if unknown. Undecided cells are among the limitations."""
    run = document["run"]
    why = {
        "decided": "because no cell needs more trials",
        "budget": f"because its budget of {numbers.seconds(run.get('budget_seconds'))} was used up",
        "rounds": "after the rounds of its plan",
    }.get(str(run.get("ending")))
    return f"The run ended {why}." if why and run["status"] == "finished" else None


def parts_sentence(document: Document) -> str | None:
    """That rounds ran in parts, where they did: on several hosts, or because their cells did not fit at once."""
    parts = {int(trial.get("part") or 1) for trial in document["trials"]}
    hosts = {host_of_part(part) for part in parts}
    most = max((part - host_of_part(part) * PARTS_OF_A_HOST for part in parts), default=1)
    if most == 1 and len(hosts) < 2:
        return None
    where = f" on {len(hosts)} hosts" if len(hosts) > 1 else ""
    why = (
        f"The cells did not all fit in memory, huge pages or on disk at once: rounds ran{where} in up to {most} groups"
        if most > 1
        else (f"Rounds ran{where}")
    )
    part = "group" if most > 1 else "host"
    return f"{why}, each with its own baseline; cells are compared with the baseline of their {part}."


def disturbances(document: Document) -> list[Row]:
    """The disturbances that the host checks found before the run; of a fleet with the host's name."""
    return [
        {**row, "check": f"{host}: {row['check']}" if host else row["check"]}
        for host, its in recorded_hosts(document["environment"]).items()
        for row in its.get("host_checks") or ()
        if row["severity"] == "disturbs"
    ]


@once
def phases(document: Document) -> list[tuple[str, float]]:
    """The share of the trials' time by phase, the largest first; empty if it was not timed."""
    total: dict[str, float] = {}
    whole = 0.0
    for trial in document["trials"]:
        seconds: Mapping[str, float] = facts_of(trial).get("seconds", {})
        if seconds:
            whole += max(trial["seconds"], sum(seconds.values()))
            for phase, its in seconds.items():
                total[phase] = total.get(phase, 0.0) + its
    found = [(phase, seconds / whole) for phase, seconds in total.items()] if whole else []
    return sorted(found, key=lambda pair: -pair[1])


def time_sentence(document: Document) -> str | None:
    """The share of the trials' time spent measuring, and on what the rest was spent."""
    found = dict(phases(document))
    if MEASURING not in found:
        return None
    rest = [f"{phase} {numbers.percent(share)}" for phase, share in found.items() if phase != MEASURING]
    return f"Measuring took {numbers.percent(found[MEASURING])} of the trials' time; {_listed(rest[:ENOUGH])}."


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "the rest was not timed"
