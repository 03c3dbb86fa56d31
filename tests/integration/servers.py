"""Clusters for tests: small, in the session's state directory, removed at the end."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.home import make_directory, octavo_home
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server

MB = 1024**2


@contextmanager
def data_directory(build: Build, journal: Journal, account: Account, name: str = "test") -> Generator[Path, None, None]:
    """An initialised cluster with the laboratory's database; concurrent ones need different names."""
    path = make_directory(octavo_home() / "scratch" / name) / "data"
    try:
        cluster.initialise(build, path, journal, account, wal_segment=16 * MB, checksums=True)
        yield path
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


@contextmanager
def running(
    build: Build, path: Path, journal: Journal, account: Account, **settings: str
) -> Generator[Server, None, None]:
    """A server on the data directory, with the database that clients connect to."""
    with cluster.start(build, path, settings, journal, account, log=path.with_name("server.log")) as server:
        with server.connect("postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'octavo'").fetchone():
                connection.execute("CREATE DATABASE octavo")
        yield server
