"""Percona's published results of transparent huge pages (THP-POSTGRESQL-2019): the output of pgbench and sysbench.

    results/pgbench-tpcb/{10m,60m}/{disabled-thp,enabled-thp,thph}/tps-{64,128,256}
    results/sysbench-tpcc/{disabled-thb,enabled-thp}/tps-{64,128,256}

Each file has six runs, one after the other: three at the smaller scale, three at the larger one, each followed by the
output of `perf stat`. `thph` holds the 60-minute runs with huge pages. The files do not record the time of a run, nor
whether the tables were filled again: all runs count as one load. perf counted the command that it started, which is the
client; the server's misses are not included.
"""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from octavo.errors import UsageError
from octavo.imports.rows import ImportSource, read_text
from octavo.imports.run import Imported, check_rounds, make_cells, run_name, too_short
from octavo.observation import Metric, Observation, observe
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

TPS = Metric("tps", "TPS", "1/s", "higher")
LATENCY = Metric("latency_avg_ms", "average latency", "ms", "lower")
TRANSACTIONS = Metric("transactions", "transactions", "1")
SECONDS = Metric("seconds", "duration", "s")
MISSES = Metric(
    "client_dtlb_load_misses_per_transaction", "dTLB load misses of the client (not the server) per transaction", "1"
)
BASELINE = {"thp": "never"}
CONDITIONS = ("workload", "duration", "scale", "clients")

_MODES = {"disabled-thp": "never", "disabled-thb": "never", "enabled-thp": "always", "thph": "always"}
_FILE = re.compile(r"tps-\d{1,5}")
# Where a run begins, in the client's own words.
_RUN = re.compile(r"^(?:transaction type: |sysbench \d)", re.MULTILINE)
_NUMBER = r"(\d{1,18}(?:\.\d{1,9})?)"


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a client: its levels, how long it was asked to take, and what it says."""

    levels: Mapping[str, str]
    seconds_asked: float
    seconds: float
    observations: tuple[Observation, ...]


def read(directory: Path, *, named: str | None = None) -> Imported:
    """The trials below a directory. Raises UsageError when there are none."""
    sources: list[ImportSource] = []
    runs: list[_Run] = []
    for file in _files(directory):
        source, text = read_text(file)
        source.name = str(file.relative_to(directory))
        sources.append(source)
        runs += _runs_of(source, text, _MODES[file.parent.name])
    if not runs:
        problem = next((f" ({source.problems[0]})" for source in sources if source.problems), "")
        raise UsageError(f"{directory} has no results: files such as pgbench-tpcb/10m/disabled-thp/tps-128{problem}")
    combinations = sorted({_key(one.levels): dict(one.levels) for one in runs}.values(), key=_rank)
    cells = make_cells(combinations, BASELINE, CONDITIONS)
    ids = {_key(levels): cell.id for levels, cell in zip(combinations, cells, strict=True)}
    now, counts = time.time(), dict[str, int]()
    trials: list[TrialRecord] = []
    for position, one in enumerate(runs, 1):
        cell = ids[_key(one.levels)]
        counts[cell] = counts.get(cell, 0) + 1
        trials.append(_trial(one, cell, counts[cell], position, now))
    check_rounds(directory, 1, max(counts.values()), "name a directory below it")
    return Imported(
        plan=_plan(run_name(named or f"percona-thp-{directory.resolve().name}"), combinations, max(counts.values())),
        cells=cells,
        trials=trials,
        metrics=(TPS, LATENCY, MISSES, TRANSACTIONS, SECONDS),
        sources=sources,
        repeat=shlex.join(("octavo", "import", "percona-thp", str(directory))),
        limits=[
            "The files have no times: trials are in the order of the files, the runs of a cell consecutively.",
            "dTLB misses are those of pgbench or sysbench: perf stat counts only the command that it "
            "starts, not the server.",
            "shared_buffers had no huge page in either mode where shmem_enabled was never, Linux's default.",
        ],
    )


def _files(directory: Path) -> list[Path]:
    """The files of results, in order. Raises UsageError when the directory cannot be read."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory; name the one that holds pgbench-tpcb and sysbench-tpcc")
    return sorted(file for mode in _MODES for file in directory.rglob(f"{mode}/tps-*") if _FILE.fullmatch(file.name))


