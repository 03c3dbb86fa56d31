"""PGIO, the SLOB method for PostgreSQL: sessions that only read random blocks inside the server.

After Kevin Closson's PGIO (github.com/therealkevinc/pgio): NUM_SCHEMAS tables of SCALE with one row a block, each read
by NUM_THREADS sessions, WORK_UNIT blocks at a time in the order of a key that is unrelated to their position. Schema,
functions and scripts are our own. A call of the function does many work units in one statement, so that round trips,
parsing and planning are not measured.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path

from octavo.errors import UsageError
from octavo.factor import Factor, duration, one_of, whole_number
from octavo.observation import Observation, observe
from octavo.postgres.cluster import Server
from octavo.postgres.leaving import wait_for_clients_to_leave
from octavo.units import parse_duration, parse_size
from octavo.workload_support import pgbench_client, pgbench_turns
from octavo.workload_support.pgbench_turns import PausablePgbench
from octavo.workloads.base import COUNTED, Levels, WorkloadResult
from octavo.workloads.pgio import figures, sessions, tables

_RANDOM, _SAME = "random", "same"
# The seconds of empty calls after a trial.
_EMPTY_SECONDS = 1

_FACTORS = (
    Factor("threads", "run", "sessions of each schema (PGIO's NUM_THREADS)", "1", whole_number(1, 1000)),
    Factor("work_unit", "run", "blocks that a read visits (PGIO's WORK_UNIT)", "255", whole_number(1, 100_000)),
    Factor("update_pct", "run", "share of the calls that update, in percent (PGIO's UPDATE_PCT)", "0",
           whole_number(0, 100)),
    Factor("update_work_unit", "run", "blocks that an update visits (PGIO's UPDATE_WORK_UNIT)", "8",
           whole_number(1, 100_000)),
    Factor("units", "run", "work units in a call of the function, which is one transaction", "50",
           whole_number(1, 10_000)),
    Factor("blocks", "run", "blocks of a unit: random, or always the same ones of the schema", _RANDOM,
           one_of(_RANDOM, _SAME)),
    Factor("duration", "run", "length of the measured run (PGIO's RUN_TIME)", "8s", duration(1, 86_400)),
)  # fmt: skip


class Pgio:
    """Sessions of the build's own pgbench that call the functions, each on its schema's table."""

    factors = (*tables.FACTORS, *_FACTORS)
    metrics = figures.METRICS

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The tables depend on the number of schemas and their scale."""
        return tables.contents(levels)

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes tables, indexes and functions."""
        _places(levels)  # before minutes of loading
        tables.fill(server, levels, load)

    def database_bytes(self, levels: Levels) -> int:
        """The size of tables, indexes and the catalogs."""
        return tables.database_bytes(levels)

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return parse_duration(levels["duration"])

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the same calls briefly, at other places."""
        with _scripts(server, levels) as what:
            pgbench_client.warm(server, _of_pgbench(levels), seed, what)

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement between two readings of pg_stat_database. The seed gives every cell the same places."""
        others = _clients(server)
        before = server.query("database")[0]
        with _scripts(server, levels) as what:
            result, calls = sessions.measure(server, _of_pgbench(levels), seed, what)
        wait_for_clients_to_leave(server.query, others)
        after = server.query("database")[0]
        counted = figures.CounterGrowth.between(before, after, result.seconds, parse_size(levels["data_block"]))
        found = counted.observations(sessions_of(levels), sessions.shares(calls, sessions_of(levels)))
        facts = {"pgio": counted.as_dict()}
        return replace(result, observations=(*found, *result.observations), facts={**result.facts, **facts})

    def afterwards(self, server: Server, levels: Levels, result: WorkloadResult) -> tuple[Observation, ...]:
        """The cost of the same calls without a work unit, as a share: round trip, parsing, planning, executor.

        A call that updates nothing writes no WAL and does not wait for it: the commit counts as measured work.
        """
        # A unit of no blocks would still descend the index.
        empty = {**levels, "units": "0", "duration": f"{_EMPTY_SECONDS}s"}
        with _scripts(server, empty) as what:
            nothing, _ = sessions.measure(server, _of_pgbench(empty), 1, what)
        if not nothing.transactions or not result.transactions:
            return ()
        share = (nothing.seconds / nothing.transactions) / (result.seconds / result.transactions)
        return (observe(figures.OWN_COST, share),)

    @contextmanager
    def client(self, server: Server, levels: Levels, seed: int, output: Path) -> Generator[PausablePgbench, None, None]:
        """The same run without a time limit, for slices."""
        with (
            _scripts(server, levels) as what,
            pgbench_turns.started(server, _of_pgbench(levels), seed, what, output, sessions.count) as client,
        ):
            yield client

    def only_reads(self, levels: Levels) -> bool:
        """Whether there are no updates."""
        return levels["update_pct"] == "0"

    def of_slices(self, levels: Levels, result: WorkloadResult, seen: Sequence[Observation]) -> tuple[Observation, ...]:
        """The figures of slices: their calls, each with the average blocks per call over the client's lifetime; the
        sessions' shares cover that lifetime too."""
        shares = sessions.shares(result.facts.get(COUNTED, {}), sessions_of(levels))
        return figures.of_slices(result, seen, sessions_of(levels), parse_size(levels["data_block"]), shares)


def sessions_of(levels: Levels) -> int:
    """NUM_SCHEMAS × NUM_THREADS."""
    return int(levels["schemas"]) * int(levels["threads"])


def _of_pgbench(levels: Levels) -> dict[str, str]:
    """The levels for pgbench. Its simple protocol lets a script insert a number into a function's name; the cost of
    that is in `own_cost_share`."""
    return {**levels, "clients": str(sessions_of(levels)), "protocol": "simple", "rate": "none"}


def _places(levels: Levels) -> dict[str, int]:
    """The number of places where units may begin, by kind. Raises UsageError when a unit does not fit its schema."""
    rows = tables.blocks_of(levels)
    units = {"read": int(levels["work_unit"]), "update": int(levels["update_work_unit"])}
    for unit in units.values():
        if unit > rows:
            raise UsageError(f"scale: {levels['scale']} has {rows} blocks, fewer than a work unit of {unit}")
    if levels["blocks"] == _SAME:
        return dict.fromkeys(units, 1)
    return {kind: rows - unit + 1 for kind, unit in units.items()}


@contextmanager
def _scripts(server: Server, levels: Levels) -> Generator[list[str], None, None]:
    """pgbench's options for the scripts, weighted by the share of updates."""
    updates = int(levels["update_pct"])
    weighted = [(_text("read.sql"), 100 - updates), (_text("update.sql"), updates)]
    places = _places(levels)
    variables = {
        "schemas": levels["schemas"], "units": levels["units"],
        "read_blocks": levels["work_unit"], "read_places": places["read"],
        "update_blocks": levels["update_work_unit"], "update_places": places["update"],
    }  # fmt: skip
    with pgbench_client.scripts(server, *weighted, **variables) as options:
        yield options


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text()


def _clients(server: Server) -> int:
    return int(server.query("other_clients")[0]["clients"])


WORKLOAD = Pgio()
