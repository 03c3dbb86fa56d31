"""A workload like TPC-C: nine tables and five transactions in its standard mix, run by pgbench.

Tables, numbers of rows, ranges, NURand and last names follow the TPC-C Standard Specification, revision 5.11 (clauses
1.2, 1.3, 2.1.6, 2.4 to 2.8, 4.3); scripts and schema are our own. It is *like* TPC-C, but not TPC-C: no terminals, no
keying or think times, a warehouse drawn for each transaction, READ COMMITTED with row locks, and of the specification's
audit only the consistency conditions. Its numbers are not comparable with published TPC-C results.
"""

import random
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from octavo.factor import Factor, whole_number
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_client, pgbench_log, pgbench_turns
from octavo.workload_support.pgbench_log import FinishedTransactions
from octavo.workload_support.pgbench_turns import PausablePgbench
from octavo.workloads.base import COUNTED, Levels, WorkloadResult

# The standard mix, in hundredths of a percent. One in a hundred new orders requests an item that does not exist and is
# rolled back (clause 2.4.1.4): it has a separate script, so that its transactions can be distinguished.
_ROLLED_BACK = "new order rolled back"
MIX = {
    "new order": ("new_order.sql", 4455),
    _ROLLED_BACK: ("new_order.sql", 45),
    "payment": ("payment.sql", 4300),
    "order status": ("order_status.sql", 400),
    "delivery": ("delivery.sql", 400),
    "stock level": ("stock_level.sql", 400),
}
# The constants C of NURand (clause 2.1.6): any values in 0..A; for last names those of load and run must be 65 to 119
# apart, but not 96 or 112.
C_LAST_OF_LOAD, C_LAST, _C_ID, _I_ID = 157, 223, 259, 7911
# Incremented when the way of making rows changes, so that old loads are not compared with new ones.
_ROWS = "2"
# The time of loading in the rows: it is constant, so that a load is the same wherever it is made.
_LOADED = "timestamptz '2000-01-01 00:00+00'"
# The tries of a transaction after deadlocks, including the first one.
_TRIES = 10
# Measured sizes: a warehouse at 8 kB blocks, and the items.
_WAREHOUSE_BYTES, _ITEM_BYTES = 105 * 1024**2, 16 * 1024**2

# Its place in the mix, which is the number of its script.
_NEW_ORDER = 0
_NEW_ORDERS = Metric("new_orders_per_minute", "new orders a minute (committed)", "1/min", "higher")


