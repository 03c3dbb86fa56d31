"""Files that a user names: opened once, regular files only, read up to a limit; and a server's reports on its WAL."""

import os
from pathlib import Path

import pytest

from octavo.binary import read as binary
from octavo.doctor.json_file import read_json
from octavo.errors import HostError, OctavoError, UsageError
from octavo.imports import rows
from octavo.io import request
from octavo.postgres import extension
from octavo.postgres.wal_contents import Position, position_of


def _read_list(path: Path) -> str:
    return request._read(path)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("read", [_read_list, read_json, rows.read_text])
def test_a_fifo_and_a_device_are_refused_at_once(read: object, tmp_path: Path) -> None:
    assert callable(read)
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises((HostError, UsageError), match=r"regular file|cannot be read") as raised:
            read(path)
        assert "\n" not in str(raised.value)


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1024**3)
    with pytest.raises(UsageError, match="more than 64 MB"):
        read_json(path)
    with pytest.raises(HostError, match="more than 256 MB"):
        _read_list(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("read", [_read_list, read_json, rows.read_text, binary.read])
def test_a_link_in_a_directory_of_another_user_is_not_followed(read: object, tmp_path: Path) -> None:
    assert callable(read)
    (tmp_path / "secret").write_text("[]")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(tmp_path / "secret")
    os.chown(theirs, 65534, 65534)
    with pytest.raises((HostError, UsageError), match="symbolic link"):
        read(theirs / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_extension_is_not_taken_through_a_link_of_another_user(tmp_path: Path) -> None:
    """Its contents are passed to the account of builds, and into what it makes."""
    secret, theirs = tmp_path / "secret", tmp_path / "theirs"
    secret.mkdir()
    (secret / "key").write_text("root's")
    theirs.mkdir()
    (theirs / "extension").symlink_to(secret)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(UsageError, match="extension"):
        extension.source_digest(theirs / "extension")
    assert extension.source_digest(secret)


_POSITION: dict[str, object] = {"position": 2**40, "timeline": "00000001", "block": 8192, "segment": 16 * 1024**2}


def test_a_position_of_the_wal_is_taken() -> None:
    assert position_of([_POSITION]) == Position(2**40, "00000001", 8192, 16 * 1024**2)


@pytest.mark.parametrize(
    "other",
    [
        {"position": 2**63}, {"position": -1}, {"position": "5"}, {"position": None}, {"position": True},
        {"timeline": "../../01"}, {"timeline": "1" * 9}, {"timeline": 1}, {"block": 1}, {"block": 0},
        {"segment": 1}, {"segment": 3 * 1024**2}, {"segment": 2**40},
    ],
)  # fmt: skip
def test_a_position_that_cannot_be_is_one_line(other: dict[str, object]) -> None:
    """With a tiny segment there would be half a thousand million files to search for, and with a negative one none."""
    answers: list[list[dict[str, object]]] = [[{**_POSITION, **other}], [], [_POSITION, _POSITION], [{}]]
    for answer in answers:
        with pytest.raises(OctavoError, match="impossible WAL position") as raised:
            position_of(answer)
        assert "\n" not in str(raised.value)
