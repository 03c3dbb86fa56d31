"""A DBA's operations on servers of a block size. A new one is a file here and a line in the table."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from octavo.errors import HostError, OctavoError
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.operations import (
    base_backup,
    dump_restore,
    logical_replication,
    pg_amcheck,
    pg_checksums,
    pg_upgrade,
    pg_waldump,
    point_in_time,
    refused,
    streaming_replica,
)
from octavo.operations.base import Operation, OperationOutcome
from octavo.operations.related_builds import Skip, choose
from octavo.operations.sandbox import Sandbox, prepared
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import without_log
from octavo.postgres.scratch import is_full

# What works at every size, what another size is refused, migration.
OPERATIONS: tuple[Operation, ...] = (
    pg_checksums.OPERATION,
    pg_amcheck.OPERATION,
    pg_waldump.OPERATION,
    base_backup.OPERATION,
    base_backup.INCREMENTAL,
    streaming_replica.OPERATION,
    streaming_replica.REWIND,
    point_in_time.OPERATION,
    pg_upgrade.NEW_PROGRAMS,
    pg_upgrade.SAME_MAJOR,
    pg_upgrade.OLDER_MAJOR,
    refused.DATA_BLOCK,
    refused.WAL_BLOCK,
    refused.BACKUP,
    refused.REPLICA,
    pg_waldump.OF_ANOTHER_WAL_BLOCK,
    pg_upgrade.OF_ANOTHER_DATA_BLOCK,
    dump_restore.TO,
    dump_restore.BACK,
    logical_replication.OPERATION,
)
SCALE = 2


@dataclass(frozen=True, slots=True)
class OperationsReport:
    """The results of operations with a build, in the table's order."""

    build: Build
    outcomes: tuple[OperationOutcome, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed; skipped operations do not count."""
        return all(outcome.result != "failed" for outcome in self.outcomes)


def check_operations(
    build: Build,
    others: Sequence[Build],
    journal: Journal,
    *,
    on_outcome: Callable[[OperationOutcome], None] = lambda outcome: None,
    operations: Sequence[Operation] = OPERATIONS,
    scale: int = SCALE,
) -> OperationsReport:
    """Tries the operations on real servers of a build; its related builds are chosen among the other builds.

    `scale` is pgbench's, with 200 documents each. An operation that goes wrong is an outcome, not an error.
    Raises HostError when this host cannot run servers or its disk has no room.
    """
    outcomes: list[OperationOutcome] = []
    with prepared(build, choose(build, others), journal, server_account(), scale) as sandbox:
        sandbox.filled()
        for number, operation in enumerate(operations):
            outcomes.append(_try(operation, sandbox, number))
            on_outcome(outcomes[-1])
    return OperationsReport(build, tuple(outcomes))


def _try(operation: Operation, sandbox: Sandbox, number: int) -> OperationOutcome:
    started, full = time.monotonic(), False
    try:
        with sandbox.operation(number):
            try:
                evidence = operation.check(sandbox)
            except (OctavoError, psycopg.Error) as error:
                full = is_full(str(error), sandbox.root)  # before the operation's files are removed
                raise
    except Skip as skip:
        return OperationOutcome(operation.name, "skipped", time.monotonic() - started, str(skip))
    except (OctavoError, psycopg.Error) as error:
        # The server's log goes with the operation's place, so it is not named.
        text = without_log(error).strip().splitlines()
        reason = text[0] if text else "no output"
        if full:
            raise HostError(
                f"{sandbox.root.parent} has no room left for {operation.name} ({reason}); free some space there, then "
                "run the command again"
            ) from error
        return OperationOutcome(operation.name, "failed", time.monotonic() - started, reason)
    return OperationOutcome(operation.name, "ok", time.monotonic() - started, evidence.text, evidence.figures)
