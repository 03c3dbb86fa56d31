"""A streaming replica of a primary that writes: it catches up and is promoted; the old primary is rewound to follow
it."""

from contextlib import ExitStack
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.sandbox import Sandbox, first, wait_for
from octavo.postgres.cluster import Server

_LOAD_PER_SECOND = 400


def _check(sandbox: Sandbox) -> OperationEvidence:
    with sandbox.serve(sandbox.copy("primary")) as primary, ExitStack() as running:
        with sandbox.load(primary, _LOAD_PER_SECOND):
            replica = running.enter_context(_replica_of(sandbox, primary))
        seconds = catch_up(primary, replica)
        expected = contents.read(primary)
        same = contents.check_same(expected, contents.read(replica), "the replica")
        if first(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != 1:
            raise OctavoError("the primary's pg_stat_replication has no streaming replica")
        promote(replica)
        contents.write(replica, 200)
    return OperationEvidence(
        f"made while the primary wrote {_LOAD_PER_SECOND}/s, caught up in {seconds:.2f} s: {same}; promoted, writes",
        {"catch_up_seconds": seconds},
    )


def _check_rewind(sandbox: Sandbox) -> OperationEvidence:
    data = sandbox.copy("primary")
    with sandbox.serve(data) as primary, _replica_of(sandbox, primary) as replica:
        catch_up(primary, replica)
        promote(replica)
        contents.write(replica, 200)
        contents.write(primary, 200)  # what only the old primary has: it must go
        primary.shut_down()
        replica.execute("CHECKPOINT; SELECT pg_create_physical_replication_slot('replica')")
        source = f"host={replica.socket_directory} user={replica.connection.info.user} dbname=octavo"
        children.check(
            sandbox.run(
                sandbox.build, "pg_rewind", "--no-sync", "--target-pgdata", data,
                "--source-server", source, "--write-recovery-conf",
            ),
            "pg_rewind",
        )  # fmt: skip
        with sandbox.serve(data) as follower:
            catch_up(replica, follower)
            same = contents.check_same(contents.read(replica), contents.read(follower), "the rewound server")
    return OperationEvidence(f"the old primary, with writes of its own, follows the promoted replica: {same}")


def _replica_of(sandbox: Sandbox, primary: Server) -> Server:
    """A hot standby of the primary, made by pg_basebackup with a slot, so that no WAL is missing."""
    directory: Path = sandbox.work_directory / "replica"
    children.check(
        primary.run_client(
            "pg_basebackup", "--checkpoint=fast", "--no-sync", "--pgdata", str(directory),
            "--write-recovery-conf", "--create-slot", "--slot=replica",
        ),
        "pg_basebackup",
    )  # fmt: skip
    return sandbox.serve(directory)


def catch_up(primary: Server, replica: Server) -> float:
    """Waits until the replica has replayed all that the primary has written by now. Returns the seconds."""
    # Where the next record begins may lie behind a page's header, which no replica reaches before there is one.
    written = first(primary, "SELECT pg_current_wal_flush_lsn()::text")
    return wait_for(
        "the replica to catch up",
        lambda: first(replica, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written),
    )


def promote(replica: Server) -> None:
    """Makes the replica a primary. Raises OctavoError when it stays one."""
    if not first(replica, "SELECT pg_promote(true, 60)"):
        raise OctavoError("the replica was not promoted within 60 s")


OPERATION = Operation("streaming replica", _check)
REWIND = Operation("pg_rewind", _check_rewind)
