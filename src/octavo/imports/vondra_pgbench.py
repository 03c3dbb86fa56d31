"""T. Vondra's published pgbench results ("Postgres vs. page sizes", 2022): one file, a row for each trial.

    start;end;data_block;wal_block;wal_segment;scale;mode;tps;seconds;wal_bytes

The requested length of read-only trials is 900 s, of read-write ones 1800 s. Some ended early: these are invalid. For
every combination of blocks, WAL segment and scale the tables were filled once, then each mode ran a few times in a row:
a WAL segment is a load, and a round is the n-th run on a load. The numbers of transactions are not in the file; WAL per
transaction is wal_bytes / (tps × seconds).
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from octavo.imports.rows import ImportedRow, moment, not_negative, one_of, read_rows, size_of, unique, whole
from octavo.imports.run import SHORTEST_DURATION, Imported, check_rounds, make_cells, run_name, too_short
from octavo.observation import Metric, observe
from octavo.plan.model import Plan
from octavo.postgres.limits import DATA_BLOCKS, WAL_BLOCKS, WAL_SEGMENTS
from octavo.store.records import TrialRecord
from octavo.units import parse_size

TPS = Metric("tps", "TPS", "1/s", "higher")
SECONDS = Metric("seconds", "duration", "s")
WAL_BYTES = Metric("wal_bytes", "WAL", "bytes")
WAL_PER_TRANSACTION = Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "lower")
BASELINE = {"data_block": "8kB", "wal_block": "8kB"}
SECONDS_ASKED = {"read-only": 900.0, "read-write": 1800.0}

_COLUMNS = (
    ("start", moment),
    ("end", moment),
    ("data_block", size_of("kB", DATA_BLOCKS)),
    ("wal_block", size_of("kB", WAL_BLOCKS)),
    ("wal_segment", size_of("MB", WAL_SEGMENTS)),
    ("scale", whole(1, 1_000_000)),
    ("mode", one_of(**{"ro": "read-only", "rw": "read-write", "read-only": "read-only", "read-write": "read-write"})),
    ("tps", not_negative),
    ("seconds", not_negative),
    ("wal_bytes", not_negative),
)
_CONDITIONS = ("mode", "scale")


def read(file: Path, *, named: str | None = None) -> Imported:
    """The trials of a file. Raises UsageError when none can be read."""
    source, found = read_rows(file, _COLUMNS)
    rows = list(unique(source, found, len(_COLUMNS)).values())
    rows.sort(key=lambda row: float(str(row.values[0])))
    segments = {segment: load for load, segment in enumerate(dict.fromkeys(str(row.values[4]) for row in rows), 1)}
    runs = _runs(rows)
    most = max(runs.values())
    check_rounds(file, len(segments), len(segments) * most, "import a part of the file")
    combinations = _combinations(rows)
    cells = make_cells(combinations, BASELINE, _CONDITIONS)
    ids = {tuple(levels.values()): cell.id for levels, cell in zip(combinations, cells, strict=True)}
    trials = [
        _trial(row, ids[_key(row)], segments[str(row.values[4])], runs[row.line], most, position)
        for position, row in enumerate(rows, 1)
    ]
    alone = "The tables were loaded once for each cell and scale, so the differences between loads are unknown."
    return Imported(
        plan=_plan(run_name(named or _name_of(file)), combinations, len(segments), most),
        cells=cells,
        trials=trials,
        metrics=(TPS, WAL_PER_TRANSACTION, WAL_BYTES, SECONDS),
        sources=[source],
        repeat=shlex.join(("octavo", "import", "vondra-pgbench", str(file))),
        limits=[
            *([alone] if len(segments) == 1 else ()),
            "Read-write trials ran on the same tables without a reset, so later ones had more bloat.",
        ],
    )


def _runs(rows: Iterable[ImportedRow]) -> dict[int, int]:
    """By line: the how manyth run of its cell on its load a trial is."""
    counts: dict[tuple[object, ...], int] = {}
    found: dict[int, int] = {}
    for row in rows:
        key = row.values[2:7]
        counts[key] = found[row.line] = counts.get(key, 0) + 1
    return found


def _levels(row: ImportedRow) -> dict[str, str]:
    data, wal, _, scale, mode = (str(value) for value in row.values[2:7])
    return {"data_block": data, "wal_block": wal, "scale": scale, "mode": mode}


def _key(row: ImportedRow) -> tuple[str, ...]:
    return tuple(_levels(row).values())


def _combinations(rows: Sequence[ImportedRow]) -> list[dict[str, str]]:
    """The levels that were measured: modes, then scales, then blocks, in ascending order."""

    def rank(levels: Mapping[str, str]) -> tuple[object, ...]:
        sizes = (parse_size(levels[factor]) for factor in BASELINE)
        return levels["mode"], int(levels["scale"]), *sizes

    return sorted({_key(row): _levels(row) for row in rows}.values(), key=rank)


def _plan(name: str, combinations: Sequence[Mapping[str, str]], loads: int, runs: int) -> Plan:
    factors = (*BASELINE, *_CONDITIONS)
    return Plan(
        name=name,
        question="What do data and WAL blocks do to pgbench, at which scale?",
        workload="pgbench, as published by T. Vondra in 2022",
        rounds=loads * runs,
        loads=loads,
        control=False,
        stopping="fixed",
        # Reading writes no WAL to speak of, so that its geometry cannot matter.
        negative=["wal_block where mode=read-only"],
        baseline=BASELINE,
        factors={factor: list(dict.fromkeys(levels[factor] for levels in combinations)) for factor in factors},
    )


def _trial(row: ImportedRow, cell: str, load: int, run: int, runs: int, position: int) -> TrialRecord:
    start, end, *_, mode, tps, seconds, wal_bytes = row.values
    assert isinstance(tps, float)
    assert isinstance(seconds, float)
    assert isinstance(wal_bytes, float)
    assert isinstance(start, float)
    assert isinstance(end, float)
    reason = _too_short(seconds, end - start, SECONDS_ASKED[str(mode)])
    seen = [observe(TPS, tps), observe(SECONDS, seconds), observe(WAL_BYTES, wal_bytes)]
    if (transactions := tps * seconds) >= 1:
        seen.append(observe(WAL_PER_TRANSACTION, wal_bytes / transactions))
    return TrialRecord(
        cell=cell,
        round=(load - 1) * runs + run,
        attempt=1,
        position=position,
        load=load,
        status="invalid" if reason else "ok",
        reason=reason,
        started=start,
        ended=max(start, end),
        seed=0,
        observations=tuple(seen),
        facts={"wal_segment": str(row.values[4]), "line": row.line, **({"rule": "duration"} if reason else {})},
    )


def _too_short(seconds: float, between: float, asked: float) -> str | None:
    """Why a trial is not believed. Start and end are whole seconds in the file."""
    if (reason := too_short(seconds, asked)) is not None:
        return reason
    if between < SHORTEST_DURATION * asked - 1:
        return f"its start and end are {between:.0f} s apart, but it should have run {asked:g} s"
    return None


def _name_of(file: Path) -> str:
    """The series' directory with its machine's, such as i5-20220414-no-fpw; a file of another name has its own."""
    directory = file.resolve().parent
    return f"{directory.parent.name}-{directory.name}" if file.name == "results.csv" else file.stem
