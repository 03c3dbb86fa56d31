import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.home import make_directory
from octavo.host.journal import Journal, recover
from octavo.hugepages import apply as pool
from octavo.hugepages.pool import default_page, pool_file
from octavo.postgres.builds.cache import Build, list_builds
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.worker_client import COMPILER_CACHE, work_directory
from octavo.postgres.datasets import cache


@dataclass(frozen=True, slots=True)
class MadeApart:
    """A build made in a state directory of its own, after one that was killed there, and what that one left."""

    build: Build
    finished_when_killed: list[Build]
    told: list[str]
    left_to_work_on: list[Path]


# Asks for a build, and says when a step of the compilation is done.
_BUILDER = """
from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
def tell(step):
    if step.doing == "compilation":
        print(step.done, flush=True)

with Journal() as journal:
    ensure_build(BuildSpec("18", "8kB", "8kB"), journal, progress=tell)
"""


@pytest.fixture(scope="session")
def made_apart(builds: dict[str, Build], home: Path) -> Iterator[MadeApart]:
    """The default build once more, with the source and the compiler's cache of the other ones."""
    directory = home / "apart"
    directory.mkdir()
    for name in ("sources", COMPILER_CACHE):
        (directory / name).symlink_to((home / name).resolve())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_HOME", str(directory))
        builder = subprocess.Popen([sys.executable, "-c", _BUILDER], stdout=subprocess.PIPE, text=True)
        with builder:
            assert builder.stdout is not None
            assert builder.stdout.readline()
            builder.kill()
        finished, told = list_builds(), recover()
        left = list(work_directory().iterdir())
        with Journal() as journal:
            build = ensure_build(BuildSpec("18", "8kB", "8kB"), journal)
    yield MadeApart(build, finished, told, left)
    shutil.rmtree(directory)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty state directory, so that no other test finds builds of a tiny PostgreSQL."""
    directory = make_directory(home / f"tiny-{tmp_path.name}")
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def empty_cache(home: Path) -> Iterator[None]:
    """No loads of this test are there for the next one."""
    yield
    cache.release_all()
    shutil.rmtree(home / "datasets", ignore_errors=True)


@pytest.fixture
def no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """These pages are few; a run that measures meanwhile may go on."""
    monkeypatch.setattr(pool, "host_lock", nullcontext)


@pytest.fixture
def pages(no_lock: None) -> Iterator[int]:
    """The default page size of a machine whose pool is put back at the end, whatever happens."""
    file = pool_file(default_page())
    before = file.read_text()
    yield default_page()
    pool.undo()
    file.write_text(before)
