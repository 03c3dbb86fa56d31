"""`octavo io --write` writes only to the file that it has checked, whatever the path leads to by then."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import UsageError
from octavo.io.engine import make, measure
from octavo.io.job import Job
from octavo.io.target import prepare

BLOCK = 512


def unseen(phase: str, done: float, total: int) -> None:
    """Ignores progress."""


@pytest.mark.parametrize("how", ["link", "file"])
def test_a_file_that_was_swapped_after_the_check_is_not_written(tmp_path: Path, how: str) -> None:
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    make(own, 8 * BLOCK, unseen)
    foreign.write_bytes(b"x" * 8 * BLOCK)
    (path,) = prepare([own], None, unseen, write=True, verify=False, lose_device=False)
    own.rename(tmp_path / "moved")
    if how == "link":
        own.symlink_to(foreign)
    else:
        foreign.rename(own)
    with pytest.raises(UsageError, match="octavo io writes only into files that it made"):
        measure(replace(Job((path,), BLOCK, "random", cache="found", once=True), write=True), unseen)
    assert own.read_bytes() == b"x" * 8 * BLOCK


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """An unused device of 4 kB."""
    image = tmp_path / "image"
    image.write_bytes(b"x" * 8 * BLOCK)
    found = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True)
    yield Path(found.stdout.strip())
    subprocess.run(["losetup", "--detach", found.stdout.strip()], check=True)


@needs_root
def test_a_file_that_became_a_device_after_the_check_is_not_written(tmp_path: Path, device: Path) -> None:
    own = tmp_path / "own"
    make(own, 8 * BLOCK, unseen)
    (path,) = prepare([own], None, unseen, write=True, verify=False, lose_device=False)
    own.unlink()
    own.symlink_to(device)
    with pytest.raises(UsageError, match="add --i-will-lose-this-device"):
        measure(replace(Job((path,), BLOCK, "random", cache="found", once=True), write=True), unseen)
    assert device.read_bytes() == b"x" * 8 * BLOCK


@needs_root
def test_the_device_that_may_be_lost_is_the_one_that_was_looked_at(tmp_path: Path, device: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(device)
    (path,) = prepare([link], None, unseen, write=True, verify=False, lose_device=True)
    assert path == str(device)
