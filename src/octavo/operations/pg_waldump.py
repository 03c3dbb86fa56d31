"""pg_waldump: the WAL of known transactions is read back, and WAL with another block size is refused."""

from octavo.errors import OctavoError
from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.program_output import last_line
from octavo.operations.sandbox import Sandbox, first
from octavo.postgres.cluster import Server

_TRANSACTIONS = 400


def _check(sandbox: Sandbox) -> OperationEvidence:
    data = sandbox.copy("data")
    with sandbox.serve(data) as server:
        start, end = _write(server)
        segments = [data / "pg_wal" / _segment(server, position) for position in (start, end)]
        finished = children.check(
            sandbox.run(sandbox.build, "pg_waldump", "--start", start, "--end", end, *segments),
            "pg_waldump",
        )
    records = finished.stdout.splitlines()
    commits = sum("desc: COMMIT " in record for record in records)
    if commits != _TRANSACTIONS + 1:  # and that of the document
        raise OctavoError(
            f"pg_waldump shows {commits} commits instead of {_TRANSACTIONS + 1} between {start} and {end}"
        )
    return OperationEvidence(
        f"{len(records):,} records from {start} to {end}, with all {commits} commits",
        {"records": len(records)},
    )


def _write(server: Server) -> tuple[str, str]:
    """Writes transactions. Returns where their WAL begins and ends."""
    server.execute("CHECKPOINT")
    start: str = first(server, "SELECT pg_current_wal_insert_lsn()::text")
    contents.write(server, _TRANSACTIONS)
    end: str = first(server, "SELECT pg_current_wal_insert_lsn()::text")
    return start, end


def _segment(server: Server, position: str) -> str:
    name: str = first(server, "SELECT pg_walfile_name(%s)", position)
    return name


def _check_other(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_wal_block()
    data = sandbox.copy("other", other)
    with sandbox.serve(data, other) as server:
        path = data / "pg_wal" / _segment(server, _write(server)[0])
        children.check(sandbox.run(other, "pg_waldump", "--quiet", "--limit=100", path), "its own pg_waldump")
        finished = sandbox.run(sandbox.build, "pg_waldump", path)
    if finished.returncode == 0 or finished.stdout.strip():
        raise OctavoError(f"pg_waldump read WAL in blocks of {other.manifest['wal_block']} as if they were its own")
    return OperationEvidence(f"WAL in blocks of {other.manifest['wal_block']}: {last_line(finished)}")


OPERATION = Operation("pg_waldump", _check)
OF_ANOTHER_WAL_BLOCK = Operation("pg_waldump, another WAL block", _check_other)
