"""Any other table of results: a file with a line for each measurement, and a TOML file that describes it."""

import csv
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from octavo.errors import UsageError
from octavo.imports.map_file import Map, columns_of, read_map
from octavo.imports.rows import ImportSource, Parse, read_text, take
from octavo.imports.run import Imported, check_rounds, make_cells, run_name, too_short
from octavo.observation import Metric, Observation
from octavo.plan.checks import checked_negative
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

_NOTHING: tuple[int, list[str]] = (0, [])

# A line's values by our keys: `factor NAME`, `metric NAME`, `load`, `round`, …
Seen = Mapping[str, Any]
Levels = tuple[str, ...]
T = TypeVar("T")


def read(file: Path, described_by: Path, *, named: str | None = None) -> Imported:
    """The measurements of a file, as its map describes them. Raises UsageError with one line that names the problem."""
    described = read_map(described_by)
    source, text = read_text(file)
    lines = list(_lines(source, text, described, file))
    if not lines:
        problem = f" ({source.problems[0]})" if source.problems else ""
        raise UsageError(f"{file} has no line that matches {described_by.name}{problem}")
    levels = {name: list(dict.fromkeys(str(seen[f"factor {name}"]) for seen in lines)) for name in described.factors}
    for name, level in described.baseline.items():
        if level not in levels.get(name, []):
            known = ", ".join(levels.get(name, [])[:12]) or "none, it is not in [factors]"
            raise UsageError(f"{described_by}: baseline.{name}: {level} was not measured; levels that were: {known}")
    try:
        checked_negative(described.negative, described.baseline, levels, {})
    except UsageError as error:
        raise UsageError(f"{described_by}: {error}") from None
    conditions = [name for name, its in levels.items() if len(its) > 1 and name not in described.baseline]
    places = _places(source, lines, described)
    keys = list(dict.fromkeys(levels_of for levels_of, _, _ in places))
    cells = make_cells((dict(zip(described.factors, key, strict=True)) for key in keys), described.baseline, conditions)
    ids = {key: cell.id for key, cell in zip(keys, cells, strict=True)}
    loads = _numbered(load for _, load, _ in places)
    rounds = _numbered(sorted(dict.fromkeys(place[1:] for place in places), key=lambda pair: loads[pair[0]]))
    check_rounds(file, len(loads), len(rounds), f"check [trial] in {described_by}")
    items = {str(seen["item"]) for seen in lines if seen.get("item")}
    now = time.time()
    return Imported(
        plan=_plan(run_name(named or described.name or file.stem), described, levels, len(loads), len(rounds)),
        cells=cells,
        trials=[
            _trial(members, ids[key], (loads[load], rounds[load, its_round], position), described, items, now)
            for position, ((key, load, its_round), members) in enumerate(places.items(), 1)
        ],
        metrics=[Metric(key, one.title or key, one.unit, one.better) for key, one in described.metrics.items()],
        sources=[source],
        repeat=shlex.join(("octavo", "import", "csv", str(file), "--map", str(described_by))),
        limits=[] if described.trial.started else ["The file has no times: trials are in the order of its lines."],
    )


def _lines(source: ImportSource, text: str, described: Map, file: Path) -> Iterator[Seen]:
    """The values of each line by our keys. Raises UsageError for a column that is not there, or there twice."""
    split = _split(csv.reader(text.splitlines(keepends=True), delimiter=described.file.delimiter), source)
    heads = [head.strip() for head in described.file.columns or next(split, _NOTHING)[1]]
    wanted = columns_of(described)
    for _, column, _ in wanted:
        if column not in heads:
            raise UsageError(f"{file}: no column {column!r}; columns: {', '.join(heads)[:300]}")
        if (count := heads.count(column)) > 1:
            raise UsageError(f"{file}: {count} columns are named {column!r}; rename all but the one that is meant")
    constant = {f"factor {name}": one.level for name, one in described.factors.items() if one.level is not None}
    readers: dict[str, list[tuple[str, Parse]]] = {}
    for key, column, parse in wanted:
        readers.setdefault(column, []).append((key, parse))
    columns = [(head, _together(readers.get(head, []))) for head in heads]
    for row in take(source, split, columns):
        found: dict[str, Any] = dict(constant)
        for value in row.values:
            assert isinstance(value, dict)
            found |= value
        yield found | {"line": row.line}


