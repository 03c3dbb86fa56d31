"""Migration by logical replication: initial copy, catching up while the source writes, switchover; timed."""

import time

from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.sandbox import DURABLE, Sandbox, first, wait_for
from octavo.postgres.cluster import DATABASE, SUPERUSER, Server

_LOAD_PER_SECOND = 200
_MB = 1024**2

# Logical replication does not carry sequences over (PostgreSQL's documentation, "Restrictions"): the switchover does.
_SEQUENCES = """
    SELECT format('SELECT setval(%L, %s, true)', format('%I.%I', schemaname, sequencename), last_value) AS statement
    FROM pg_sequences WHERE last_value IS NOT NULL
"""
_NOT_COPIED = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"


def _check(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_data_block()
    size = sandbox.filled(other).database_bytes
    with (
        sandbox.serve(sandbox.copy("source", other), other, DURABLE) as source,
        sandbox.serve(sandbox.empty("target"), settings=DURABLE) as target,
    ):
        _copy_schema(sandbox, source, target)
        source.execute("CREATE PUBLICATION over FOR ALL TABLES")
        with sandbox.load(source, _LOAD_PER_SECOND):
            started = time.monotonic()
            connection = f"host={source.socket_directory} user={SUPERUSER} dbname={DATABASE}"
            target.execute(f"CREATE SUBSCRIPTION over CONNECTION '{connection}' PUBLICATION over")
            wait_for("the initial copy", lambda: first(target, _NOT_COPIED) == 0)
            copy_seconds = time.monotonic() - started
            catch_up_seconds = _catch_up(source)
        # The application has been stopped: from here to the first write on the target it is down.
        stopped = time.monotonic()
        contents.write(source, 2)
        _catch_up(source)
        for row in source.connection.execute(_SEQUENCES.encode()).fetchall():
            target.execute(row["statement"])
        target.execute("DROP SUBSCRIPTION over")
        switchover_seconds = time.monotonic() - stopped
        expected = contents.read(source)
        same = contents.check_same(expected, contents.read(target), "the subscriber")
        contents.write(target, 200)  # takes the next value of a sequence
    return OperationEvidence(
        f"{other.manifest['data_block']} to {sandbox.build.manifest['data_block']} data blocks while the source wrote "
        f"{_LOAD_PER_SECOND}/s: {size / _MB:.0f} MB copied in {copy_seconds:.1f} s ({size / _MB / copy_seconds:.0f} "
        f"MB/s), caught up in {catch_up_seconds:.2f} s, switched over in {switchover_seconds:.2f} s; {same}",
        {
            "database_bytes": size,
            "copy_seconds": copy_seconds,
            "catch_up_seconds": catch_up_seconds,
            "switchover_seconds": switchover_seconds,
        },
    )


def _copy_schema(sandbox: Sandbox, source: Server, target: Server) -> None:
    """The tables with their keys: logical replication copies rows only."""
    target.create_database()
    schema = sandbox.work_directory / "schema.sql"
    children.check(source.run_client("pg_dump", "--schema-only", "--file", str(schema)), "pg_dump --schema-only")
    children.check(
        target.run_client("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file", str(schema)), "psql"
    )


def _catch_up(source: Server) -> float:
    """Waits until the subscriber has confirmed all that the source has written by now. Returns the seconds."""
    written = first(source, "SELECT pg_current_wal_lsn()::text")
    return wait_for(
        "the subscriber to catch up",
        lambda: first(
            source, "SELECT bool_and(confirmed_flush_lsn >= %s) FROM pg_replication_slots WHERE active", written
        ),
    )


OPERATION = Operation("logical replication, to this data block", _check)
