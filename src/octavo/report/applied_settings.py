"""The host settings requested in the trials, and those achieved: knobs, limits of devices, limits of memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from octavo.report import numbers
from octavo.report.document import Document, Row, clean, clip, facts_of

_LIMITS = {
    "reads_per_second": ("reads a second", "1"),
    "writes_per_second": ("writes a second", "1"),
    "read_bytes_per_second": ("bytes read a second", "bytes"),
    "written_bytes_per_second": ("bytes written a second", "bytes"),
}


@dataclass(frozen=True)
class AppliedSetting:
    """One requested setting; `achieved` is its value in the trials that requested it."""

    what: str
    asked: str
    achieved: str
    trials: int


def applied_settings(document: Document) -> list[AppliedSetting]:
    """Every knob and limit set in a trial, with the achieved value; empty if there was none."""
    words: dict[tuple[str, str], list[str]] = {}
    rates: dict[tuple[str, str, str], list[float]] = {}
    for trial in document["trials"]:
        for what, asked, got in _words(trial):
            words.setdefault((what, asked), []).append(got)
        for what, asked, unit, got in _rates(trial):
            rates.setdefault((what, asked, unit), []).append(got)
    found = [AppliedSetting(what, asked, _listed(got), len(got)) for (what, asked), got in words.items()]
    found += [AppliedSetting(what, asked, _range(got, unit), len(got)) for (what, asked, unit), got in rates.items()]
    return sorted(found, key=lambda one: one.what)


def _words(trial: Row) -> Iterator[tuple[str, str, str]]:
    facts = facts_of(trial)
    knobs: dict[str, Any] = facts.get("knobs") or {}
    for name, knob in knobs.items():
        yield clip(clean(name), 60), clip(clean(knob.get("asked", "")), 60), clip(clean(knob.get("achieved", "")), 200)
    if (limit := facts.get("memory_limit_bytes")) is not None:
        yield "memory limit of the server", clip(clean(trial["levels"].get("memory", "?")), 60), numbers.size(limit)


def _rates(trial: Row) -> Iterator[tuple[str, str, str, float]]:
    facts = facts_of(trial)
    asked: dict[str, float] = facts.get("device_limit_asked") or {}
    got: dict[str, float] = facts.get("device_limit_achieved") or {}
    for name in asked.keys() & got.keys():
        what, unit = _LIMITS.get(name, (clean(name), "1"))
        device = clip(clean(facts.get("device", "device")), 60)
        yield f"{device}: {what}", numbers.amount(asked[name], unit), unit, got[name]


def _range(got: list[float], unit: str) -> str:
    low, high = numbers.amount(min(got), unit), numbers.amount(max(got), unit)
    return low if low == high else f"{low} to {high}"


def _listed(got: list[str]) -> str:
    """Each different answer, with how many trials got it where there are several."""
    counts = Counter(got)
    return got[0] if len(counts) == 1 else "; ".join(f"{one} ({count})" for one, count in counts.items())
