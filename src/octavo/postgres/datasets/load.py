"""Making a load: an independent load of the data, stored without its WAL."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import psycopg

from octavo.errors import OctavoError
from octavo.host import kept, published, set_user_id, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import cache, control, disk_space, graft
from octavo.postgres.datasets.cache import Load
from octavo.postgres.datasets.spec import UNVACUUMED, Dataset, DatasetSpec, load_name
from octavo.units import parse_size

# PostgreSQL's own default, whatever the trials' segments are.
_WAL_SEGMENT = parse_size("16MB")
_MOST_WAL = parse_size("4GB")
# The size of a cluster without our tables.
_CLUSTER_BYTES = parse_size("64MB")
# Loading writes little WAL and does not wait for the disk: an interrupted load is discarded, a complete one is synced.
_SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": f"{_MOST_WAL // 1024**2}MB",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "maintenance_work_mem": "256MB",
    "autovacuum": "off",
}


def find_dataset(build: Build, spec: DatasetSpec, settings: Mapping[str, str]) -> Dataset | None:
    """The dataset, if its load is in the cache and complete. It is kept there while this process lives, unless
    `cache.release` is called."""
    load = cache.hold(load_name(build, spec, settings), wait=False)
    return None if load is None else _dataset(load, build, spec)


def ensure_dataset(
    build: Build,
    spec: DatasetSpec,
    fill: Callable[[Server], None],
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    *,
    database_bytes: int = 0,
    first: Dataset | None = None,
) -> Dataset:
    """The dataset, loaded now if it is not in the cache. It is kept there while this process lives.

    A load is made by the first build that asks for it, with that build's WAL block and segments of 16 MB; it serves
    every WAL geometry. It ends with VACUUM (FREEZE, ANALYZE), unless its contents say that it is unvacuumed, and a
    clean shutdown, so that no trial pays for hint bits or recovery. `database_bytes` is about how large the database
    will be: limit and disk are checked against it. With `first`, another load of the same contents, the load is a copy
    of it, vacuumed and analysed again, and `fill` is not called.
    Raises OctavoError when loading fails, HostError when there is no room.
    """
    name = load_name(build, spec, settings)
    while (load := cache.hold(name)) is None:
        with cache.exclusively(name):
            if cache.read_load(name) is None:
                _make(name, build, spec, fill, settings, journal, account, database_bytes, first)
    published.note_use(load.path)
    return _dataset(load, build, spec)


def load_bytes(database_bytes: int) -> int:
    """The approximate size of a load in the cache, for a database of this size."""
    return database_bytes + _CLUSTER_BYTES


def _dataset(load: Load, build: Build, spec: DatasetSpec) -> Dataset:
    return Dataset(load.name, load.path / "data", load.manifest, build, spec)


def _make(
    name: str,
    build: Build,
    spec: DatasetSpec,
    fill: Callable[[Server], None],
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    database_bytes: int,
    first: Dataset | None,
) -> None:
    size = load_bytes(database_bytes)
    # Besides the data there is WAL, up to its limit, and temporary files of index builds.
    removed = disk_space.make_room(name, size, size + min(size, _MOST_WAL), journal)
    with cache.unpublished(name, journal) as work:
        started = time.monotonic()
        data = work / "data"
        if first is None:
            cluster.initialise(build, data, journal, account, wal_segment=_WAL_SEGMENT, checksums=spec.checksums)
        else:
            graft.copy(replace(first, spec=replace(spec, wal_segment=_WAL_SEGMENT, recycled_wal=0)), data, journal)
        log = cache.log_path(name)
        with (
            set_user_id.none_left(account),
            cluster.start(build, data, {**settings, **_SETTINGS}, journal, account, log=log) as server,
        ):
            try:
                if first is None:
                    server.create_database()
                    fill(server)
                if UNVACUUMED not in spec.contents:
                    server.execute("VACUUM (FREEZE, ANALYZE)")
                size = server.query("size")[0]["bytes"]
                _check_tablespaces(server)
            except psycopg.OperationalError as error:  # the load has ended the server
                raise OctavoError(f"loading failed: {cluster.last_log_line(log)}; the server's log is {log}") from error
            server.shut_down()
        trees.check_plain(data, account)  # processes started by the load's SQL have ended by now
        if spec.checksums:
            cluster.check_blocks(build, data, journal, account)
        counters = control.read(build, data, journal, account)
        # The files that depend on the load's own geometry: its copies get their own.
        trees.remove_inside(data, ["pg_wal", "global/pg_control", "postmaster.opts"], journal, account)
        kept.keep(data, account)
        trees.sync(data)
        allocated = trees.allocated_bytes(data)
        removed += disk_space.make_room(name, allocated, 0, journal, made=True)  # its size is known now
        manifest: dict[str, Any] = {
            **{fact: build.manifest[fact] for fact in ("version", "data_block")},
            "build": build.name,
            "contents": dict(spec.contents),
            "checksums": spec.checksums,
            "load": spec.load,
            "copied_from": None if first is None else first.name,
            "database_bytes": size,
            "directory_bytes": allocated,
            "seconds": time.monotonic() - started,
            "checked": "pg_checksums" if spec.checksums else "no checksums",
            "removed_for_room": removed,
            "counters": asdict(counters),
        }
        published.publish(work, cache.datasets_directory() / name, manifest)


def _check_tablespaces(server: Server) -> None:
    """Raises OctavoError when the data has its own tablespace: it is in another directory, and copies would share
    it."""
    own = "SELECT FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global')"
    if server.connection.execute(own).fetchone() is not None:
        raise OctavoError("the data has a tablespace, which datasets do not support; use pg_dump --no-tablespaces")
