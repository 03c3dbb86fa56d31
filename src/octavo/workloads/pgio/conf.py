"""The original's pgio.conf: a shell file that its scripts source. Here it is parsed and never executed.

It accepts assignments, `export`, quotes, comments, and whole numbers in `$(( … ))`, and rejects everything else that a
shell would expand or run. The keys and their meaning: README, setup.sh and runit.sh of PGIO 1.0.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import UsageError
from octavo.toml import read_toml
from octavo.units import format_size

# The original's block: it counts in blocks of 8 kB whatever the server's are.
_BLOCK = 8192
_FEWEST_BLOCKS = 1024
_UNITS = {"M": 1024**2, "G": 1024**3, "T": 1024**4}
_ARITHMETIC = re.compile(r"\$\(\(([0-9+*/%()\t -]{1,100})\)\)")
# Characters that a shell would interpret, and which these files do not need.
_NOT_READ = re.compile(r"[$`;&|<>(){}!\\*?\[\]~]")
_TOKEN = re.compile(r"\s*(?:(\d{1,15})|([-+*/%()]))")
_MOST = 10**15
_DEEPEST = 20

# The factor for each key, and how its value becomes a level.
_FACTORS = {
    "NUM_SCHEMAS": "schemas",
    "NUM_THREADS": "threads",
    "WORK_UNIT": "work_unit",
    "UPDATE_PCT": "update_pct",
    "UPDATE_WORK_UNIT": "update_work_unit",
    "SCALE": "scale",
    "RUN_TIME": "duration",
}
_DBNAME, _CONNECT, _CREATE = "DBNAME", "CONNECT_STRING", "CREATE_BASE_TABLE"
KEYS = (*_FACTORS, _DBNAME, _CONNECT, _CREATE)
_DEFAULT_DATABASE = "pg10"
# Parts of a connection string that name a server; servers are Octavo's own.
_LEADS_ELSEWHERE = ("host", "hostaddr", "port", "service")
_WAY_OUT = "name PGIO's configuration, or set its factors with --set (docs/workloads.md)"


@dataclass(frozen=True, slots=True)
class Conf:
    """`levels` by factor, for the keys in the file; `database` is DBNAME. `makes_data`: CREATE_BASE_TABLE; without it
    the original reuses the data of an earlier run."""

    levels: Mapping[str, str]
    database: str
    makes_data: bool


def read_conf(path: Path) -> Conf:
    """Parses the file. Raises UsageError, one line with the file and the line in it."""
    return parse_conf(read_toml(path, way_out=_WAY_OUT), str(path))


def parse_conf(text: str, origin: str) -> Conf:
    """Parses the text of a pgio.conf; a repeated key has its last value. Raises UsageError.

    >>> parse_conf("SCALE=1024M\\nRUN_TIME=$(( 60 * 60)) # an hour", "pgio.conf").levels
    {'scale': '1GB', 'duration': '3600s'}
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            values |= _assignments(line)
        except UsageError as error:
            raise UsageError(f"{origin}, line {number}: {error}") from None
    levels: dict[str, str] = {}
    for key, name in _FACTORS.items():
        if key in values:
            try:
                levels[name] = _LEVELS[key](values[key])
            except UsageError as error:
                raise UsageError(f"{origin}: {key}={values[key][:40]}: {error}") from None
    try:
        database = _database(values)
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    # setup.sh makes the data only for TRUE (the README says the opposite).
    return Conf(levels, database, values.get(_CREATE, "TRUE") == "TRUE")


def _database(values: Mapping[str, str]) -> str:
    """The database in the result line. Raises UsageError if the connection leads to another database, in which case the
    original would work in one and count the other, or to a server."""
    counted = values.get(_DBNAME, _DEFAULT_DATABASE)
    connected = _connected(values[_CONNECT]) if _CONNECT in values else None
    if _DBNAME in values and connected is not None and connected != counted:
        raise UsageError(
            f"{_CONNECT} leads to the database {connected[:40]!r} and {_DBNAME} is {counted[:40]!r}: PGIO would "
            "count in another database than it uses; write the same name in both"
        )
    return counted if _DBNAME in values or connected is None else connected


