import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from octavo.home import make_directory, octavo_home
from octavo.host.checks import check_host
from octavo.hugepages import apply as pool
from octavo.hugepages.pool import default_page, pool_file
from octavo.lab import session
from octavo.postgres.datasets import cache

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="session", autouse=True)
def short_look_at_the_host() -> Iterator[None]:
    """Each run first observes the host for only one second; tests of the command observe it as long as a user's run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "check_host", partial(check_host, seconds=0.05))
        yield


@pytest.fixture
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty state directory, so that no other test finds builds of a tiny PostgreSQL."""
    directory = make_directory(home / f"tiny-{tmp_path.name}")
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def nothing_left(home: Path) -> Iterator[None]:
    """Checks that a run has removed its servers, journal and volumes."""
    yield
    for place in ("scratch", "journal", "volumes"):
        assert not list((octavo_home() / place).glob("*"))


@pytest.fixture
def empty_cache(home: Path) -> Iterator[None]:
    """Leaves no loads of this test for the next one."""
    yield
    for name in cache.held():
        cache.release(name)
    shutil.rmtree(home / "datasets", ignore_errors=True)


@pytest.fixture
def no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests use few pages, so a run may measure at the same time."""
    monkeypatch.setattr(pool, "host_lock", nullcontext)


@pytest.fixture
def pages(no_lock: None) -> Iterator[int]:
    """The machine's default page size; its pool is restored at the end, whatever happens."""
    file = pool_file(default_page())
    before = file.read_text()
    yield default_page()
    pool.undo()
    file.write_text(before)
