"""Sizes, durations and percentages as PostgreSQL writes them: kB, MB and GB are powers of 1024."""

import re
from collections.abc import Callable
from typing import TypeVar

from octavo.errors import UsageError

_T = TypeVar("_T")

# More are no size of anything, and beyond some thousands Python reads none.
_DIGITS = r"\d{1,30}"
_SIZE_UNITS = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str) -> int:
    """Bytes of a size such as `8kB`. Raises UsageError when it is none.

    >>> parse_size("8kB"), parse_size("1 GB"), parse_size("512B")
    (8192, 1073741824, 512)
    """
    match = re.fullmatch(rf"\s*({_DIGITS})\s*(B|kB|MB|GB|TB)\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is not a size; write a whole number with B, kB, MB, GB or TB, such as 8kB")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def format_size(size: int) -> str:
    """The size in the largest unit that holds it without a fraction.

    >>> format_size(8192), format_size(1536 * 1024), format_size(0), format_size(100)
    ('8kB', '1536kB', '0B', '100B')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return f"{size}B"


def human_size(size: float) -> str:
    """The size rounded for reading, in powers of 1024.

    >>> human_size(1.5 * 1024**3), human_size(900), human_size(24 * 1024**3), human_size(1001 * 1024**2)
    ('1.5 GB', '900 B', '24 GB', '1001 MB')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(number := size / _SIZE_UNITS[unit]) >= 1:
            return f"{number:.0f} {unit}" if abs(number) >= 999.5 else f"{number:.3g} {unit}"
    return f"{size:.0f} B"


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `9s` or `2min`. Raises UsageError when it is none.

    >>> parse_duration("9s"), parse_duration("1.5min"), parse_duration("30m"), parse_duration("250ms")
    (9.0, 90.0, 1800.0, 0.25)
    """
    match = re.fullmatch(rf"\s*({_DIGITS}(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration; write a number with ms, s, min, h or d, such as 30s")
    return float(match[1]) * _DURATION_UNITS[match[2]]


def human_duration(seconds: float) -> str:
    """The duration rounded for reading.

    >>> human_duration(8.04), human_duration(95), human_duration(4000)
    ('8 s', '1 min 35 s', '1 h 6 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def human_count(count: int, noun: str) -> str:
    """A count with its noun; `noun` is the singular, whose plural ends in s.

    >>> human_count(1, "round"), human_count(12345, "trial"), human_count(0, "load")
    ('1 round', '12,345 trials', '0 loads')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def parse_percentage(text: str) -> float:
    """The fraction of a percentage such as `3%`. Raises UsageError if it is not one.

    >>> parse_percentage("3%"), parse_percentage("0.5 %")
    (0.03, 0.005)
    """
    match = re.fullmatch(rf"\s*({_DIGITS}(?:\.\d+)?)\s*%\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is not a percentage; write a number with %, such as 3%")
    return float(match[1]) / 100


def size_option(option: str, text: str, least: str = "0B", most: str = "1024TB") -> int:
    """Bytes of an option's size. Raises UsageError that names the option, also outside of these limits.

    >>> size_option("--memory", "64GB"), size_option("--memory", "1TB", most="1TB")
    (68719476736, 1099511627776)
    """
    size = _of_option(option, parse_size, text)
    if not parse_size(least) <= size <= parse_size(most):
        raise UsageError(f"{option} {text}: it must be from {least} to {most}")
    return size


def duration_option(option: str, text: str, least: str = "0s", most: str = "24d") -> float:
    """Seconds of an option's duration. Raises UsageError that names the option, also outside of these limits.

    By default the upper one is what poll(2) waits for at most.

    >>> duration_option("--interval", "250ms", "100ms"), duration_option("--unused-for", "30d", most="36500d")
    (0.25, 2592000.0)
    """
    seconds = _of_option(option, parse_duration, text)
    if not parse_duration(least) <= seconds <= parse_duration(most):
        raise UsageError(f"{option} {text}: it must be from {least} to {most}")
    return seconds


def percentage_option(option: str, text: str) -> float:
    """The fraction of an option's percentage. Raises UsageError that names the option.

    >>> percentage_option("--sample", "5%")
    0.05
    """
    return _of_option(option, parse_percentage, text)


def _of_option(option: str, parse: Callable[[str], _T], text: str) -> _T:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def spaced_sizes(text: str) -> str:
    """Sizes and percentages as prose writes them.

    >>> spaced_sizes("4kB/16kB"), spaced_sizes("memory 224MB, 8 clients"), spaced_sizes("3%")
    ('4 kB/16 kB', 'memory 224 MB, 8 clients', '3 %')
    """
    return re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)(kB|MB|GB|TB|%)(?!\w)", r"\1 \2", text)
