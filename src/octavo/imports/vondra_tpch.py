"""T. Vondra's published TPC-H results ("Postgres vs. page sizes", 2022): queries.csv, load.csv and size.csv.

Rows have no header and are separated by semicolons:

    queries.csv  data_block;wal_block;data_segment;wal_segment;query;run;start;seconds;plan_hash;result_hash
    load.csv     data_block;wal_block;data_segment;wal_segment;step;start;seconds;wal_bytes
    size.csv     data_block;wal_block;data_segment;wal_segment;table_bytes;index_bytes;database_bytes

Every combination of data block, WAL block and WAL segment was loaded once, and then ran each query several times in a
row. So a WAL segment size is a load, and a round is a load. The first run of a query is colder than the others and is
never averaged with them: a load gives three trials, one in each condition `load`, `first run`, `queries`.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from octavo.errors import UsageError
from octavo.imports.rows import (
    ImportedRow,
    moment,
    name,
    not_negative,
    one_of,
    positive,
    positive_seconds,
    read_rows,
    read_settings,
    size_of,
    unique,
    whole,
)
from octavo.imports.run import Imported, make_cells, run_name
from octavo.observation import Metric, Observation, observe
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.postgres.limits import DATA_BLOCKS, DATA_SEGMENTS, WAL_BLOCKS, WAL_SEGMENTS
from octavo.store.records import TrialRecord
from octavo.units import parse_size

SECONDS = Metric("seconds", "time", "s", "lower")
WAL_BYTES = Metric("wal_bytes", "WAL", "bytes", "lower")
SIZES = tuple(
    Metric(f"{what}_bytes", f"size of {words}", "bytes", "lower")
    for what, words in (("table", "tables"), ("index", "indexes"), ("database", "the database"))
)
# "load" and "queries" are levels of the workload tpch too: octavo compare puts such cells beside each other.
LOAD, FIRST, LATER = "load", "first run", "queries"
STEPS = ("copy", "pkey", "fkey", "indexes", "analyze")
BASELINE = {"data_block": "8kB", "wal_block": "8kB"}

_GEOMETRY = (
    ("data_block", size_of("kB", DATA_BLOCKS)),
    ("wal_block", size_of("kB", WAL_BLOCKS)),
    ("data_segment", size_of("GB", DATA_SEGMENTS)),
    ("wal_segment", size_of("MB", WAL_SEGMENTS)),
)
_QUERY = (
    *_GEOMETRY,
    ("query", whole(1, 22)),
    ("run", whole(1, 1000)),
    ("start", moment),
    ("seconds", positive_seconds),
    ("plan_hash", name),
    ("result_hash", name),
)
_STEP = (
    *_GEOMETRY,
    ("step", one_of(**{step: f"load.{step}" for step in STEPS})),
    ("start", moment),
    ("seconds", positive_seconds),
    ("wal_bytes", not_negative),
)
_SIZE = (*_GEOMETRY, *((size.name, positive) for size in SIZES))

# The factors that tell cells from each other; the WAL segment tells loads.
_TELLING = ("data_block", "wal_block", "data_segment", "phase")

# Data block, WAL block, data segment, WAL segment.
Geometry = tuple[str, str, str, str]


def read(directory: Path, *, named: str | None = None) -> Imported:
    """The results in a directory; load.csv, size.csv and settings.conf may be missing. Raises UsageError."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory; name the one that holds queries.csv")
    queries, query_rows = read_rows(directory / "queries.csv", _QUERY)
    sources = [queries]
    optional: dict[str, list[ImportedRow]] = {"load.csv": [], "size.csv": []}
    for file, columns in (("load.csv", _STEP), ("size.csv", _SIZE)):
        if (directory / file).exists():
            source, optional[file] = read_rows(directory / file, columns)
            sources.append(source)
    by_query = unique(queries, query_rows, 6)
    by_step = unique(sources[1], optional["load.csv"], 5) if optional["load.csv"] else {}
    sizes = {key[:4]: row for key, row in unique(sources[-1], optional["size.csv"], 4).items()}
    trials = [*_query_trials(by_query), *_load_trials(by_step, sizes)]
    loads = _loads(key[3] for key in (*by_query, *by_step))
    plan, cells = _plan(run_name(named or directory.resolve().name), trials, len(loads))
    by_levels = {tuple(cell.levels[name] for name in _TELLING): cell.id for cell in cells}
    trials.sort(key=lambda trial: trial.started)
    return Imported(
        plan=plan,
        cells=cells,
        trials=[_record(trial, by_levels, loads, position) for position, trial in enumerate(trials, 1)],
        metrics=(SECONDS, WAL_BYTES, *SIZES),
        sources=sources,
        repeat=shlex.join(("octavo", "import", "vondra-tpch", str(directory))),
        limits=_limits(query_rows, len(loads)),
        best_of={
            "factor": "phase",
            "levels": [phase for phase in (FIRST, LATER) if phase in plan.factors["phase"]],
            "metric": SECONDS.name,
        },
        settings=read_settings(directory / "settings.conf"),
    )


