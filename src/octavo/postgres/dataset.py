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
from octavo.home import make_directory, octavo_home
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.build import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import human_size


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What a dataset depends on, beside its build: the workload's contents, the cluster's options, the load number."""

    contents: tuple[tuple[str, str], ...]
    wal_segment: int
    checksums: bool
    load: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """A finished dataset: a data directory that was shut down cleanly, and what is known of it."""

    directory: Path
    manifest: dict[str, Any]


def datasets_directory() -> Path:
    """Where datasets live."""
    return octavo_home() / "datasets"


def find_dataset(build: Build, spec: DatasetSpec) -> Dataset | None:
    """The dataset when it is in the cache and complete."""
    path = _place(build, spec)
    try:
        return Dataset(path / "data", json.loads((path / "manifest.json").read_text()))
    except FileNotFoundError:
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
    path = _place(build, spec)
    make_directory(path.parent)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := find_dataset(build, spec):
            return found
        shutil.rmtree(path, ignore_errors=True)
        entry = journal.record("directory", path=str(path))
        make_directory(path)
        started = time.monotonic()
        data = path / "data"
        cluster.initialise(build, data, journal, account, wal_segment=spec.wal_segment, checksums=spec.checksums)
        with cluster.start(build, data, settings, journal, account, log=path / "load.log") as server:
            with server.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            fill(server)
            server.execute("VACUUM (FREEZE, ANALYZE)")
            size = server.query("size")[0]["bytes"]
            server.stop("fast")
        manifest = {
            "build": build.name,
            "contents": dict(spec.contents),
            "load": spec.load,
            "database_bytes": size,
            "directory_bytes": _directory_size(data),
            "seconds": time.monotonic() - started,
        }
        _sync(data)
        (path / "manifest.json").write_text(json.dumps(manifest))
        journal.done(entry)
        return Dataset(data, manifest)


def copy(dataset: Dataset, target: Path, journal: Journal) -> None:
    """Makes a pristine copy that shares no block with the dataset, on disk and out of the page cache.

    No reflink: what copy-on-write costs depends on the block size. Raises HostError when there is no room.
    """
    needed = dataset.manifest["directory_bytes"]
    free = shutil.disk_usage(target.parent).free
    if free < needed * 1.1:
        raise HostError(f"{target.parent} has {human_size(free)} free, a trial needs {human_size(needed * 1.1)}")
    children.check(
        children.run(["cp", "-a", "--reflink=never", dataset.directory, target], journal, role="copy"),
        "copying the dataset",
    )
    _sync(target)
    for tree in (target, dataset.directory):
        _forget(tree)


def _place(build: Build, spec: DatasetSpec) -> Path:
    facts = {"contents": spec.contents, "wal_segment": spec.wal_segment, "checksums": spec.checksums}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    return datasets_directory() / f"{build.name}-{key}" / f"load-{spec.load}"


def _sync(tree: Path) -> None:
    """Writes back every file of the tree, so that no trial pays for the copy."""
    for path in tree.rglob("*"):
        if path.is_file():
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