def _together(readers: Sequence[tuple[str, Parse]]) -> Parse:
    """Reads a column for each of the keys that it is mapped to."""
    return lambda text: {key: parse(text) for key, parse in readers}


def _split(reader: Any, source: ImportSource) -> Iterator[tuple[int, list[str]]]:
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            source.refuse(reader.line_num, f"{error}; left out")
            continue
        if fields:
            yield reader.line_num, fields


def _places(source: ImportSource, lines: Sequence[Seen], described: Map) -> dict[tuple[Levels, str, str], list[Seen]]:
    """The lines of each trial by levels, load and round. Without a round, a line that repeats begins the next one; with
    one it is left out, as there is no telling which is right."""
    found: dict[tuple[Levels, str, str], list[Seen]] = {}
    earlier: dict[tuple[object, ...], list[int]] = {}
    for seen in lines:
        levels, load = tuple(str(seen[f"factor {name}"]) for name in described.factors), str(seen.get("load", ""))
        same = (levels, load, seen.get("round"), seen.get("item"), seen.get("repetition"))
        before = earlier.setdefault(same, [])
        if before and described.trial.round:
            source.refuse(seen["line"], f"the same measurement as line {before[0]}; left out")
            source.rows -= 1
            continue
        before.append(seen["line"])
        its_round = str(seen["round"]) if described.trial.round else str(len(before))
        found.setdefault((levels, load, its_round), []).append(seen)
    return found


def _numbered(found: Iterable[T]) -> dict[T, int]:
    return {one: number for number, one in enumerate(dict.fromkeys(found), 1)}


def _plan(name: str, described: Map, levels: Mapping[str, list[str]], loads: int, rounds: int) -> Plan:
    return Plan(
        name=name,
        question=described.question,
        workload=described.workload,
        rounds=rounds,
        loads=loads,
        control=False,
        stopping="fixed",
        threshold=described.threshold,
        negative=described.negative,
        baseline=described.baseline,
        factors=dict(levels),
    )


def _trial(
    lines: Sequence[Seen], cell: str, place: tuple[int, int, int], described: Map, items: set[str], now: float
) -> TrialRecord:
    """The lines of one trial; `place` is its load, round and position. Its time is the import's where none is told."""
    started = min(float(seen.get("started", now)) for seen in lines)
    ended = max(float(seen.get("started", now)) + float(seen.get("seconds", 0.0)) for seen in lines)
    reason = next((why for seen in lines if (why := _too_short(seen, described)) is not None), None)
    observations = [
        Observation(key, seen[f"metric {key}"], one.unit, seen.get("item") or None, seen.get("repetition", 1))
        for seen in lines
        for key, one in described.metrics.items()
    ]
    load, its_round, position = place
    return TrialRecord(
        cell=cell,
        round=its_round,
        attempt=1,
        position=position,
        load=load,
        status="invalid" if reason else "ok",
        reason=reason,
        started=started,
        ended=ended,
        seed=0,
        observations=(*_totals(observations, described, items), *observations),
        facts={"lines": [seen["line"] for seen in lines][:20], **({"rule": "duration"} if reason else {})},
    )


def _totals(seen: Sequence[Observation], described: Map, items: set[str]) -> list[Observation]:
    """The sums over items, where the map asks for them, of the repetitions that have all items."""
    found: list[Observation] = []
    for key in (key for key, one in described.metrics.items() if one.total):
        for repetition in sorted({one.repetition for one in seen}):
            mine = [one for one in seen if one.metric == key and one.repetition == repetition and one.item]
            if mine and {one.item for one in mine} == items:
                total = sum(one.value for one in mine)
                found.append(Observation(key, total, mine[0].unit, None, repetition))
    return found


def _too_short(seen: Seen, described: Map) -> str | None:
    asked = described.trial.seconds_asked
    seconds_asked = seen.get("seconds_asked") if isinstance(asked, str) else asked
    if seconds_asked is None or "seconds" not in seen:
        return None
    return too_short(seen["seconds"], seconds_asked)
