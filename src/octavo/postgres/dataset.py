"""Datasets: one independent build-up of the data per build, contents and load; kept pristine, copied for trials."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home, sync_directory, write_durably
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import human_size

# Raised when the way a load is made changes, so that old loads are not compared with new ones.
_RECIPE = 1
# Loading writes little WAL.
_LOAD_SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "maintenance_work_mem": "256MB",
    "autovacuum": "off",
}


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What a dataset depends on, beside its build: the workload's contents, the cluster's options, the load number.

    `wal_segment` and `recycled_wal` (WAL in segments that are ready for reuse) are in bytes.
    """

    contents: tuple[tuple[str, str], ...]
    wal_segment: int
    recycled_wal: int
    checksums: bool
    load: int

    @property
    def recycled_segments(self) -> int:
        """How many segments a load leaves ready for reuse; min_wal_size allows no fewer than two."""
        return max(2, self.recycled_wal // self.wal_segment)

    @property
    def recycled_bytes(self) -> int:
        """The same in bytes of WAL."""
        return self.recycled_segments * self.wal_segment


@dataclass(frozen=True, slots=True)
class Dataset:
    """A finished dataset: a data directory that was shut down cleanly, and what is known of it."""

    directory: Path
    manifest: dict[str, Any]


def datasets_directory() -> Path:
    """Where datasets live."""
    return octavo_home() / "datasets"


def find_dataset(build: Build, spec: DatasetSpec, settings: Mapping[str, str]) -> Dataset | None:
    """The dataset when it is in the cache and complete."""
    path = _place(build, spec, settings)
    try:
        return Dataset(path / "data", json.loads((path / "manifest.json").read_text()))
    except (FileNotFoundError, ValueError):
        return None


def ensure_dataset(
    build: Build,
    spec: DatasetSpec,
    fill: Callable[[Server], None],
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
) -> Dataset:
    """The dataset, loaded now if the cache does not have it.

    A load ends with VACUUM (FREEZE, ANALYZE) and a clean shutdown, so that no trial pays for hint bits
    or recovery. Raises OctavoError when loading fails, HostError when the disk is full.
    """
    path = _place(build, spec, settings)
    make_directory(path.parent)
    log = path.with_name(f"{path.name}.log")
    used = {
        **settings,
        **_LOAD_SETTINGS,
        "min_wal_size": f"{spec.recycled_bytes // 1024**2}MB",
    }
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := find_dataset(build, spec, settings):
            return found
        shutil.rmtree(path, ignore_errors=True)  # one that cannot be read
        work = path.with_name(f".{path.name}-{journal.token[:8]}")
        entry = journal.record("directory", path=str(work))
        make_directory(work)
        started = time.monotonic()
        data = work / "data"
        cluster.initialise(build, data, journal, account, wal_segment=spec.wal_segment, checksums=spec.checksums)
        with cluster.start(build, data, used, journal, account, log=log) as server:
            with server.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            fill(server)
            server.execute("VACUUM (FREEZE, ANALYZE)")
            size = server.query("size")[0]["bytes"]
            _leave_recycled_segments(server, spec.recycled_segments)
            server.shut_down()
        manifest = {
            "build": build.name,
            "contents": dict(spec.contents),
            "load": spec.load,
            "database_bytes": size,
            "directory_bytes": _directory_size(data),
            "seconds": time.monotonic() - started,
        }
        _sync(data)
        write_durably(work / "manifest.json", json.dumps(manifest))
        work.rename(path)
        sync_directory(path.parent)
        journal.done(entry)
        return Dataset(path / "data", manifest)


def copy(dataset: Dataset, target: Path, journal: Journal) -> None:
    """Makes a pristine copy that shares no block with the dataset, on disk and out of the page cache.

    No reflink: what copy-on-write costs depends on the block size. Raises HostError when there is no room.
    """
    needed = dataset.manifest["directory_bytes"]
    free = shutil.disk_usage(target.parent).free
    if free < needed * 1.1:
        raise HostError(f"{target.parent} has {human_size(free)} free, a trial needs {human_size(needed * 1.1)}")
    children.check(
        children.run(["cp", "-a", "-T", "--reflink=never", dataset.directory, target], journal, role="copy"),
        "copying the dataset",
    )
    _sync(target)
    for tree in (target, dataset.directory):
        _forget(tree)


def _leave_recycled_segments(server: Server, segments: int) -> None:
    """Leaves the same supply of recycled WAL segments in every load, whatever WAL its blocks took.

    A trial that runs out of them creates new ones, filled with zeros and synced, which a server in
    production has long behind it; unequal supplies would charge that to one cell alone.
    """
    for _ in range(segments):
        server.query("next_segment")
    server.execute("CHECKPOINT")


def _place(build: Build, spec: DatasetSpec, settings: Mapping[str, str]) -> Path:
    facts = {
        "recipe": _RECIPE, "settings": dict(settings), "contents": spec.contents,
        "wal_segment": spec.wal_segment, "recycled_wal": spec.recycled_wal, "checksums": spec.checksums,
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    return datasets_directory() / f"{build.name}-{key}" / f"load-{spec.load}"


def _sync(tree: Path) -> None:
    """Writes back every file and directory of the tree, so that no trial pays for the copy."""
    for path in (tree, *tree.rglob("*")):
        if path.is_dir():
            sync_directory(path)
        elif path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _forget(tree: Path) -> None:
    """Drops the tree's clean pages from the page cache (posix_fadvise(2)); works without root, unlike drop_caches."""
    for path in tree.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _directory_size(tree: Path) -> int:
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