class _Trial:
    """One phase of one load, while it is put together."""

    def __init__(self, geometry: Geometry, phase: str, rows: Sequence[ImportedRow]) -> None:
        self.geometry, self.phase = geometry, phase
        self.observations: list[Observation] = []
        self.missing: list[str] = []
        self.facts: dict[str, object] = {"wal_segment": geometry[3]}
        spans = [(_at(row, -4), _at(row, -3)) if phase != LOAD else (_at(row, -3), _at(row, -2)) for row in rows]
        self.started = min(start for start, _ in spans)
        self.ended = max(start + seconds for start, seconds in spans)

    @property
    def levels(self) -> dict[str, str]:
        """The levels that identify its cell; the WAL segment is its load."""
        data, wal, data_segment, _ = self.geometry
        return {"data_block": data, "wal_block": wal, "data_segment": data_segment, "phase": self.phase}


def _query_trials(rows: Mapping[tuple[object, ...], ImportedRow]) -> list[_Trial]:
    """The first runs of a load's queries, and the later ones; a total for every run that has all queries."""
    every = sorted({_whole(key[4]) for key in rows})
    runs = {FIRST: [1], LATER: sorted({_whole(key[5]) for key in rows} - {1})}
    found: list[_Trial] = []
    for geometry in dict.fromkeys(_geometry(key) for key in rows):
        for phase, repetitions in runs.items():
            mine = {
                (query, run): rows[key]
                for run in repetitions
                for query in every
                if (key := (*geometry, query, run)) in rows
            }
            if not mine:
                continue
            trial = _Trial(geometry, phase, list(mine.values()))
            for run in repetitions:
                seconds = [observe(SECONDS, _at(row, -3), item=f"q{query}", repetition=run)
                           for (query, its), row in mine.items() if its == run]  # fmt: skip
                lacking = [f"q{query}" for query in every if (query, run) not in mine]
                trial.missing += [f"{query} of run {run}" for query in lacking]
                if not lacking:
                    trial.observations.append(observe(SECONDS, sum(one.value for one in seconds), repetition=run))
                trial.observations += seconds
            trial.facts |= {"plans": _by_query(mine, -2), "results": _by_query(mine, -1)}
            found.append(trial)
    return found


def _by_query(rows: Mapping[tuple[int, int], ImportedRow], column: int) -> dict[str, str]:
    """The hashes of a trial's queries; several with a stroke between them when its runs do not agree."""
    found: dict[str, dict[str, None]] = {}
    for (query, _), row in rows.items():
        found.setdefault(f"q{query}", {})[str(row.values[column])] = None
    return {query: "/".join(hashes) for query, hashes in found.items()}


