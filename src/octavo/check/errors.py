"""Error messages caused by a block size's limits, with the numbers that they must contain."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octavo.check import formulas
from octavo.postgres.limits import DEFAULT_BLOCK


@dataclass(frozen=True, slots=True)
class LimitError:
    """An error text whose `size` exceeds what one of the formulas gives for this block, and not for the default one."""

    pattern: re.Pattern[str]
    formulas: tuple[Callable[[int], int], ...]
    reason: str


_INDEX_TUPLES = (
    formulas.brin_tuple,
    formulas.gin_tuple,
    formulas.gist_tuple,
    formulas.hash_tuple,
    formulas.spgist_page,
)

LIMIT_ERRORS = (
    LimitError(
        re.compile(r"ERROR:  row is too big: size (?P<size>\d{1,18}), maximum size (?P<most>\d+)"),
        (formulas.heap_tuple,),
        "a row must fit on one page (MaxHeapTupleSize)",
    ),
    LimitError(
        re.compile(
            r'ERROR:  index row size (?P<size>\d{1,18}) exceeds btree version 4 maximum (?P<most>\d+) for index "\w+"'
        ),
        (formulas.btree_tuple,),
        "three B-tree keys must fit on one page (BTMaxItemSize)",
    ),
    LimitError(
        re.compile(r'ERROR:  index row size (?P<size>\d{1,18}) exceeds maximum (?P<most>\d+) for index "\w+"'),
        _INDEX_TUPLES,
        "an index row must fit on its page (the access method's largest item)",
    ),
    LimitError(
        re.compile(r'ERROR:  value (?P<size>\d{1,18}) out of bounds for option "toast_tuple_target"'),
        (formulas.toast_tuple_target_most,),
        "toast_tuple_target goes up to the largest tuple of a page (TOAST_TUPLE_TARGET_MAIN)",
    ),
    LimitError(
        re.compile(r'ERROR:  value (?P<size>\d{1,18}) out of bounds for option "siglen"'),
        (formulas.gist_key,),
        "a signature goes up to the largest GiST key of a page (GISTMaxIndexKeySize)",
    ),
)  # fmt: skip
_BOUNDS = re.compile(r'DETAIL:  Valid values are between "\d+" and "(?P<most>\d+)"\.')
# What PostgreSQL says below these errors, beside the bounds.
_MORE = re.compile(
    r'DETAIL:  Index row references tuple \(\d+,\d+\) in relation "\w+"\.'
    r"|HINT:  Values larger than 1/3 of a buffer page cannot be indexed\."
    r"|Consider a function index of an MD5 hash of the value, or use full text indexing\."
    r"|CONTEXT:  .*"
)


def explain_limit_error(output: Sequence[str], block: int) -> str | None:
    """Why this output is the expected error of the block size's limit, or None if it is not.

    The size must be too much for this block and not for 8 kB, where the statement works, and the maximum that the
    message names must be the one of the formula.
    """
    if not output:
        return None
    for error in LIMIT_ERRORS:
        match = error.pattern.fullmatch(output[0])
        if match is None:
            continue
        named = [match["most"]] if "most" in error.pattern.groupindex else []
        for line in output[1:]:
            if bounds := _BOUNDS.fullmatch(line):
                named.append(bounds["most"])
            elif line and not _MORE.fullmatch(line):
                return None
        size = int(match["size"])
        for formula in error.formulas:
            if named == [str(formula(block))] and formula(block) < size <= formula(DEFAULT_BLOCK):
                return error.reason
    return None


def explain_other_bound(expected: Sequence[str], actual: Sequence[str], block: int) -> str | None:
    """Why an error names another maximum than at 8 kB, where both outputs are the same error, or None."""
    if len(expected) != len(actual) or not expected:
        return None
    for error in LIMIT_ERRORS:
        if error.pattern.fullmatch(expected[0]) is None or error.pattern.fullmatch(actual[0]) is None:
            continue
        for formula in error.formulas:
            if list(actual) == [_with_bound(line, error, formula, block) for line in expected]:
                return error.reason
    return None


def _with_bound(line: str, error: LimitError, formula: Callable[[int], int], block: int) -> str:
    """The line with this block's maximum in place of the one for 8 kB."""
    match = error.pattern.fullmatch(line) or _BOUNDS.fullmatch(line)
    if match is None or match.groupdict().get("most") != str(formula(DEFAULT_BLOCK)):
        return line
    begin, end = match.span("most")
    return f"{line[:begin]}{formula(block)}{line[end:]}"
