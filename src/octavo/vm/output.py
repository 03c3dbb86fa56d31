"""The output of a machine: untrusted text up to a limit, ended by the token and the exit code."""

import re
from dataclasses import dataclass

from octavo.errors import HostError, OctavoError
from octavo.text import one_line, printable

# The console ends with what went wrong, if anything did.
_LAST_LINES = 3
_LONGEST_LINE = 300
# A disk of the host with fewer bytes free is full.
_FULL = 1024**2
_PANIC = re.compile(r"Kernel panic - not syncing: [^\n]{0,200}|octavo-guest: [^\n]{0,200}|Out of memory: [^\n]{0,200}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a command in a machine, its exit code, and the output of the console and of qemu's plugin."""

    text: str
    returncode: int
    console: str = ""


def outcome(written: str, word: str, console: str = "") -> Outcome | None:
    """The command's output without the last line, which has the word and the exit code; None where it is missing."""
    text, found, rest = written.rpartition(f"\n{word} ")
    match = re.fullmatch(r"([0-9]{1,3})\n?", rest)
    if not found or match is None:
        return None
    return Outcome(printable(text), int(match[1]), console)


def why_not(console: str, returncode: int, limit: float, elapsed: float, free: int) -> OctavoError:
    """Why a machine ended before its command did: its time (`limit`, of which `elapsed` seconds were used), a full disk
    of the host (`free` bytes), a kill from outside, qemu's own complaint, or the console's last words."""
    # timeout(1): 137 is a KILL that it sent at its end, or that somebody else sent before.
    if returncode == 124 or (returncode == 137 and elapsed >= limit):
        if free < _FULL:  # qemu stops a machine whose data disk cannot grow, and waits (qemu(1), werror=enospc)
            return HostError(
                f"OCTAVO_HOME has no space left for the machine's data disk, and the machine waited until it was ended "
                f"after {limit:.0f} s; free some, for example with octavo cache rm"
            )
        return OctavoError(
            f"the machine was ended after {limit:.0f} s; give it more with --timeout{_last_output(console)}"
        )
    if returncode == 137:
        return OctavoError(
            f"qemu was killed after {elapsed:.0f} s, as the kernel does where memory is short; free some, or give the "
            f"machine less{_last_output(console)}"
        )
    if match := _PANIC.search(console):
        return OctavoError(f"the machine ended before its command did: {one_line(match[0])}")
    return OctavoError(f"the machine ended before its command did (exit {returncode}){_last_output(console)}")


def _last_output(console: str) -> str:
    lines = [one_line(line)[:_LONGEST_LINE] for line in console.splitlines() if line.strip()]
    return f"; its last output: {' / '.join(lines[-_LAST_LINES:])}" if lines else ""
