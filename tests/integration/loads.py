"""Loads for tests: made, copied, and served as in a trial."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.servers import MB

from octavo.home import make_directory, octavo_home
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import graft
from octavo.postgres.datasets import load as loading
from octavo.postgres.datasets.spec import Dataset, DatasetSpec
from octavo.postgres.pinned import pinned_settings
from octavo.workloads.base import Levels, Workload

RUN = {"mode": "read-write", "clients": "2", "duration": "1s", "rate": "none", "protocol": "prepared"}
SMALL = {**RUN, "scale": "2", "age": "packed"}


def spec_of(
    workload: Workload, levels: Levels, *, segment: int = 16, load: int = 1, checksums: bool = True
) -> DatasetSpec:
    return DatasetSpec(workload.contents(levels), segment * MB, 4 * segment * MB, checksums, load)


def settings_of(build: Build) -> dict[str, str]:
    return pinned_settings(build.manifest["version"], build.manifest["data_block"])


def ensure(
    build: Build,
    workload: Workload,
    levels: Levels,
    journal: Journal,
    account: Account,
    spec: DatasetSpec | None = None,
) -> Dataset:
    spec = spec or spec_of(workload, levels)
    return loading.ensure_dataset(
        build, spec, lambda server: workload.fill(server, levels, spec.load), settings_of(build), journal, account
    )


@contextmanager
def copied(made: Dataset, journal: Journal) -> Generator[Path, None, None]:
    target = make_directory(octavo_home() / "scratch") / "copy"
    try:
        graft.copy(made, target, journal)
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)
        target.with_name("copy.log").unlink(missing_ok=True)


@contextmanager
def serving(made: Dataset, journal: Journal, account: Account) -> Generator[Server, None, None]:
    """A server on a copy of the dataset, with a trial's settings."""
    settings = {
        **settings_of(made.build),
        "min_wal_size": f"{made.spec.recycled_bytes // MB}MB",
        "max_wal_size": f"{2 * made.spec.recycled_bytes // MB}MB",
        "autovacuum": "off",
    }
    with (
        copied(made, journal) as data,
        cluster.start(made.build, data, settings, journal, account, log=data.with_name("copy.log")) as server,
    ):
        yield server


def row(server: Server, query: str) -> dict[str, Any]:
    found = server.connection.execute(query.encode()).fetchone()
    assert found is not None
    return found
