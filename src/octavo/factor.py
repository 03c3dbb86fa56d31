"""A factor: a knob, the values it may take, and what changing it costs."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from octavo.errors import UsageError
from octavo.text import one_line
from octavo.units import format_size, parse_duration, parse_size

# Raises UsageError with what is allowed, else returns the level in its one spelling.
Check = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Factor:
    """`kind` says what a change costs: a build, a cluster with its load, or a server start."""

    name: str
    kind: Literal["build", "cluster", "run"]
    meaning: str
    default: str
    check: Check

    def level(self, text: str) -> str:
        """The level in its one spelling. Raises UsageError naming the factor and the allowed values."""
        try:
            return self.check(text)
        except UsageError as error:
            cause = one_line(error)  # a path may have any character in it
            raise UsageError(f"{self.name}: invalid level {text!r}; {cause}") from None


def complete(factors: Iterable[Factor], given: Mapping[str, str]) -> dict[str, str]:
    """A level of every factor: the one that is given, or the default. Raises UsageError."""
    return {factor.name: factor.level(given.get(factor.name, factor.default)) for factor in factors}


def one_of(*allowed: str) -> Check:
    """Levels that are a closed list."""

    def check(text: str) -> str:
        if text not in allowed:
            raise UsageError(f"allowed: {', '.join(allowed)}")
        return text

    return check


def whole_number(low: int, high: int) -> Check:
    """Levels that are whole numbers in a range."""

    def check(text: str) -> str:
        if not text.isascii() or not text.isdecimal() or len(text) > 20 or not low <= int(text) <= high:
            raise UsageError(f"allowed: whole numbers from {low} to {high}")
        return str(int(text))

    return check


def duration(low: int, high: int) -> Check:
    """Levels that are whole seconds in a range, in any unit of time."""

    def check(text: str) -> str:
        try:
            seconds = parse_duration(text)
        except UsageError:
            seconds = -1.0
        if not low <= seconds <= high or seconds != int(seconds):
            raise UsageError(f"allowed: whole seconds from {low}s to {high}s, such as 9s or 2min")
        return f"{int(seconds)}s"

    return check


def size(low: str, high: str, *words: str) -> Check:
    """Levels that are sizes in a range, or one of these words."""

    def check(text: str) -> str:
        if text in words:
            return text
        try:
            value = parse_size(text)
        except UsageError:
            value = -1
        if not parse_size(low) <= value <= parse_size(high):
            alternatives = f", or {' or '.join(words)}" if words else ""
            raise UsageError(f"allowed: sizes from {low} to {high}{alternatives}")
        return format_size(value)

    return check


def matching(pattern: str, allowed: str) -> Check:
    """Levels that fully match a regular expression; runs of white space become one space. `allowed` describes it in
    words.

    >>> matching(r"-O[0-3]", "an optimisation, such as -O2")(" -O3 ")
    '-O3'
    """

    def check(text: str) -> str:
        level = " ".join(text.split())
        if re.fullmatch(pattern, level) is None:
            raise UsageError(f"allowed: {allowed}")
        return level

    return check