class TpccLike:
    """Runs the five transactions with the build's own pgbench; scale counts warehouses."""

    factors = (
        Factor("scale", "cluster", "warehouses, about 100 MB each", "4", whole_number(1, 100_000)),
        *pgbench_client.FACTORS,
    )
    metrics = (*pgbench_log.METRICS, _NEW_ORDERS)

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The tables depend on the number of warehouses, and on the way of making rows."""
        return (("workload", "tpcc-like"), ("rows", _ROWS), ("scale", levels["scale"]))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes tables, items, each warehouse, then the indexes. Each warehouse has its own random numbers."""
        server.execute(_text("schema.sql"))
        _seed(server, f"tpcc-like/{load}/items")
        server.execute(_text("items.sql"))
        for warehouse in range(1, int(levels["scale"]) + 1):
            _seed(server, f"tpcc-like/{load}/{warehouse}")
            rows = _text("one_warehouse.sql").replace("{warehouse}", str(warehouse)).replace("{loaded}", _LOADED)
            server.execute(rows.replace("{c_last}", str(C_LAST_OF_LOAD)))
        server.execute(_text("indexes.sql"))

    def load_seconds(self, levels: Levels) -> float:
        """Assumes 15 MB per second; 5 to 20 were measured."""
        return self.database_bytes(levels) / 15e6

    def database_bytes(self, levels: Levels) -> int:
        """About 105 MB per warehouse (one of four measured at 8 kB), plus the items."""
        return int(levels["scale"]) * _WAREHOUSE_BYTES + _ITEM_BYTES

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return pgbench_client.seconds_asked(levels)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the same mix briefly, with another random sequence than the measured run."""
        with lent_scripts(server, levels) as what:
            pgbench_client.warm(server, levels, seed, what)

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. The seed gives every cell of a round the same random sequence."""
        with lent_scripts(server, levels) as what:
            return pgbench_log.measure(server, levels, seed, what, _by_transaction)

    @contextmanager
    def client(self, server: Server, levels: Levels, seed: int, output: Path) -> Generator[PausablePgbench, None, None]:
        """The same mix without a time limit, for slices."""
        with (
            lent_scripts(server, levels) as what,
            pgbench_turns.started(server, levels, seed, what, output, count_scripts) as client,
        ):
            yield client

    def only_reads(self, levels: Levels) -> bool:
        """Never."""
        del levels
        return False

    def of_slices(self, levels: Levels, result: WorkloadResult, seen: Sequence[Observation]) -> tuple[Observation, ...]:
        """The new orders per minute: the slices' transactions, with the share of new orders in the client's whole
        run."""
        del levels, seen
        by_script: Mapping[int, int] = result.facts[COUNTED]
        if not (every := sum(by_script.values())):
            return ()
        tps = next(one.value for one in result.observations if one.metric == "tps")
        return (observe(_NEW_ORDERS, 60 * tps * by_script.get(_NEW_ORDER, 0) / every),)

    def violations(self, server: Server, levels: Levels) -> tuple[str, ...]:
        """The specification's consistency conditions (clause 3.3.2) that do not hold, each with its name."""
        del levels
        rows = server.connection.execute(_text("consistency.sql").encode()).fetchall()
        return tuple(f"consistency condition {row['clause']}, {row['what']}: {row['violations']}×" for row in rows)


def _by_transaction(by_script: dict[int, FinishedTransactions], seconds: float) -> Sequence[Observation]:
    """The new orders per minute, and the percentiles of each kind of transaction."""
    named = {name: by_script.get(number, FinishedTransactions()) for number, name in enumerate(MIX)}
    found = [observe(_NEW_ORDERS, len(named["new order"].latencies) / seconds * 60)]
    for name, finished in named.items():
        if name != _ROLLED_BACK:
            found += pgbench_log.percentiles_of(finished.latencies, name)
    return found


def count_scripts(lines: Iterable[str]) -> Counter[int]:
    """The successful transactions of lines of pgbench's log, by number of script.

    >>> count_scripts(["0 1 1234 0 1700000000 5 0", "1 1 900 2 1700000000 6 1", "0 2 failed 0 1700000000 7 9"])
    Counter({0: 1, 2: 1})
    """
    return Counter(int(found[2]) for line in lines if (found := pgbench_client.LOGGED.match(line)))


@contextmanager
def lent_scripts(server: Server, levels: Levels) -> Generator[list[str], None, None]:
    """pgbench's options for the scripts of the mix."""
    constants = {"warehouses": levels["scale"], "nurand_name": C_LAST, "nurand_customer": _C_ID, "nurand_item": _I_ID}
    texts = {name: _text(script) for name, (script, _) in MIX.items()}
    texts[_ROLLED_BACK] = _asking_for_nothing(texts[_ROLLED_BACK])
    weighted = [(texts[name], weight) for name, (_, weight) in MIX.items()]
    with pgbench_client.scripts(server, *weighted, **constants) as options:
        yield [f"--max-tries={_TRIES}", *options]


def _asking_for_nothing(new_order: str) -> str:
    assert "\\set unused 0\n" in new_order
    return new_order.replace("\\set unused 0\n", "\\set unused 1\n")


def _seed(server: Server, name: str) -> None:
    server.execute(f"SELECT setseed({random.Random(name).uniform(-1, 1)!r})")


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text()


WORKLOAD = TpccLike()
