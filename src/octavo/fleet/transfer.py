"""The transfer of a build from the host that has it to those that need it: packed into a file there, sent in pieces.

Each piece is a task's result or argument. All of them pass through the coordinator and the scheduler, whose event loops
serve the whole fleet: a build in a single message would block them for seconds, and be in their memory once per host.
Until its digest is checked, a received build is a file outside of the cache. The next transfer or run on the host
removes it.
"""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from octavo.errors import HostError, OctavoError
from octavo.fleet.workshop import BENCH, parcels
from octavo.home import make_directory, octavo_home
from octavo.host.journal import Journal
from octavo.lab.events import Notice, Notify, Preparing
from octavo.packaging.travel import MOST_PACKED, check_name, pack, unpack
from octavo.postgres.builds.cache import read_build
from octavo.units import human_size

# The size of a piece in bytes, and how many hosts a piece is sent to at once.
PIECE = 1024**2
_TAKERS_AT_ONCE = 16
# Seconds between two progress lines of a transfer.
_BETWEEN_LINES = 5.0


class TransferHosts(Protocol):
    """The methods of `dask_hosts` that a transfer needs."""

    def answers(self, orders: Sequence[Any]) -> dict[str, Any]:
        """Runs one order per host. Returns the result, or the error, by host."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed build: its size in bytes and its sha256."""

    name: str
    size: int
    digest: str


def send(hosts: TransferHosts, name: str, maker: str, takers: Sequence[str], notify: Notify) -> list[str]:
    """Sends a build from `maker` to `takers`; returns those that have it now. On a reported failure a host makes its
    own."""
    notify(Preparing(f"{name}: packing on {maker}, to send it to {', '.join(takers)}"))
    packed: Packed | None = answers(hosts, [(maker, pack_here, name)], notify).get(maker)
    left: list[str] = []
    if packed is not None:
        left = _send_pieces(hosts, packed, maker, takers, notify)
        left = list(answers(hosts, [(taker, unpack_here, packed) for taker in left], notify))
    hosts.answers([(host, forget_here) for host in (maker, *takers)])  # an absent host forgets it at its next run
    return left


def answers(hosts: TransferHosts, orders: Sequence[Any], notify: Notify) -> dict[str, Any]:
    """Returns the results by host. Reports the errors of the hosts that fail and leaves those hosts out."""
    found = hosts.answers(orders)
    for answer in found.values():
        if isinstance(answer, Exception):
            notify(Notice(f"{answer}; it makes its own builds"))
    return {host: answer for host, answer in found.items() if not isinstance(answer, Exception)}


def _send_pieces(hosts: TransferHosts, packed: Packed, maker: str, takers: Sequence[str], notify: Notify) -> list[str]:
    """Sends the file piece by piece. Returns the hosts that have all pieces."""
    left, told = list(takers), time.monotonic()
    for offset in range(0, packed.size, PIECE):
        if time.monotonic() - told > _BETWEEN_LINES:
            told = time.monotonic()
            notify(Preparing(f"{packed.name}: {human_size(offset)} of {human_size(packed.size)} sent"))
        piece: bytes | None = answers(hosts, [(maker, piece_here, packed.name, offset)], notify).get(maker)
        if piece is None:
            return []
        took: list[str] = []
        for first in range(0, len(left), _TAKERS_AT_ONCE):
            some = left[first : first + _TAKERS_AT_ONCE]
            took += answers(hosts, [(taker, take_here, packed.name, offset, piece) for taker in some], notify)
        if not (left := took):
            return []
    return left


def pack_here(name: str) -> Packed:
    """A task: packs the build for `piece_here`. Raises OctavoError when the build is missing or the disk is full."""

    def work() -> Packed:
        build = read_build(name)
        if build is None:
            raise OctavoError(f"the build {name} does not exist")
        file = _new(name)
        digest = pack(build, file)
        return Packed(name, file.stat().st_size, digest)

    return BENCH.do(work)


def piece_here(name: str, offset: int) -> bytes:
    """A task: returns a piece of the packed build. Raises OctavoError when the packed build is gone."""

    def work() -> bytes:
        try:
            with _file(name).open("rb") as file:
                return os.pread(file.fileno(), PIECE, offset)
        except OSError as error:
            raise HostError(f"the packed build {name} cannot be read: {error.strerror}") from error

    return BENCH.do(work)


def take_here(name: str, offset: int, piece: bytes) -> None:
    """A task: appends a piece to the received file. Raises OctavoError when an earlier piece is missing or the disk is
    full."""

    def work() -> None:
        path = _file(name) if offset else _new(name)
        try:
            with path.open("ab") as file:
                if file.tell() != offset or offset + len(piece) > MOST_PACKED:
                    raise OctavoError(f"{name}: a piece of the archive is missing, or it is larger than a build")
                file.write(piece)
        except OSError as error:
            raise HostError(f"{name} cannot be received: {error.strerror}; make room in {octavo_home()}") from error

    return BENCH.do(work)


def unpack_here(packed: Packed) -> None:
    """A task: moves the received build into the cache. Raises OctavoError when its digest does not match."""

    def work() -> None:
        with Journal() as journal:
            unpack(packed.name, _file(packed.name), packed.digest, journal)

    BENCH.do(work)


def forget_here() -> None:
    """A task: removes packed and received files."""
    BENCH.do(lambda: shutil.rmtree(parcels(), ignore_errors=True))


def _new(name: str) -> Path:
    """The path for a build that is about to be packed or received. Removes what was there."""
    path = _file(name)
    shutil.rmtree(parcels(), ignore_errors=True)
    make_directory(parcels(), 0o700)
    return path


def _file(name: str) -> Path:
    check_name(name)
    return parcels() / name