def _connected(text: str) -> str | None:
    """The database in a connection string for psql, None if it names none."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if text.startswith("-") or " -" in text:
        raise UsageError(f"{_CONNECT} has options of psql; write the database's name")
    if "=" not in text and "://" not in text:
        return text or None
    try:
        found = conninfo_to_dict(text)
    except ProgrammingError:  # its message may contain a password
        raise UsageError(f"{_CONNECT} is not a connection string; write the database's name") from None
    if elsewhere := [name for name in _LEADS_ELSEWHERE if name in found]:
        raise UsageError(
            f"{_CONNECT} has {', '.join(elsewhere)}, and octavo run measures servers of its own; write the database's "
            "name"
        )
    return str(found["dbname"]) if "dbname" in found else None


def _assignments(line: str) -> dict[str, str]:
    """The assignments of a line, by key."""
    plain = _ARITHMETIC.sub(lambda found: str(_whole(found[1])), line)
    try:
        words = shlex.split(plain, comments=True)
    except ValueError:
        raise UsageError("unterminated quoted string") from None
    if words[:1] == ["export"]:
        words = words[1:]
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word[:40]!r} is not an assignment; the file is parsed, not executed: write KEY=value")
        if key not in KEYS:
            raise UsageError(f"unknown key {key[:40]!r}; allowed: {', '.join(KEYS)}")
        if sign := _NOT_READ.search(value):
            raise UsageError(
                f"{key}: the file is parsed, not executed, so that {sign[0]!r} has no meaning; write the value"
            )
        found[key] = value
    return found


def _number(low: int, high: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not text.isascii() or not text.isdecimal() or len(text) > 15 or not low <= int(text) <= high:
            raise UsageError(f"allowed: whole numbers from {low} to {high}")
        return str(int(text))

    return check


def _seconds(text: str) -> str:
    return f"{_number(1, 86_400)(text)}s"


def _scale(text: str) -> str:
    """The bytes of so many blocks of 8 kB, or of so many M, G or T (f_fix_scale)."""
    found = re.fullmatch(r"\s*(\d{1,15})\s*([MGT]?)\s*", text, re.ASCII)
    size = int(found[1]) * _UNITS.get(found[2], _BLOCK) if found else 0
    if size < _FEWEST_BLOCKS * _BLOCK:
        raise UsageError("allowed: 1024 blocks of 8 kB or more, or a number with M, G or T, such as 8M")
    return format_size(size)


_LEVELS: dict[str, Callable[[str], str]] = {
    "NUM_SCHEMAS": _number(1, 8192),
    "NUM_THREADS": _number(1, 1000),
    "WORK_UNIT": _number(1, 100_000),
    "UPDATE_PCT": _number(0, 100),
    "UPDATE_WORK_UNIT": _number(1, 100_000),
    "SCALE": _scale,
    "RUN_TIME": _seconds,
}


def _whole(text: str) -> int:
    """The value of an arithmetic expression of whole numbers, computed as in a shell (division truncates towards zero).

    Raises UsageError when it is not one, or exceeds 10^15.
    """
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UsageError(f"$(({text})) is not an arithmetic expression of whole numbers")
        tokens.append(found[1] or found[2])
        at = found.end()
    value = _sum(tokens, 0)
    if tokens:
        raise UsageError(f"$(({text})) is not an arithmetic expression of whole numbers")
    return value


def _sum(tokens: list[str], depth: int) -> int:
    value = _product(tokens, depth)
    while tokens[:1] in (["+"], ["-"]):
        sign = tokens.pop(0)
        other = _product(tokens, depth)
        value = _within(value + other if sign == "+" else value - other)
    return value


def _product(tokens: list[str], depth: int) -> int:
    value = _factor(tokens, depth)
    while tokens[:1] in (["*"], ["/"], ["%"]):
        sign = tokens.pop(0)
        other = _factor(tokens, depth)
        if sign == "*":
            value = _within(value * other)
            continue
        if other == 0:
            raise UsageError("a division by zero")
        quotient = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
        value = quotient if sign == "/" else value - quotient * other
    return value


def _factor(tokens: list[str], depth: int) -> int:
    if depth > _DEEPEST or not tokens:
        raise UsageError("an arithmetic expression is expected in $(( … ))")
    first = tokens.pop(0)
    if first in ("+", "-"):
        return _factor(tokens, depth + 1) * (1 if first == "+" else -1)
    if first != "(":
        if not first.isdecimal():
            raise UsageError(f"{first!r} in $(( … )) is not a number")
        if len(first) > 1 and first.startswith("0"):
            raise UsageError(f"{first} in $(( … )) is octal in a shell; write it without the leading 0")
        return int(first)
    value = _sum(tokens, depth + 1)
    if tokens[:1] != [")"]:
        raise UsageError("unbalanced parenthesis in $(( … ))")
    tokens.pop(0)
    return value


def _within(value: int) -> int:
    if abs(value) > _MOST:
        raise UsageError(f"a number in $(( … )) is larger than {_MOST}")
    return value
