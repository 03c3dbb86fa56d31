"""Numbers for people: three significant digits, thousands, binary sizes, ratios with intervals.

Sizes follow PostgreSQL: kB, MB, GB are powers of 1024. A missing or non-finite number is an en dash.
"""

import math
from typing import TypeGuard

from octavo.analysis import number_format

MISSING = "–"
BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
SYMBOLS = {"fraction": "", "count": "", "1": "", "1/s": "", "": ""}


def known(value: float | None) -> TypeGuard[float]:
    """Whether there is a finite number.

    >>> known(0.0), known(None), known(float("nan"))
    (True, False, False)
    """
    return value is not None and math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, thousands separated.

    >>> significant(1234.5), significant(12.345), significant(0.0012345), significant(0)
    ('1,230', '12.3', '0.00123', '0')
    >>> significant(9.999), significant(-1500.0), significant(1.5e-9), significant(None)
    ('10.0', '-1,500', '1.50e-09', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if not -6 < exponent < 15:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def ordinal(number: int) -> str:
    """A number in a row.

    >>> ordinal(2), ordinal(11), ordinal(23), ordinal(101)
    ('2nd', '11th', '23rd', '101st')
    """
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def size(count: float | None) -> str:
    """Bytes in the largest unit that leaves at least 1; means below a hundredth of a byte are only bounded.

    >>> size(417), size(6144), size(5112), size(134217728), size(0), size(None)
    ('417 B', '6 kB', '4.99 kB', '128 MB', '0 B', '–')
    >>> size(0.25), size(-2048), size(1048575), size(1023)
    ('0.25 B', '-2 kB', '1 MB', '1,023 B')
    >>> size(0.0000785)
    '<0.01 B'
    """
    if count is None or not math.isfinite(count):
        return MISSING
    if 0 < count < 0.01:
        return "<0.01 B"
    amount, unit = count, 0
    while abs(amount) >= 1023.5 and unit < len(BYTE_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    text = significant(amount, 4 if abs(amount) >= 1000 else 3)
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {BYTE_UNITS[unit]}"


def percent(fraction: float | None) -> str:
    """A fraction as percent, two significant digits below ten.

    >>> percent(0.023), percent(0.03), percent(1.084), percent(0.00012), percent(None)
    ('2.3 %', '3 %', '108 %', '0.012 %', '–')
    >>> percent(2e-12), percent(1e-22)
    ('2.0e-10 %', '1.0e-20 %')
    """
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    text = significant(100 * fraction, 2 if abs(fraction) < 0.0995 else 3)
    return f"{text.rstrip('0').rstrip('.') if '.' in text and 'e' not in text else text} %"


def noise_floor(fraction: float) -> str:
    """A noise floor as percent, and no further than tenfold.

    >>> noise_floor(0.276), noise_floor(3156.3)
    ('27.6 %', 'over 1,000 %')
    """
    return number_format.noise_floor(fraction, percent)


def seconds(duration: float | None) -> str:
    """A duration given in seconds.

    >>> seconds(14.2), seconds(0.07), seconds(200), seconds(3905), seconds(0.0000042), seconds(None)
    ('14.2 s', '70 ms', '3 min 20 s', '1 h 5 min', '4.2 µs', '–')
    >>> seconds(0), seconds(59.97), seconds(7199.6)
    ('0 s', '60.0 s', '2 h')
    """
    if duration is None or not math.isfinite(duration):
        return MISSING
    if duration == 0:
        return "0 s"
    if abs(duration) < 1e-3:
        return f"{significant(1e6 * duration, 2)} µs"
    if abs(duration) < 1:
        return f"{significant(1e3 * duration, 2)} ms"
    if abs(duration) < 60:
        return f"{significant(duration)} s"
    whole = round(duration)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".removesuffix(" 0 s")
    return f"{whole // 3600:,} h {whole % 3600 // 60} min".removesuffix(" 0 min")


def freedom(count: float) -> str:
    """Degrees of freedom.

    >>> freedom(1), freedom(12)
    ('1 degree of freedom', '12 degrees of freedom')
    """
    return f"{count:g} {'degree' if count == 1 else 'degrees'} of freedom"


def decimals(low: float | None, high: float | None) -> int:
    """Decimals a ratio needs so that the width of its interval shows, and on which side of 1 its ends are.

    >>> decimals(1.05, 1.11), decimals(0.985, 1.023), decimals(1.003, 1.13), decimals(None, None)
    (2, 3, 3, 2)
    """
    if low is None or high is None:
        return 2
    return 3 if abs(high - low) < 0.05 or 1 in (round(low, 2), round(high, 2)) else 2


def ratio(value: float | None, places: int = 2) -> str:
    """A ratio: fixed decimals near one, significant digits far from it.

    >>> ratio(1.0834), ratio(1.0834, 3), ratio(0.012345), ratio(63.718), ratio(1234.0), ratio(None)
    ('1.08', '1.083', '0.0123', '63.7', '1,230', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.{places}f}" if 0.1 <= abs(value) < 10 else significant(value)


def interval(low: float | None, high: float | None, places: int = 2) -> str:
    """An interval of ratios.

    >>> interval(1.051, 1.112), interval(None, 1.2), interval(6.57e-8, 2.66e7)
    ('1.05–1.11', 'no interval', '<0.0001–>10,000')
    """
    if not known(low) or not known(high):
        return "no interval"
    return "–".join(number_format.end_of_interval(end, lambda value: ratio(value, places)) for end in (low, high))


def ratio_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its interval, as the tables print it.

    >>> ratio_interval(1.08, 1.05, 1.11), ratio_interval(1.004, 0.985, 1.023), ratio_interval(1.2, None, None)
    ('1.08 (1.05–1.11)', '1.004 (0.985–1.023)', '1.20 (no interval)')
    """
    places = decimals(low, high)
    return f"{ratio(value, places)} ({interval(low, high, places)})"


def amount(value: float | None, unit: str | None) -> str:
    """A value in its unit, as the document names units.

    >>> amount(1234.5, "1/s"), amount(5112, "bytes"), amount(0.41, "fraction"), amount(3.21, "ms")
    ('1,230', '4.99 kB', '41 %', '3.21 ms')
    >>> amount(14.21, "s"), amount(7, None), amount(2.5, "pages"), amount(None, "bytes")
    ('14.2 s', '7.00', '2.50 pages', '–')
    >>> amount(119e6, "bytes/s")
    '113 MB/s'
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if unit in ("bytes", "B"):
        return size(value)
    if unit == "bytes/s":
        return f"{size(value)}/s"
    if unit in ("s", "seconds"):
        return seconds(value)
    if unit == "fraction":
        return percent(value)
    suffix = SYMBOLS.get(unit or "", f" {unit}")
    return f"{significant(value)}{suffix}"
