"""Whether the kernel commits more memory than it has: vm.overcommit_memory, with overcommit_ratio or _kbytes.

Source: kernel Documentation/mm/overcommit-accounting.rst: 0 heuristic, 1 always, 2 never. With `never` the limit is
swap and a share of the memory without huge pages (or an amount); ratio and kbytes are counterparts: writing one makes
the other read 0, and both apply under `never` only.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed, counterpart_changed
from octavo.host.procfs import named_numbers
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable
from octavo.units import format_size, human_size, parse_size

_MODES = {"heuristic": "0", "always": "1", "never": "2"}


def _check(text: str) -> str:
    mode, slash, limit = text.partition("/")
    if text == AS_FOUND or (mode in _MODES and not slash):
        return text
    if mode == "never" and re.fullmatch(r"[1-9]\d{0,2}%", limit):
        return text
    if mode == "never":
        try:
            if (amount := parse_size(limit)) >= 1024**2 and amount % 1024 == 0:
                return f"never/{format_size(amount)}"
        except UsageError:
            pass
    raise UsageError(
        f"allowed: {AS_FOUND}, {', '.join(_MODES)}, or never with its limit, such as never/80% or never/8GB"
    )


class Overcommit:
    """The mode and its limit. The limit is set first, so that the mode is never in force with the previous limit."""

    factor = Factor("overcommit", "run", "memory overcommit", AS_FOUND, _check)

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs root, and a limit above what this host's programs have been promised already."""
        if (reason := not_writable(place.proc / "sys/vm/overcommit_memory")) or not level.startswith("never"):
            return reason
        try:
            meminfo = named_numbers((place.proc / "meminfo").read_bytes())
            limit, committed = _limit_kilobytes(level, meminfo), meminfo[b"Committed_AS"]
        except (OSError, LookupError, ValueError):
            return None
        if committed < limit:
            return None
        return (
            f"{human_size(committed * 1024)} are committed on this host (Committed_AS), and {level} allows "
            f"{human_size(limit * 1024)}: allocations of all its programs would fail"
        )

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Sets the mode and the limit of the machine."""
        vm = place.proc / "sys/vm"
        mode, _, limit = level.partition("/")
        found = _state(place)
        values: list[tuple[KernelValue, str]] = []
        with ExitStack() as stack:
            if limit:
                as_amount = "%" not in limit
                text = str(parse_size(limit) // 1024) if as_amount else limit.removesuffix("%")
                ratio, amount = vm / "overcommit_ratio", vm / "overcommit_kbytes"
                now = stack.enter_context(
                    counterpart_changed(ratio, amount, text, as_amount=as_amount, journal=journal)
                )
                values += zip((KernelValue(ratio), KernelValue(amount)), now, strict=True)
            memory = KernelValue(vm / "overcommit_memory")
            values.append((memory, stack.enter_context(changed(memory, _MODES[mode], journal))))
            yield Achieved(level, _state(place), found, tuple(values))


def _limit_kilobytes(level: str, meminfo: Mapping[bytes, int]) -> int:
    """The limit under a level of `never`: CommitLimit, which the kernel also reports under other modes, or the new one.

    Raises LookupError when the kernel does not report it.
    """
    _, _, limit = level.partition("/")
    if not limit:
        return meminfo[b"CommitLimit"]
    if "%" not in limit:
        return parse_size(limit) // 1024 + meminfo[b"SwapTotal"]
    memory = meminfo[b"MemTotal"] - meminfo.get(b"Hugetlb", 0)
    return memory * int(limit.removesuffix("%")) // 100 + meminfo[b"SwapTotal"]


def _state(place: KnobTarget) -> str:
    vm = place.proc / "sys/vm"
    mode = next(name for name, number in _MODES.items() if number == (vm / "overcommit_memory").read_text().strip())
    amount = int((vm / "overcommit_kbytes").read_text())
    return f"{mode}/{format_size(amount * 1024) if amount else (vm / 'overcommit_ratio').read_text().strip() + '%'}"


KNOB = Overcommit()
