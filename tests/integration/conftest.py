import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres.build import Build, BuildSpec, ensure_build


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


@pytest.fixture(scope="session", params=["4kB", "8kB", "32kB"])
def build(request: pytest.FixtureRequest, home: Path) -> Build:
    """Every test that takes it runs at a smaller, the default and a larger data block."""
    with Journal() as journal:
        return ensure_build(BuildSpec("18", request.param, "8kB"), journal)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
