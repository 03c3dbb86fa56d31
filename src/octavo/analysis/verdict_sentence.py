"""A verdict as one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis import number_format
from octavo.plan.cells import Cell
from octavo.plan.condition_text import capital, condition_text
from octavo.units import spaced_sizes

_NOUNS = {"data_block": "data blocks", "wal_block": "WAL blocks", "wal_segment": "WAL segments"}


def sentence(
    effect: Mapping[str, Any],
    cells: Sequence[Cell],
    compared: Sequence[str],
    title: str,
    *,
    writes: bool,
    named: bool = True,
) -> str:
    """One sentence for an effect: the cell, its baseline, the effect, its interval, and the condition.

    `compared` are the factors that the baseline names; `writes` says that the trials wrote WAL, so that its regime
    matters; `named` is false if the cells' names include their factors.
    """
    cell = next(cell for cell in cells if cell.id == effect["cell"])
    baseline = next(cell for cell in cells if cell.baseline and cell.condition == effect["condition"])
    # "4 kB data blocks are faster than 8 kB", but "clients 8 is faster than 4".
    noun = _NOUNS.get(compared[0]) if len(compared) == 1 else None
    factors = f"{'/'.join(compared)} " if named else ""
    before, after, verb = ("", f" {noun}", "are") if noun else (factors, "", "is")
    where = f"{capital(condition_text(effect['condition']))}: " if effect["condition"] else ""
    figures = f"{title} × {number_format.ratio(effect['ratio'])}"
    if effect["low"] is None:
        figures += " (too few rounds for an interval)"
    else:
        floor = effect["noise_floor"]
        noise = "no noise floor known" if floor is None else f"noise floor {number_format.noise_floor(floor, _percent)}"
        noise = "a negative control" if effect["negative_control"] else noise
        low, high = (number_format.end_of_interval(effect[end], number_format.ratio) for end in ("low", "high"))
        figures += f" (95 % interval {low} to {high}; {noise})"
    word: str = effect["verdict"]
    label, reference = spaced_sizes(cell.label), spaced_sizes(baseline.label)
    separator = ": "
    if word.startswith("undecided"):
        claim, separator = f"{before}{label} vs {reference}{after}: {word}", ", "
    elif word.startswith("same"):
        claim = f"{before}{label} and {reference}{after} are the {word}"
    else:
        claim = f"{before}{label}{after} {verb} {word} than {reference}"
    regime = f", WAL regime {cell.levels['wal_regime']}" if writes else ""
    loads = effect["loads"]
    conditional = (
        f", conditional on {'this load' if loads == 1 else f'these {loads} loads'}" if effect["conditional"] else ""
    )
    return f"{where}{claim}{separator}{figures}{regime}{_hosts(effect)}{conditional}."


def _hosts(effect: Mapping[str, Any]) -> str:
    """On which hosts of a fleet it holds, and how much they differ.

    >>> _hosts({"hosts": 3, "host_deviation_percent": 1.26, "hosts_in_general": False})
    ', on these 3 hosts (between-host deviation 1.3 %)'
    >>> _hosts({"hosts": 6, "host_deviation_percent": 0.0, "hosts_in_general": True})
    ', on hosts like these 6 (between-host deviation 0.0 %)'
    >>> _hosts({"hosts": 1})
    ''
    """
    if effect.get("hosts", 1) < 2:
        return ""
    which = "hosts like these" if effect["hosts_in_general"] else "these"
    count = f"{effect['hosts']}" if effect["hosts_in_general"] else f"{effect['hosts']} hosts"
    deviation = effect["host_deviation_percent"]
    reported = "" if deviation is None else f" (between-host deviation {deviation:.1f} %)"
    return f", on {which} {count}{reported}"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.1f} %"
