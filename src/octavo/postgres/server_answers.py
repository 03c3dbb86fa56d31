"""Answers of a user's server as plain values: numbers of limited size, text, lists of text, JSON; whatever it sends.

Any local user can listen on a socket like PostgreSQL's, declare a column numeric, and send 1E+999999999, which takes
all memory when converted to an integer; or send a date, or nested lists, on which callers fail. So only these types are
accepted, numbers are converted by our own code, and values that cannot be read raise psycopg.DataError.
"""

import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Self

import psycopg
from psycopg import postgres
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.rows import Row

# The share of the machine's memory that an answer may use.
SHARE_OF_MEMORY = 0.25
# The approximate memory of a row in Python, and of each value in it, in addition to libpq's.
_ROW_BYTES, _VALUE_BYTES = 300, 100
# PostgreSQL counts in 64 bits; sums of such counters are numerics with a few more digits.
_MOST_DIGITS, _LONGEST_NUMBER = 40, 1000
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"\\]+)', re.DOTALL)
# The exceptions of code that gets other columns, rows or words than PostgreSQL's.
WRONG = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError)
_WHOLE = ("int2", "int4", "int8", "oid", "xid", "xid8", "cid")
_REAL = ("float4", "float8")
_LISTS = ("text", "name", "varchar")


class _Text(Loader):
    """Text from any bytes: the database may not know their encoding (SQL_ASCII)."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        encoding = self.connection.info.encoding if self.connection is not None else "ascii"
        self._encoding = "utf-8" if encoding == "ascii" else encoding

    def load(self, data: Buffer) -> Any:
        return bytes(data).decode(self._encoding, errors="replace")


class _Whole(Loader):
    def load(self, data: Buffer) -> int:
        if len(data) > _MOST_DIGITS:
            raise psycopg.DataError("an integer in the server's answer is too long")
        return int(bytes(data))


class _Numeric(Loader):
    """An integer if the value is one, else a floating-point number."""

    def load(self, data: Buffer) -> int | float:
        number = Decimal(bytes(data).decode()) if len(data) <= _LONGEST_NUMBER else Decimal("NaN")
        if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
            raise psycopg.DataError("a number in the server's answer is too large")
        return int(number) if number == number.to_integral_value() else float(number)


class _Words(_Text):
    """A one-dimensional array of text."""

    def load(self, data: Buffer) -> Any:
        text: str = super().load(data)
        if not (text.startswith("{") and text.endswith("}")):
            raise psycopg.DataError("an array in the server's answer is none of text")
        found = _ELEMENT.finditer(text[1:-1])
        return [re.sub(r"\\(.)", r"\1", one[1], flags=re.DOTALL) if one[2] is None else one[2] for one in found]


class _Json(Loader):
    def load(self, data: Buffer) -> Any:
        return json.loads(bytes(data))


class _Refused(Loader):
    """Rejects the binary format, because we request text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        del data
        raise psycopg.DataError("the server's answer is not in the format that was asked for")


@dataclass(frozen=True, slots=True)
class _Context:
    """The object from which psycopg takes a connection's adapters."""

    adapters: AdaptersMap
    connection: None = None


@cache
def plain() -> _Context:
    """The conversion of the server's types, for `psycopg.Connection.connect(context=…)`."""
    found = AdaptersMap(postgres.adapters)
    special: dict[str, type[Loader]] = {
        **dict.fromkeys(_WHOLE, _Whole), "numeric": _Numeric, "json": _Json, "jsonb": _Json,
    }  # fmt: skip
    for kind in postgres.types:
        found.register_loader(kind.oid, _Refused)
        found.register_loader(kind.array_oid, _Refused)
        if kind.name not in (*_REAL, "bool"):
            found.register_loader(kind.oid, special.get(kind.name, _Text))
        found.register_loader(kind.array_oid, _Words if kind.name in _LISTS else _Text)
    found.register_loader(0, _Refused)
    found.register_loader(0, _Text)
    return _Context(found)


@contextmanager
def as_data_error() -> Generator[None, None, None]:
    """Turns errors caused by the server's answer into psycopg's own errors."""
    try:
        yield
    except (psycopg.Error, StopIteration):
        raise
    except Exception as error:
        raise psycopg.DataError(f"the server's answer is not PostgreSQL's ({type(error).__name__})") from None


class AnswerCursor(psycopg.Cursor[Row]):
    """A cursor that raises only psycopg.Error, and rejects an answer that would exhaust the memory."""

    _most_bytes: ClassVar[float] = SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def execute(self, *arguments: Any, **options: Any) -> Self:
        """Like psycopg's."""
        with as_data_error():
            super().execute(*arguments, **options)
            if (result := self.pgresult) is not None:
                takes = result.ntuples * (_ROW_BYTES + result.nfields * _VALUE_BYTES)
                if takes > self._most_bytes:
                    raise psycopg.DataError(f"the server's answer has {result.ntuples} rows, too many for the memory")
        return self

    def fetchone(self) -> Row | None:
        """Like psycopg's."""
        with as_data_error():
            return super().fetchone()

    def fetchall(self) -> list[Row]:
        """Like psycopg's."""
        with as_data_error():
            return super().fetchall()

    def __next__(self) -> Row:
        """Like psycopg's."""
        with as_data_error():
            return super().__next__()
