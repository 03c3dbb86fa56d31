"""Series in the document: those of some trials for the charts of the page; all of them on request, for programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from octavo.analysis.trials import TrialKey
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord
from octavo.store.store import Store

T = TypeVar("T")

# The figures that the page draws (docs/instruments.md).
CHARTED = (
    "device_read_kb_per_second",
    "device_written_kb_per_second",
    "device_util",
    "rareq_sz",
    "wareq_sz",
    "burst_credits",
    "memory_dirty_bytes",
    "memory_available_bytes",
    "memory_page_tables_bytes",
    "process_page_table_bytes",
    "swap_used_bytes",
    "swapped_out_bytes_per_second",
    "swapped_in_bytes_per_second",
    "wal_bytes_per_second",
    "wal_full_page_images_per_second",
    "wal_amplification",
)
# More lines than this hide each other.
MOST_TRIALS = 30


def charted_series(store: Store, cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord]) -> list[dict[str, Any]]:
    """The series to be drawn, unthinned, of trials that count; those of the server as a whole, not of its roles."""
    trials = [trial.id for trial in choose(cells, used)]
    return [row for row in all_series(store, trials, CHARTED) if row["item"] is None]


def all_series(store: Store, trials: Iterable[int], metrics: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of `trial`, `metric`, `item`, `unit`, `seconds` since the load began, and `values`; read as asked for."""
    for trial, one in store.series(list(trials), metrics):
        yield {
            "trial": trial,
            "metric": one.metric,
            "item": one.item,
            "unit": one.unit,
            "seconds": list(one.seconds),
            "values": list(one.values),
        }


def choose(cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord], most: int = MOST_TRIALS) -> list[TrialRecord]:
    """At most so many of the trials that count: whole rounds, evenly over the run.

    If one round has too many trials, its baselines and an even choice of its other cells.
    """
    place = {cell.id: number for number, cell in enumerate(cells)}
    baselines = {cell.id for cell in cells if cell.baseline}
    rounds: dict[int, list[TrialRecord]] = {}
    for (number, _, _), trial in sorted(used.items(), key=lambda entry: (entry[0][0], place[entry[1].cell])):
        rounds.setdefault(number, []).append(trial)
    if not rounds:
        return []
    largest = max(len(trials) for trials in rounds.values())
    found: list[TrialRecord] = []
    for trials in evenly(list(rounds.values()), max(1, most // largest)):
        first = [trial for trial in trials if trial.cell in baselines][:most]
        others = [trial for trial in trials if trial.cell not in baselines]
        found += sorted([*first, *evenly(others, most - len(first))], key=lambda trial: place[trial.cell])
    return found


def evenly(items: Sequence[T], count: int) -> list[T]:
    """At most so many of the items, evenly spaced, including the first one.

    >>> evenly("abcdefg", 3), evenly("ab", 3), evenly("ab", 0)
    (['a', 'c', 'e'], ['a', 'b'], [])
    """
    if len(items) <= count:
        return list(items)
    return [items[number * len(items) // count] for number in range(count)]