def _load_trials(
    rows: Mapping[tuple[object, ...], ImportedRow], sizes: Mapping[tuple[object, ...], ImportedRow]
) -> list[_Trial]:
    """The load's steps with their WAL, the totals of those that are whole, and what size came of it."""
    every = dict.fromkeys(key[4] for key in rows)
    found: list[_Trial] = []
    for geometry in dict.fromkeys(_geometry(key) for key in rows):
        mine = {str(step): rows[key] for step in every if (key := (*geometry, step)) in rows}
        trial = _Trial(geometry, LOAD, list(mine.values()))
        trial.missing = [str(step) for step in every if step not in mine]
        for metric, column in ((SECONDS, -2), (WAL_BYTES, -1)):
            values = {step: _at(row, column) for step, row in mine.items()}
            if not trial.missing:
                trial.observations.append(observe(metric, sum(values.values())))
            trial.observations += [observe(metric, value, item=step) for step, value in values.items()]
        if geometry in sizes:
            values = sizes[geometry].values[-len(SIZES) :]
            trial.observations += [
                observe(metric, float(str(value))) for metric, value in zip(SIZES, values, strict=True)
            ]
        found.append(trial)
    return found


def _record(
    trial: _Trial, cells: Mapping[tuple[str, ...], str], loads: Mapping[str, int], position: int
) -> TrialRecord:
    load = loads[trial.geometry[3]]
    reason = f"incomplete: {', '.join(trial.missing)} missing, so it has no total" if trial.missing else None
    return TrialRecord(
        cell=cells[tuple(trial.levels[name] for name in _TELLING)],
        round=load,
        attempt=1,
        position=position,
        load=load,
        status="invalid" if reason else "ok",
        reason=reason,
        started=trial.started,
        ended=trial.ended,
        seed=0,
        observations=tuple(trial.observations),
        facts=trial.facts | ({"rule": "incomplete"} if reason else {}),
    )


def _plan(name: str, trials: Sequence[_Trial], loads: int) -> tuple[Plan, list[Cell]]:
    def rank(levels: Mapping[str, str]) -> tuple[int, ...]:
        return (
            (LATER, FIRST, LOAD).index(levels["phase"]),
            *(parse_size(levels[factor]) for factor in ("data_segment", "data_block", "wal_block")),
        )

    combinations = sorted({tuple(trial.levels.items()): trial.levels for trial in trials}.values(), key=rank)
    levels = {factor: list(dict.fromkeys(one[factor] for one in combinations)) for factor in _TELLING}
    conditions = ["phase"] if len(levels["data_segment"]) == 1 else ["phase", "data_segment"]
    plan = Plan(
        name=name,
        question="What do data and WAL blocks do to the TPC-H load and its 22 queries?",
        workload="TPC-H, as published by T. Vondra in 2022",
        rounds=loads,
        loads=loads,
        control=False,
        stopping="fixed",
        # Queries write nothing, so that the WAL's geometry cannot matter to them; to a load it may.
        negative=[f"wal_block where phase={phase}" for phase in (FIRST, LATER)],
        baseline=BASELINE,
        factors=levels,
    )
    return plan, make_cells(combinations, BASELINE, conditions)


def _limits(rows: Sequence[ImportedRow], loads: int) -> list[str]:
    sizes = ", ".join(_loads(str(row.values[3]) for row in rows))
    return [
        f"Each WAL segment size ({sizes}) counts as a load, so that differences between loads include any effect of "
        "the segment size. Queries write no WAL, so it cannot have one on them.",
        "All runs of a query were consecutive. The first run of a query is colder than the later ones, and is "
        "analysed separately.",
    ][0 if loads > 1 else 1 :]


def _loads(segments: Iterable[object]) -> dict[str, int]:
    """The number of each WAL segment size's load, in the order in which they were made."""
    return {str(segment): place for place, segment in enumerate(dict.fromkeys(segments), 1)}


def _geometry(key: Sequence[object]) -> Geometry:
    data, wal, data_segment, wal_segment = (str(value) for value in key[:4])
    return data, wal, data_segment, wal_segment


def _at(row: ImportedRow, column: int) -> float:
    value = row.values[column]
    assert isinstance(value, float)
    return value


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
