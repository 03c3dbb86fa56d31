"""A build that is sent to other hosts in pieces: each host here is a state directory, served in turn."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_builds_travel import make_build

from octavo.errors import HostError, OctavoError
from octavo.fleet import transfer
from octavo.fleet.transfer import send, take_here
from octavo.lab.events import Event, Notice, Preparing
from octavo.postgres.builds.cache import read_build

PIECE = 200


def _nothing(host: str, work: Callable[..., Any], arguments: list[Any]) -> None:
    pass


class Hosts:
    """Runs each task with the host's state directory, as `dask_hosts` does on the host."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory, self._patch = directory, patch
        self.longest = 0
        self.before: Callable[[str, Callable[..., Any], list[Any]], None] = _nothing
        """Called before each task; what it raises is the host's answer, what it changes are the arguments."""

    def at(self, host: str) -> Path:
        home = self.directory / host
        home.mkdir(mode=0o711, exist_ok=True)
        self._patch.setenv("OCTAVO_HOME", str(home))
        return home

    def answers(self, orders: Sequence[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for host, work, *arguments in orders:
            self.at(host)
            try:
                self.before(host, work, arguments)
                found[host] = work(*arguments)
            except OctavoError as error:
                found[host] = HostError(f"{host}: {error}")
            sent = [one for one in (*arguments, found[host]) if isinstance(one, bytes)]
            self.longest = max([self.longest, *map(len, sent)])
        return found


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    directory = Path(tempfile.mkdtemp(prefix="octavo-parcels-", dir="/var/tmp"))
    directory.chmod(0o755)  # the servers' user tests the build
    monkeypatch.setattr(transfer, "PIECE", PIECE)
    yield Hosts(directory, monkeypatch)
    shutil.rmtree(directory)


@pytest.fixture
def name(hosts: Hosts) -> str:
    """A build of alpha's."""
    hosts.at("alpha")
    return make_build(f"18.0-b8w8-{os.urandom(6).hex()}").name


def has(hosts: Hosts, host: str, name: str) -> bool:
    """Whether a host has the build. Checks that no temporary file of a transfer remains."""
    home = hosts.at(host)
    assert not (home / "fleet" / "parcels").exists()
    assert not list((home / "builds").glob(".new-*"))
    return read_build(name) is not None


def test_a_build_arrives_in_pieces_at_every_host(hosts: Hosts, name: str) -> None:
    told: list[Event] = []
    assert send(hosts, name, "alpha", ["beta", "gamma"], told.append) == ["beta", "gamma"]
    assert has(hosts, "alpha", name) and has(hosts, "beta", name) and has(hosts, "gamma", name)
    assert hosts.longest == PIECE
    assert told[0] == Preparing(f"{name}: packing on alpha, to send it to beta, gamma")


def test_a_host_that_fails_on_the_way_is_left_out(hosts: Hosts, name: str) -> None:
    def full(host: str, work: Callable[..., Any], arguments: list[Any]) -> None:
        if host == "beta" and work is take_here and arguments[1] > 0:
            raise HostError(os.strerror(errno.ENOSPC))

    told: list[Event] = []
    hosts.before = full
    assert send(hosts, name, "alpha", ["beta", "gamma"], told.append) == ["gamma"]
    assert has(hosts, "gamma", name) and not has(hosts, "beta", name)
    assert Notice("beta: No space left on device; it makes its own builds") in told


def test_a_piece_that_is_missing_or_damaged_is_noticed(hosts: Hosts, name: str) -> None:
    def damage(host: str, work: Callable[..., Any], arguments: list[Any]) -> None:
        if work is take_here and arguments[1] > 0:
            if host == "beta":
                arguments[2] = bytes(len(arguments[2]))
            else:
                arguments[1] += PIECE

    told: list[Event] = []
    hosts.before = damage
    assert send(hosts, name, "alpha", ["beta", "gamma"], told.append) == []
    assert not has(hosts, "beta", name) and not has(hosts, "gamma", name)
    lines = [one.text for one in told if isinstance(one, Notice)]
    assert "gamma: " in lines[0] and "a piece of the archive is missing" in lines[0]
    assert "beta: " in lines[1] and "differs from the sent one (sha256)" in lines[1]


def test_nothing_is_left_when_the_sender_is_lost(hosts: Hosts, name: str) -> None:
    def lost(host: str, work: Callable[..., Any], arguments: list[Any]) -> None:
        if work is transfer.piece_here and arguments[1] > 0:
            raise HostError("lost")

    hosts.before = lost
    assert send(hosts, name, "alpha", ["beta"], lambda _: None) == []
    assert not has(hosts, "beta", name)


def test_what_a_killed_transfer_has_left_is_replaced(hosts: Hosts, name: str) -> None:
    hosts.at("beta")
    take_here(name, 0, b"of one that was killed")
    take_here(f"18.0-b8w8-{os.urandom(6).hex()}", 0, b"another")
    assert send(hosts, name, "alpha", ["beta"], lambda _: None) == ["beta"]
    assert has(hosts, "beta", name)


def test_a_piece_goes_nowhere_else(hosts: Hosts) -> None:
    hosts.at("beta")
    for wrong in ("../../builds/18.0-b8w8-0123456789ab", "/etc/passwd", ""):
        with pytest.raises(OctavoError, match="not a name of a build"):
            take_here(wrong, 0, b"x")
