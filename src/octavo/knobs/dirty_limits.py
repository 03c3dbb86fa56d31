"""How much memory may be dirty before the kernel writes back, and before it makes writers wait.

Source: kernel Documentation/admin-guide/sysctl/vm.rst: dirty_background_ratio or dirty_background_bytes, dirty_ratio or
dirty_bytes. One of each pair is in force, and writing it makes the other read 0; values below two memory pages are
refused. If the background limit is not below the other one, the kernel silently uses half of that.
"""

import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, counterpart_changed
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable
from octavo.units import format_size, parse_size

_ALLOWED = f"allowed: {AS_FOUND}, or background/limit, such as 10%/20% or 64MB/256MB, the first one smaller"


def _check(text: str) -> str:
    if text == AS_FOUND:
        return text
    background, _, limit = text.partition("/")
    if (percent := [re.fullmatch(r"(\d{1,3})%", part) for part in (background, limit)]) and all(percent):
        low, high = (int(match[1]) for match in percent if match)
        level = f"{low}%/{high}%"
        if not low < high <= 100:
            raise UsageError(_ALLOWED)
        return level
    try:
        low, high = parse_size(background), parse_size(limit)
    except UsageError:
        raise UsageError(_ALLOWED) from None
    if not 1024**2 <= low < high:
        raise UsageError(f"{_ALLOWED}, at least 1MB")
    return f"{format_size(low)}/{format_size(high)}"


class DirtyLimits:
    """Both pairs of limits."""

    factor = Factor("dirty_limits", "run", "dirty memory: background limit and limit", AS_FOUND, _check)

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs root."""
        del level
        return not_writable(place.proc / "sys/vm/dirty_ratio")

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Sets the background limit, then the other one."""
        as_amount = "%" not in level
        found = _state(place)
        values: list[tuple[KernelValue, str]] = []
        with ExitStack() as stack:
            for name, part in zip(("dirty_background", "dirty"), level.split("/"), strict=True):
                ratio, amount = (place.proc / f"sys/vm/{name}_{unit}" for unit in ("ratio", "bytes"))
                text = str(parse_size(part)) if as_amount else part.removesuffix("%")
                now = stack.enter_context(
                    counterpart_changed(ratio, amount, text, as_amount=as_amount, journal=journal)
                )
                values += zip((KernelValue(ratio), KernelValue(amount)), now, strict=True)
            yield Achieved(level, _state(place), found, tuple(values))


def _state(place: KnobTarget) -> str:
    """Both limits in force, in the spelling of a level."""

    def one(name: str) -> str:
        amount = int((place.proc / f"sys/vm/{name}_bytes").read_text())
        return format_size(amount) if amount else f"{(place.proc / f'sys/vm/{name}_ratio').read_text().strip()}%"

    return f"{one('dirty_background')}/{one('dirty')}"


KNOB = DirtyLimits()
