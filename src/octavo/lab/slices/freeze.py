"""Pausing a cell as a whole, and continuing it: its control group, or only its client if control groups are not
available."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from octavo.errors import OctavoError
from octavo.host import child_group

_POLL_SECONDS = 0.0002
# A process that waits for the device is only paused when its request has completed.
_PATIENCE_SECONDS = 30.0


def nothing_to_prepare() -> None:
    """Before the slices of a cell whose host state is that of all others."""


class Freezer(Protocol):
    """Pauses a cell and continues it."""

    @property
    def how(self) -> str:
        """A description of what is paused, for the trial's facts."""
        ...

    def freeze(self) -> None:
        """Pauses the cell, and returns when everything is paused. Raises OctavoError if that fails."""
        ...

    def thaw(self) -> None:
        """Continues it at once."""
        ...


@dataclass(frozen=True, slots=True)
class GroupFreezer:
    """The server, its background processes and its client, in one control group."""

    group: Path
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep

    @property
    def how(self) -> str:
        """The description, with the version of the group."""
        version = 2 if child_group.is_version_2(self.group) else 1
        return f"server and client (control group, version {version})"

    def freeze(self) -> None:
        """Requests it, and waits until it has happened."""
        child_group.set_frozen(self.group, frozen=True)
        deadline = self.now() + _PATIENCE_SECONDS
        while not child_group.is_frozen(self.group):
            if self.now() > deadline:
                raise OctavoError(
                    f"the processes in {self.group} could not be paused; interleave = trials does not need it"
                )
            self.wait(_POLL_SECONDS)

    def thaw(self) -> None:
        """Continues the group and the groups below it."""
        child_group.set_frozen(self.group, frozen=False)


class Pausable(Protocol):
    """A device that only one cell uses."""

    def pause(self) -> None:
        """Serves no requests from now on."""
        ...

    def resume(self) -> None:
        """Serves requests again."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceFreezer:
    """Pauses a cell together with its own device: the kernel does not write back for a paused cell, so writing a cell's
    dirty pages uses its own time."""

    cell: Freezer
    device: Pausable

    @property
    def how(self) -> str:
        """A description of what is paused."""
        return f"{self.cell.how}; its device"

    def freeze(self) -> None:
        """Pauses the cell first, so that requests for which a process waits are still served."""
        self.cell.freeze()
        self.device.pause()

    def thaw(self) -> None:
        """Continues the device first, and the cell even if that fails, because a frozen process could not be ended."""
        try:
            self.device.resume()
        finally:
            self.cell.thaw()


@dataclass(frozen=True, slots=True)
class StandsStill:
    """A server whose client sends nothing in between, on a host without usable control groups: its timers continue."""

    how: str = "nothing: no usable control groups on this host; the servers were idle, but their timers kept running"

    def freeze(self) -> None:
        """Does nothing."""

    def thaw(self) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True)
class ClientFreezer:
    """Pauses only the client; its server has nothing to do, but its timers continue."""

    pid: int
    how: str = "only the client: no usable control groups on this host, so the servers' timers kept running"

    def freeze(self) -> None:
        """Sends SIGSTOP, and waits until no thread runs, because its log is read then. Transactions that the server has
        begun are completed there, and answered later."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._stands_still() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _stands_still(self) -> bool:
        """Whether every thread is stopped, or has ended (proc(5), the state after the name)."""
        for stat in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with suppress(OSError):
                if stat.read_bytes().rpartition(b")")[2].split()[0] not in (b"T", b"t", b"Z", b"X"):
                    return False
        return True

    def thaw(self) -> None:
        """Sends SIGCONT."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
