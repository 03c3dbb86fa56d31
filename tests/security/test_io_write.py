"""`octavo io --write` writes only what it has looked at, whatever the path leads to by then."""

from dataclasses import replace
from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.io.engine import make, measure
from octavo.io.job import Job
from octavo.io.target import prepare

BLOCK = 512


def unseen(phase: str, done: float, total: int) -> None:
    """Nobody watches."""


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