def _runs_of(source: ImportSource, text: str, mode: str) -> list[_Run]:
    """The runs that a file tells whole; what lacks a number is named, and left out."""
    found: list[_Run] = []
    starts = [match.start() for match in _RUN.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        part = text[start:end]
        one = _sysbench(part, mode) if part.startswith("sysbench") else _pgbench(part, mode)
        if one is None:
            source.refuse(text.count("\n", 0, start) + 1, "a run without transactions, time or scale; left out")
        else:
            source.rows += 1
            found.append(one)
    return found


def _pgbench(text: str, mode: str) -> _Run | None:
    scale, clients = _find(r"^scaling factor: (\d{1,7})$", text), _find(r"^number of clients: (\d{1,5})$", text)
    asked, transactions = _find(r"^duration: (\d{1,7}) s$", text), _find(rf"actually processed: {_NUMBER}", text)
    rate = _find(rf"^tps = {_NUMBER} \((?:excluding|without)", text)
    latency = _find(rf"^latency average = {_NUMBER} ms", text)
    if not (scale and clients and asked and transactions and rate):
        return None
    return _run("TPC-B", mode, scale, clients, asked, transactions, transactions / rate, latency, text)


def _sysbench(text: str, mode: str) -> _Run | None:
    """A run of sysbench's TPC-C. Its size is in the command that perf names: so many sets of tables of a scale."""
    sets, scale = _find(r"--tables=(\d{1,5})\b", text), _find(r"--scale=(\d{1,5})\b", text)
    clients, asked = _find(r"^Number of threads: (\d{1,5})$", text), _find(r"--time=(\d{1,7})\b", text)
    transactions, seconds = _find(rf"^\s+transactions:\s+{_NUMBER}\b", text), _find(rf"total time:\s+{_NUMBER}s", text)
    latency = _find(rf"^\s+avg:\s+{_NUMBER}$", text)
    if not (sets and scale and clients and asked and transactions and seconds):
        return None
    return _run("TPC-C", mode, sets * scale, clients, asked, transactions, seconds, latency, text)


def _run(
    workload: str, mode: str, scale: float, clients: float, asked: float, transactions: float, seconds: float,
    latency: float | None, text: str,
) -> _Run:  # fmt: skip
    misses = re.search(r"^\s*([\d,]{1,30})\s+dTLB-load-misses", text, re.MULTILINE)
    levels = {
        "workload": workload, "duration": f"{asked / 60:g}min", "scale": f"{scale:.0f}", "clients": f"{clients:.0f}",
        "thp": mode,
    }  # fmt: skip
    seen = [observe(TPS, transactions / seconds), observe(TRANSACTIONS, transactions), observe(SECONDS, seconds)]
    if latency is not None:
        seen.append(observe(LATENCY, latency))
    if misses is not None and (counted := misses[1].replace(",", "")):
        seen.append(observe(MISSES, int(counted) / transactions))
    return _Run(levels, asked, seconds, tuple(seen))


def _find(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None


def _key(levels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(levels[name] for name in (*CONDITIONS, *BASELINE))


def _rank(levels: Mapping[str, str]) -> tuple[object, ...]:
    minutes = float(levels["duration"].removesuffix("min"))
    return levels["workload"], minutes, int(levels["scale"]), int(levels["clients"]), levels["thp"] != "never"


def _plan(name: str, combinations: Sequence[Mapping[str, str]], runs: int) -> Plan:
    return Plan(
        name=name,
        question="Do transparent huge pages for private memory make TPC-B and TPC-C faster or slower?",
        workload="pgbench and sysbench, as published by Percona in 2019",
        rounds=runs,
        loads=1,
        control=False,
        stopping="fixed",
        baseline=BASELINE,
        factors={
            factor: list(dict.fromkeys(levels[factor] for levels in combinations))
            for factor in (*BASELINE, *CONDITIONS)
        },
    )


def _trial(one: _Run, cell: str, its_round: int, position: int, now: float) -> TrialRecord:
    reason = too_short(one.seconds, one.seconds_asked)
    return TrialRecord(
        cell=cell,
        round=its_round,
        attempt=1,
        position=position,
        load=1,
        status="invalid" if reason else "ok",
        reason=reason,
        started=now,
        ended=now,
        seed=0,
        observations=one.observations,
        facts={"rule": "duration"} if reason else {},
    )
