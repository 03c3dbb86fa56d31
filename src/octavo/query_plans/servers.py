"""Servers at each block size with the same rows, all up at once, so that what is compared runs by turns."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE
from octavo.postgres.scratch import scratch_server
from octavo.query_plans.statistics import carry
from octavo.query_plans.table import BlockSizeServer, Tell
from octavo.text import one_line
from octavo.units import parse_size
from octavo.workloads.base import Workload

# Rows and indexes are read once into shared buffers or the page cache; nothing else writes.
_SETTINGS = {
    "autovacuum": "off", "fsync": "off", "wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "16GB",
    "checkpoint_timeout": "1h", "effective_cache_size": "4GB",
}  # fmt: skip


@contextmanager
def servers(
    builds: Sequence[Build],
    workload: Workload,
    levels: Mapping[str, str],
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    tell: Tell,
    *,
    one_statistics: bool,
) -> Generator[list[BlockSizeServer], None, None]:
    """A server for each build, its data those of the workload at these levels; all is gone at the end.

    With `one_statistics` all have the statistics of the first. Raises OctavoError.
    """
    with ExitStack() as stack:
        found: list[BlockSizeServer] = []
        for build in builds:
            size = build.manifest["data_block"]
            tell(f"data block {size}: loading")
            connection = stack.enter_context(loaded(build, workload, levels, settings, journal, account))
            found.append(BlockSizeServer(parse_size(size), connection))
        if one_statistics:
            try:
                for other in found[1:]:
                    carry(found[0].connection, other.connection)
            except psycopg.Error as error:
                raise OctavoError(f"the server refuses the statistics: {one_line(error)}") from error
        yield found


@contextmanager
def loaded(
    build: Build,
    workload: Workload,
    levels: Mapping[str, str],
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
) -> Generator[Connection[DictRow], None, None]:
    """A connection to a server of this build with the workload's data, loaded now; all is gone at the end.

    Raises OctavoError.
    """
    with scratch_server(build, journal, account, {**_SETTINGS, **settings}) as server:
        try:
            with server.connect("postgres") as first:
                first.execute(f"CREATE DATABASE {DATABASE}".encode())
            workload.fill(server, {**levels, "data_block": build.manifest["data_block"]})
            server.execute("VACUUM (FREEZE, ANALYZE)")
            server.execute("CHECKPOINT")
        except psycopg.Error as error:  # such as a full disk
            raise OctavoError(f"loading failed: {one_line(error)}") from error
        server.disconnect()
        with server.connect(DATABASE) as connection:
            yield connection
