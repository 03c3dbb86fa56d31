"""Physical copies of another size: a data directory, a base backup, a replica. None may start; checks how each is
refused."""

from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.safe_read import read_tail
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.sandbox import Sandbox, wait_for
from octavo.postgres.cluster import SUPERUSER, Server

_REFUSAL = "database files are incompatible with server"
_ANOTHER_CLUSTER = "database system identifier differs between the primary and standby"
_PATIENCE_SECONDS = 60.0


def _check_data_block(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_data_block()
    refusal = _incompatible(sandbox.refusal(sandbox.empty("other", other)))
    return OperationEvidence(f"of {other.manifest['data_block']} data blocks: {refusal}")


def _check_wal_block(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_wal_block()
    refusal = _incompatible(sandbox.refusal(sandbox.empty("other", other)))
    return OperationEvidence(f"of {other.manifest['wal_block']} WAL blocks: {refusal}")


def _check_backup(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_data_block()
    with sandbox.serve(sandbox.empty("primary", other), other) as primary:
        backup = _take_backup(sandbox, primary, "backup")
    refusal = _incompatible(sandbox.refusal(backup))
    return OperationEvidence(
        f"our pg_basebackup takes it from {other.manifest['data_block']} data blocks; its start: {refusal}"
    )


def _check_replica(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_data_block()
    with sandbox.serve(sandbox.empty("primary", other), other) as primary:
        copied = _take_backup(sandbox, primary, "copied", "--write-recovery-conf")
        refusal = _incompatible(sandbox.refusal(copied))
        own = sandbox.empty("own")
        sandbox.act("touch", own / "standby.signal")
        source = f"host={primary.socket_directory} user={SUPERUSER}"
        with sandbox.serve(own, settings={"primary_conninfo": source}):
            wait_for(
                "the replica's complaint",
                lambda: _ANOTHER_CLUSTER in read_tail(sandbox.log_of(own)),
                _PATIENCE_SECONDS,
            )
    return OperationEvidence(
        f"of {other.manifest['data_block']} data blocks: {refusal} A cluster of its own as replica: "
        f"FATAL: {_ANOTHER_CLUSTER}"
    )


def _take_backup(sandbox: Sandbox, primary: Server, name: str, *options: str) -> Path:
    """A base backup taken with this build's pg_basebackup, for which the server's block size is nothing to check."""
    backup = sandbox.work_directory / name
    finished = children.run(
        [sandbox.build.program("pg_basebackup"), "--checkpoint=fast", "--no-sync", "--pgdata", backup, *options],
        sandbox.journal, role="pg_basebackup", account=sandbox.account, directory=sandbox.work_directory,
        environment={**primary.client_environment(), "PGDATABASE": "postgres"},
    )  # fmt: skip
    children.check(finished, "pg_basebackup")
    return backup


def _incompatible(refusal: str) -> str:
    """The refusal, when it is one of an incompatible size. Raises OctavoError when it is another one."""
    if _REFUSAL not in refusal:
        raise OctavoError(f"refused for another reason: {refusal}")
    return refusal


DATA_BLOCK = Operation("data directory, another data block", _check_data_block)
WAL_BLOCK = Operation("data directory, another WAL block", _check_wal_block)
BACKUP = Operation("base backup, another data block", _check_backup)
REPLICA = Operation("streaming replica, another data block", _check_replica)
