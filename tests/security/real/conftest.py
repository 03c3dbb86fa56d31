"""Security tests that need real servers: the builds and accounts of the integration tests."""

from pathlib import Path

import pytest
from tests.integration.conftest import account, builds, journal

__all__ = ["account", "builds", "journal"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)
