"""The smoke test of a build: initdb, start, report its sizes, run pgbench, shut down, pass pg_checksums."""

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.scratch import build_test
from octavo.units import parse_size

_WAL_SEGMENT = 16 * 1024**2
_TRANSACTIONS = 200
_CLIENTS = 2


def smoke_test(build: Build, journal: Journal, account: Account) -> None:
    """Raises OctavoError with the step that failed, HostError when the disk is full. Leaves nothing behind."""
    with build_test(build, "smoke test", journal) as work:
        data = work / "data"
        cluster.initialise(build, data, journal, account, wal_segment=_WAL_SEGMENT, checksums=True)
        with cluster.start(build, data, {}, journal, account, log=work / "server.log") as server:
            server.create_database()
            _check_sizes(build, server.settings())
            children.check(server.run_client("pgbench", "--initialize", "--quiet"), "pgbench --initialize")
            ran = server.run_client("pgbench", f"--client={_CLIENTS}", f"--transactions={_TRANSACTIONS}")
            if f"processed: {_CLIENTS * _TRANSACTIONS}/{_CLIENTS * _TRANSACTIONS}" not in ran.stdout:
                raise OctavoError(f"pgbench did not run all its transactions: {ran.stderr.strip()}")
            server.shut_down()
        cluster.check_blocks(build, data, journal, account)


def _check_sizes(build: Build, settings: dict[str, str]) -> None:
    """Compares the sizes that the server reports (its preset options) with the requested ones."""
    asked = tuple(parse_size(build.manifest[name]) for name in ("data_block", "wal_block", "data_segment"))
    lines = (int(settings["block_size"]), int(settings["wal_block_size"]), parse_size(settings["segment_size"]))
    if lines != asked:
        raise OctavoError(f"the server reports other sizes than requested: {lines} and not {asked} bytes")
