"""Files that a server of ours names (pg_relation_filepath), an answer that code of a dump or an extension may give."""

# pyright: reportPrivateUsage=false

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.operations.pg_checksums import damage
from octavo.workloads.coalescing import lists
from octavo.workloads.scan import ceiling

OURSELVES = Account("ourselves", os.geteuid(), os.getegid())
BLOCKS = bytes(8192)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory, beside it a file that is not the server's, and links to that file."""
    (tmp_path / "outside").write_bytes(BLOCKS)
    (tmp_path / "data" / "base").mkdir(parents=True)
    (tmp_path / "data" / "base" / "1").write_bytes(BLOCKS)
    (tmp_path / "data" / "base" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "data" / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "data" / "fifo")
    os.link(tmp_path / "outside", tmp_path / "data" / "hard")
    return tmp_path / "data"


LEADING_OUT = ["../outside", "base/link", "up/outside", "fifo", "hard", "base", "base/../../outside", "", "a\0b"]


@pytest.mark.parametrize("path", [*LEADING_OUT, "ABSOLUTE"])
def test_no_byte_is_flipped_outside_of_the_data_directory(data: Path, path: str) -> None:
    path = str(data.parent / "outside") if path == "ABSOLUTE" else path
    with pytest.raises(OctavoError, match="which the server names"):
        damage(data, path, 0, OURSELVES)
    assert (data.parent / "outside").read_bytes() == BLOCKS


def test_a_file_of_another_user_is_not_changed(data: Path) -> None:
    with pytest.raises(OctavoError, match="not owned by another"):
        damage(data, "base/1", 0, Account("another", os.geteuid() + 1, os.getegid()))
    damage(data, "base/1", 0, OURSELVES)
    assert (data / "base" / "1").read_bytes() != BLOCKS


def server(data: Path, path: str) -> Any:
    found = MagicMock(directory=data, account=OURSELVES)
    found.connection.execute.return_value.fetchone.return_value = {"path": path, "block": 8192, "bytes": 8192}
    return found


@pytest.mark.parametrize("path", LEADING_OUT)
def test_nothing_outside_is_read_for_a_workload(data: Path, path: str) -> None:
    levels = {"cache": "warm", "query": "seq-scan", "data_block": "8kB"}
    with pytest.raises(OctavoError, match="which the server names"):
        lists.table(server(data, path))
    with pytest.raises(OctavoError, match="which the server names"):
        ceiling._files_and_blocks(server(data, path), levels)
    assert lists.table(server(data, "base/1")) == ([data / "base" / "1"], 8192, 1)
    (data / "base" / "1.1").symlink_to(data.parent / "outside")
    with pytest.raises(OctavoError, match=r"base/1\.1, which the server names"):
        ceiling._files_and_blocks(server(data, "base/1"), levels)
