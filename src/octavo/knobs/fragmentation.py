"""Fragmented memory: free memory in pieces that are too small for a huge page, as on a host with a long uptime.

Sources: kernel Documentation/admin-guide/mm/transhuge.rst and admin-guide/sysctl/vm.rst (compact_memory,
extfrag_threshold); proc_buddyinfo(5). A process of our own (`fragment_holder`) fragments memory and holds it; when it
ends or is killed, the kernel merges the pieces again. `movable`: the pages in the way can be moved, so a huge page
costs compaction, and an eighth of the memory is held. `pinned`: they cannot be moved, so no huge page is available, and
one page in each huge page's range is held. The page cache is dropped before, because it is not free and would not stay
in place. Background compaction (vm.compaction_proactiveness) is off meanwhile, because it would merge the pieces.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError, UsageError
from octavo.factor import Factor
from octavo.host import children
from octavo.host.free_memory import FreeMemory, free_memory, huge_page
from octavo.host.journal import Journal
from octavo.host.kernel_text import lines, words
from octavo.host.kernel_value import KernelValue
from octavo.host.procfs import named_numbers, number_after
from octavo.hugepages.groups import NO_LIMIT, group_directories
from octavo.knobs import fragment_holder
from octavo.knobs.base import Achieved, KnobTarget, not_writable, set_values
from octavo.knobs.drop_caches import drop_caches
from octavo.units import format_size, human_size, parse_percentage, parse_size

_NONE = "none"
_ALLOWED = (
    "none, or how much free memory to fragment and with which pages, such as 100%/movable, 90%/pinned or 2GB/pinned"
)
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# The memory that stays free while filling, in addition to the kernel's reclaim marks.
_RESERVE = 128 * 1024**2
# Bytes filled and freed per second, on a virtual machine whose host first had to provide the memory.
_BYTES_PER_SECOND = 0.5 * 1024**3
# The least share of the filled memory in pieces smaller than a huge page afterwards; other processes allocate
# meanwhile.
_LEAST_BROKEN = 0.5


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """A share of free memory, or bytes of it, and the kind of pages that prevent huge pages."""

    share: float | None
    size: int | None
    kind: str

    def bytes_of(self, free: int) -> int:
        """The bytes to fragment, given the free memory."""
        return min(free, self.size) if self.size is not None else int(free * (self.share or 0.0))


def parse(level: str) -> Fragmentation | None:
    """The parsed level; None for `none`. Raises UsageError.

    >>> parse("90%/pinned")
    Fragmentation(share=0.9, size=None, kind='pinned')
    >>> parse("2GB/movable").bytes_of(1024**3) == 1024**3
    True
    """
    if level == _NONE:
        return None
    amount, _, kind = level.partition("/")
    if kind not in ("movable", "pinned"):
        raise UsageError(f"allowed: {_ALLOWED}")
    if re.fullmatch(r"\d{1,3}%", amount) and 1 <= int(amount[:-1]) <= 100:
        return Fragmentation(parse_percentage(amount), None, kind)
    with suppress(UsageError):
        if 64 * 1024**2 <= (size := parse_size(amount)) <= 64 * 1024**4:
            return Fragmentation(None, size, kind)
    raise UsageError(f"allowed: {_ALLOWED}; shares from 1% to 100%, sizes from 64MB to 64TB")


def _check(text: str) -> str:
    asked = parse(text)
    if asked is None or asked.size is None:
        return text if asked is None else f"{int(text.partition('%')[0])}%/{asked.kind}"
    return f"{format_size(asked.size)}/{asked.kind}"


class FragmentationKnob:
    """Runs the holder process as long as the level is in force."""

    factor = Factor("fragmentation", "run", "free memory in pieces smaller than a huge page", _NONE, _check)

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs root, huge pages, enough memory, and permission to use it."""
        asked = parse(level)
        if asked is None:
            return None
        if os.geteuid():
            return "where memory is (/proc/PID/pagemap) is shown to root only; run as root"
        if huge_page(place.sys) is None:
            return "this kernel has no transparent huge pages"
        if reason := not_writable(place.proc / "sys/vm/drop_caches"):
            return reason
        try:
            room = number_after((place.proc / "meminfo").read_bytes(), b"MemAvailable:") * 1024 - reserve(place.proc)
        except OSError as error:
            return f"{error.filename} cannot be read: {error.strerror}"
        if room < (asked.size or 0):
            return f"{format_size(asked.size or 0)} requested, but only {human_size(max(0, room))} can be fragmented"
        wanted = asked.bytes_of(max(0, room))
        limit = _room_of_group(place.proc)
        if limit is not None and limit[0] < wanted:
            return (
                f"it takes {human_size(wanted)} temporarily, but the memory limit of this process's group "
                f"({limit[1]}) has room for {human_size(limit[0])}"
            )
        return None

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Fragments free memory, and restores it at the end. Raises OctavoError when that fails."""
        asked = parse(level)
        assert asked is not None, "the level that touches nothing"
        huge = huge_page(place.sys)
        assert huge is not None, "`cannot` says so before"
        drop_caches(place.directory, place.proc)
        found = free_memory(huge, place.proc)
        spare = reserve(place.proc)
        free = max(0, named_numbers((place.proc / "meminfo").read_bytes())[b"MemFree"] * 1024 - spare)
        most = asked.bytes_of(free) // huge * huge
        if most == 0 or (asked.size is not None and most < asked.size // huge * huge):
            raise OctavoError(
                f"fragmentation: {level} requested, but only {human_size(free)} of memory are free for it"
            )
        proactive = KernelValue(place.proc / "sys/vm/compaction_proactiveness")
        quiet = [(proactive, "0")] if proactive.path.exists() else []
        with (
            set_values(level, quiet, journal) as values,
            _holder(most, huge, spare, asked.kind, journal) as held,
        ):
            now = free_memory(huge, place.proc)
            if now.free - now.whole < _LEAST_BROKEN * (held["filled"] - held["held"]):
                raise OctavoError(
                    f"fragmentation: {human_size(held['filled'])} were fragmented, but {human_size(now.whole)} of "
                    f"{human_size(now.free)} free memory are in pieces of a huge page"
                )
            yield Achieved(level, _said(now, huge, held["held"]), _said(found, huge, 0), values.values)


def seconds(level: str, proc: Path | None = None) -> float:
    """The seconds that it takes to set a level, for the estimate."""
    asked = parse(level)
    if asked is None:
        return 0.0
    available = number_after(((proc or _PROC) / "meminfo").read_bytes(), b"MemAvailable:") * 1024
    return asked.bytes_of(available) / _BYTES_PER_SECOND


def reserve(proc: Path = _PROC) -> int:
    """The bytes that stay free while filling: the high marks of all zones, below which the kernel reclaims (zoneinfo,
    in pages), and some more."""
    marks = (words(line) for line in lines(proc / "zoneinfo"))
    return _RESERVE + _PAGE * sum(int(mark[1]) for mark in marks if len(mark) == 2 and mark[0] == "high")


def _said(memory: FreeMemory, huge: int, held: int) -> str:
    """The state as text for a trial's facts."""
    by_us = f", {human_size(held)} held" if held else ""
    return f"{memory.unusable:.1%} of free memory unusable for huge pages, {memory.whole // huge} left{by_us}"


