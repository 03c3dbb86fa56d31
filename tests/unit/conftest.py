"""What tests plant stands for the kernel's files: undoing may write there."""

from pathlib import Path

import pytest

from octavo.host import trusted_paths


@pytest.fixture(autouse=True)
def planted_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", (*trusted_paths.KERNEL_ROOTS, tmp_path))
