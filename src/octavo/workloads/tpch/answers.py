"""Checks a query's result: against the reference answer row by row, or against the other cells' results.

Numbers are compared as the specification requires for validation, rounded to 1/100 (TPC-H 3.0, clause 2.1.3.5), but
more strictly: the specification allows sums to be off by 100 and averages by 1 %, while PostgreSQL computes with
decimals, as the reference did for all but averages and quotients. So two numbers are equal if they are equal after
rounding, and differ by no more than a millionth of the larger one.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from decimal import ROUND_HALF_UP, Decimal

from octavo.errors import OctavoError

Row = tuple[str, ...]

_HUNDREDTH = Decimal("0.01")
_RELATIVE = Decimal("1e-6")
_PRECISION = Decimal("1e-12")  # of numbers that the reference stores in binary
# The most digits, because decimals are computed with 28.
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,30})?")
_SHOWN = 60  # characters of a value in a message


def as_text(values: Sequence[object]) -> Row:
    """A row as text: NULL is empty, and trailing blanks are removed (char(n) has them, the reference does not).

    >>> as_text([None, "ASIA   ", Decimal("0E-3"), 7])
    ('', 'ASIA', '0.000', '7')
    """
    return tuple(_as_text(value) for value in values)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else str(value).rstrip()


def check(
    rows: Sequence[Row],
    reference: Sequence[Row],
    where: str,
    left_out: Collection[int] = (),
    ordered_by: Sequence[int] = (),
) -> None:
    """Raises OctavoError with the first different row when the result is not the reference answer.

    Columns that are `left_out`, counted from 0, may have any text. Rows that are equal in the columns `ordered_by`,
    those of the query's ORDER BY, may come in any order.
    """
    if len(rows) != len(reference):
        raise OctavoError(f"{where}: wrong result: {len(rows)} rows, the reference has {len(reference)}")
    mine, right = _without(rows, left_out), _without(reference, left_out)
    problem = difference(mine, right)
    if problem is None:
        return
    if difference(sorted(mine), sorted(right)) is not None:
        raise OctavoError(f"{where}: wrong result: {problem}")
    if difference(keys(mine, ordered_by), keys(right, ordered_by)) is not None:
        raise OctavoError(f"{where}: wrong order of rows: {problem}")


def keys(rows: Sequence[Row], ordered_by: Sequence[int]) -> list[Row]:
    """The sort key of rows: these columns, counted from 0."""
    return [tuple(row[column] for column in ordered_by) for row in rows]


def _without(rows: Sequence[Row], left_out: Collection[int]) -> list[Row]:
    return [tuple("" if column in left_out else value for column, value in enumerate(row)) for row in rows]


def difference(rows: Sequence[Row], reference: Sequence[Row]) -> str | None:
    """A description of the first value that differs; None if all are equal."""
    for number, (row, right) in enumerate(zip(rows, reference, strict=True), 1):
        if len(row) != len(right):
            return f"row {number} has {len(row)} columns, not {len(right)}"
        for column, (value, known) in enumerate(zip(row, right, strict=True), 1):
            if not same(value, known):
                return f"row {number}, column {column} is {value[:_SHOWN]!r}, not {known[:_SHOWN]!r}"
    return None


def same(value: str, known: str) -> bool:
    """Whether two values are equal; numbers are rounded.

    >>> same("0.0388", "0.038789"), same("25.5220058532573370", "25.522005853257337"), same("100.01", "100.02")
    (False, True, False)
    >>> same("37734107.00", "37734107"), same("BRASIL", "BRAZIL"), same("", "")
    (True, False, True)
    """
    known = known.rstrip()
    if value == known:
        return True
    one, other = _number(value), _number(known)
    if one is None or other is None:
        return False
    largest = max(abs(one), abs(other))
    if abs(one - other) <= _PRECISION * largest:
        return True
    return _rounded(one) == _rounded(other) and abs(one - other) <= _RELATIVE * largest


def digest(rows: Sequence[Row]) -> str:
    """The digest of a result: its rows in any order. Decimals are the same at every block size."""
    return digest_in_order(sorted(rows))


def digest_in_order(rows: Sequence[Row]) -> str:
    """The digest of rows in this order."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update("\x1f".join(row).encode() + b"\x1e")
    return whole.hexdigest()[:16]


def _number(text: str) -> Decimal | None:
    """A number with an allowed number of digits; None for anything else."""
    if _NUMBER.fullmatch(text) is None:
        return None
    return Decimal(text)


def _rounded(number: Decimal) -> Decimal:
    return number.quantize(_HUNDREDTH, ROUND_HALF_UP)