def _room_of_group(proc: Path) -> tuple[int, Path] | None:
    """The remaining bytes of this process's memory groups, and the group with the least; None without a limit."""
    found: list[tuple[int, Path]] = []
    for group in group_directories("memory", None, proc):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with suppress(OSError):
                text = (group / limit).read_text().strip()
                if text.isdecimal() and int(text) < NO_LIMIT:
                    found.append((max(0, int(text) - int((group / used).read_text())), group))
    return min(found, default=None)


@contextmanager
def _holder(most: int, huge: int, spare: int, kind: str, journal: Journal) -> Generator[dict[str, int], None, None]:
    process, entry = children.start(
        [sys.executable, "-I", "-S", Path(fragment_holder.__file__), str(most), str(huge), str(spare), kind],
        journal, role="fragmentation", stdin=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        answer = process.stdout.readline(1 << 16)
        if not answer:
            process.wait()
            why = process.stderr.read(1 << 16).strip().splitlines()
            raise OctavoError(
                f"fragmentation: {why[-1] if why else f'the holder of memory ended with {process.returncode}'}"
            )
        held: dict[str, int] = json.loads(answer)
        yield held
    finally:
        # With many GB the process takes a moment to end, and the next trial must not begin before that.
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        children.ended(journal, entry)


KNOB = FragmentationKnob()
