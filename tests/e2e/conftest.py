import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Octavo = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture
def octavo(home: Path) -> Octavo:
    """Runs `./octavo` as a user does."""

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "octavo", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={**os.environ, **environment},
            timeout=600,
        )

    return call
