"""Fixtures of unit tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.fake_lab import Laboratory
from tests.unit.plans import small_plan

from octavo.host import trusted_paths


@pytest.fixture(autouse=True)
def planted_kernel(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the files that tests plant stand for the kernel's: undoing may write there.

    The directory is the one of all tests: to make one for each test that requests none takes milliseconds, thousands of
    times.
    """
    roots = (*trusted_paths.KERNEL_ROOTS, tmp_path_factory.getbasetemp())
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", roots)


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    made = Laboratory(tmp_path / "store.sqlite", small_plan())
    yield made
    made.store.close()
