"""The workloads with which octavo predict is validated, on one server: their tables, and pgbench's options for each.

Used by benchmarks/prediction_traces.py (which records them) and benchmarks/predict_counts.py (which counts them).
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from octavo.postgres.cluster import DATABASE, Server
from octavo.workloads import tpcc_like
from octavo.workloads.tpch import generator, schema

PGBENCH = {"read-only": ("-S",), "read-write": ("-N",), "tpcb": ("-b", "tpcb-like")}
# Four lookups in five, and an update, of accounts that a permutation spreads over the table.
SKEWED = r"""\set rank random_zipfian(1, 100000 * :scale, 1.05)
\set aid permute(:rank - 1, 100000 * :scale, 42) + 1
\set what random(1, 5)
\if :what < 5
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\else
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
\endif
"""
# TPC-H's query 6: a scan of the largest table. Its plan is the same at every page size, as there is no index.
SCAN = """SELECT sum(l_extendedprice * l_discount) FROM lineitem
WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07
AND l_quantity < 24;
"""
NAMES = (*PGBENCH, "skewed", "tpcc", "tpch")
_WAREHOUSES = {"scale": "1"}
_SCRIPTS = {"skewed": SKEWED, "tpch": SCAN}


def fill(server: Server, names: Sequence[str], scale: int, scan_scale: str = "0.01") -> None:
    """Creates the tables of these workloads, vacuumed. Raises OctavoError if one cannot be made."""
    with server.connect("postgres") as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    if {*PGBENCH, "skewed"} & set(names):
        server.run_client("pgbench", "--initialize", "--quiet", f"--scale={scale}", DATABASE)
    if "tpcc" in names:
        tpcc_like.WORKLOAD.fill(server, _WAREHOUSES)
    if "tpch" in names:
        with (
            generator.lent_program(server) as program,
            generator.stream(server, program, ["lineitem"], scan_scale) as rows,
            server.connect(DATABASE) as connection,
        ):
            connection.execute(f"CREATE TABLE lineitem ({schema.TABLES['lineitem']})".encode())
            generator.copy_rows(connection, rows)
    server.disconnect()
    with server.connect(DATABASE) as connection:
        connection.execute("VACUUM (FREEZE, ANALYZE)")


@contextmanager
def script(server: Server, name: str) -> Generator[list[str], None, None]:
    """pgbench's options for a workload."""
    if name in PGBENCH:
        yield list(PGBENCH[name])
    elif name == "tpcc":
        with tpcc_like.lent_scripts(server, _WAREHOUSES) as options:
            yield options
    else:
        path = server.socket_directory / f"{name}.sql"
        path.write_text(_SCRIPTS[name])
        path.chmod(0o644)
        yield ["-f", str(path)]
