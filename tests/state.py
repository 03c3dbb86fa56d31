"""The tests' state directories: each process has its own, and shares with the others what takes minutes to make."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.home import make_directory, octavo_home
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.worker_client import COMPILER_CACHE, compiler_caches

# Builds are separate from a user's, who installs extensions in his.
_SHARED = {"builds": "tests/builds", "sources": "sources"}

DATA_BLOCKS = ("8kB", "4kB", "32kB")
# Other builds that some tests need: seconds in the same tree, minutes when made alone.
_OTHER_WAL = (("8kB", "32kB"), ("4kB", "16kB"))


@contextmanager
def shared_state() -> Generator[Path, None, None]:
    """OCTAVO_HOME for this process, removed at the end except for what the next process uses."""
    machine = octavo_home()
    # Not below pytest's own directory, which the servers' user may not enter.
    directory = Path(tempfile.mkdtemp(prefix="octavo-test-", dir="/var/tmp"))
    directory.chmod(0o755)
    for name, place in _SHARED.items():
        (directory / name).symlink_to(make_directory(machine / place))
    (directory / COMPILER_CACHE).symlink_to(compiler_caches(machine / "tests"))
    before = os.environ.get("OCTAVO_HOME")
    os.environ["OCTAVO_HOME"] = str(directory)
    try:
        yield directory
    finally:
        if before is None:
            del os.environ["OCTAVO_HOME"]
        else:
            os.environ["OCTAVO_HOME"] = before
        shutil.rmtree(directory)


def shared_builds(journal: Journal) -> dict[str, Build]:
    """18 at a smaller, the default and a larger data block, made in one tree if they are not cached."""
    sizes = [*((size, "8kB") for size in DATA_BLOCKS), *_OTHER_WAL]
    made = ensure_builds([BuildSpec("18", data, wal) for data, wal in sizes], journal)
    return dict(zip(DATA_BLOCKS, made, strict=False))
