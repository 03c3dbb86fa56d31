import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    with Journal() as opened:
        yield opened


@pytest.fixture(scope="session")
def account() -> Account:
    return server_account()


_SIZES = ("8kB", "4kB", "32kB")
# What some tests need besides costs seconds in the same tree, and minutes alone.
_OTHER_WAL = (("8kB", "32kB"), ("4kB", "16kB"))


@pytest.fixture(scope="session")
def builds(home: Path) -> dict[str, Build]:
    """18 at a smaller, the default and a larger data block, made in one tree where they are not cached."""
    with Journal() as journal:
        sizes = [*((size, "8kB") for size in _SIZES), *_OTHER_WAL]
        made = ensure_builds([BuildSpec("18", data, wal) for data, wal in sizes], journal)
    return dict(zip(_SIZES, made, strict=False))


@pytest.fixture(scope="session", params=_SIZES)
def build(request: pytest.FixtureRequest, builds: dict[str, Build]) -> Build:
    """Every test that takes it runs at each of these data blocks."""
    return builds[request.param]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
