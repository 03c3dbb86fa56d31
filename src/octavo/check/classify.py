"""What a difference from the expected output is: allowed at this block size for a named reason, or a failure.

Three kinds are recognised automatically, at every size except the default: another plan, another order of the same rows
where none was requested, and an error whose numbers are the block size's limit. Everything else must be in
differences.toml, entry by entry, with the very lines that may differ. What is in neither is a failure.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from typing import Any

from octavo.check import errors, plans, results
from octavo.check.outputs import Difference
from octavo.check.results import ResultTable
from octavo.units import parse_size

KINDS = ("plan", "order", "size", "page", "limit")
_DEFAULT = "8kB"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Why a difference is no failure: its kind and the reason in one line."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A known difference: where it may occur, and every line that it may take away or add.

    `{block}` in a line stands for the data block as pg_size_pretty writes it.
    """

    suite: str
    test: str
    kind: str
    reason: str
    statement: re.Pattern[str]
    blocks: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def covers(self, suite: str, difference: Difference, block: str) -> bool:
        """Whether this very difference is the one that the entry describes."""
        if (suite, difference.test) != (self.suite, self.test) or block not in self.blocks:
            return False
        if self.statement.search(difference.statement) is None:
            return False
        removed, added = changed_lines(difference)
        return all(_matches(line, self.removed, block) for line in removed) and all(
            _matches(line, self.added, block) for line in added
        )


def classify(suite: str, difference: Difference, block: str) -> Allowed | None:
    """Why this difference may be at this data block (`4kB`), or None: a failure.

    With 8 kB blocks nothing may differ.
    """
    if block == _DEFAULT:
        return None
    if (reason := _limit(difference, block)) is not None:
        return Allowed("limit", reason)
    if (kind := _structure(difference)) is not None:
        return Allowed(kind, _STRUCTURE_REASONS[kind])
    for entry in load_entries():
        if entry.covers(suite, difference, block):
            return Allowed(entry.kind, entry.reason)
    return None


def changed_lines(difference: Difference) -> tuple[list[str], list[str]]:
    """The lines that only the expected output has, and those that only the actual one has."""
    removed: list[str] = []
    added: list[str] = []
    matcher = SequenceMatcher(None, difference.expected, difference.actual, autojunk=False)
    for tag, first, last, begin, end in matcher.get_opcodes():
        if tag != "equal":
            removed += difference.expected[first:last]
            added += difference.actual[begin:end]
    return removed, added


_STRUCTURE_REASONS = {
    "plan": "costs count pages, so that another block size can choose another plan",
    "order": "the same rows; without ORDER BY their order is the plan's and the pages'",
}


def _limit(difference: Difference, block: str) -> str | None:
    size = parse_size(block)
    if any(line.startswith("ERROR:") for line in difference.expected):
        return errors.explain_other_bound(difference.expected, difference.actual, size)
    return errors.explain_limit_error(difference.actual, size)


def _structure(difference: Difference) -> str | None:
    """`plan` or `order` when nothing else differs, item by item, else None."""
    expected, actual = results.parse(difference.expected), results.parse(difference.actual)
    if _COPY_OUT.match(difference.statement) and Counter(difference.expected) == Counter(difference.actual):
        return "order"
    if len(expected) != len(actual):
        return None
    kinds: set[str] = set()
    for before, after in zip(expected, actual, strict=True):
        if before == after:
            continue
        if not isinstance(before, ResultTable) or not isinstance(after, ResultTable):
            return None
        if _other_plan(before, after):
            kinds.add("plan")
        elif _other_order(before, after) and not _orders(difference.statement):
            kinds.add("order")
        else:
            return None
    return "order" if "order" in kinds else "plan" if kinds else None


def _other_plan(before: ResultTable, after: ResultTable) -> bool:
    return (
        before.header.strip() == after.header.strip()
        and plans.is_plan_header(before.header)
        and plans.is_plan(before.rows)
        and plans.is_plan(after.rows)
        and plans.rows_returned(before.rows) == plans.rows_returned(after.rows)
    )


def _other_order(before: ResultTable, after: ResultTable) -> bool:
    same_frame = (before.header, before.rule, before.footer) == (after.header, after.rule, after.footer)
    return same_frame and not plans.is_plan_header(before.header) and before.multiset() == after.multiset()


# COPY of a table has no ORDER BY; of a query in parentheses it may have one.
_COPY_OUT = re.compile(r"\s*COPY\s+\w+\s*(?:\([^()]*\))?\s*TO\s+stdout\b", re.IGNORECASE)
_QUERY = re.compile(r"\s*\(*\s*(?:SELECT|TABLE|VALUES|WITH|INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
# Texts, quoted names and comments, whichever begins first: a text may contain --, and a comment a quote.
# What is left of a statement that is in parentheses as a whole: clauses that keep the order of what is inside.
_ALL_IN_PARENTHESES = re.compile(r"[();\s]*((limit|offset|fetch|for)\b.*)?", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*")


def _orders(statement: str) -> bool:
    """Whether the outermost query asks for an order, or cannot be seen not to (a cursor, a prepared statement).

    >>> _orders("SELECT * FROM (SELECT 1 ORDER BY 1) s;"), _orders("SELECT 1 ORDER BY 1;"), _orders("FETCH ALL FROM c;")
    (False, True, True)
    >>> _orders("SELECT '--' || x FROM t ORDER BY 1;"), _orders("SELECT x -- it's not: ORDER BY 1\\nFROM t;")
    (True, False)
    >>> _orders("((SELECT 1 ORDER BY 1));"), _orders("((SELECT 1));"), _orders("(SELECT 1 ORDER BY 1) UNION SELECT 2;")
    (True, False, False)
    >>> _orders("(SELECT 1 ORDER BY 1) LIMIT 3;"), _orders("(SELECT 1 ORDER BY 1)\\t;"), _orders("(SELECT 1) LIMIT 3;")
    (True, True, False)
    """
    if _QUERY.match(statement) is None:
        return True
    bare = _QUOTED.sub(" ", statement)
    while (inner := re.sub(r"\([^()]*\)", " ", bare)) != bare and not _ALL_IN_PARENTHESES.fullmatch(inner):
        bare = inner
    return re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def _matches(line: str, patterns: Sequence[str], block: str) -> bool:
    return any(re.fullmatch(pattern.replace("{block}", _pretty(block)), line) for pattern in patterns)


def _pretty(block: str) -> str:
    """The size as pg_size_pretty writes it, which changes to kB at 10 kB."""
    size = parse_size(block)
    return f"{size} bytes" if size < 10 * 1024 else f"{size // 1024} kB"


@cache
def load_entries() -> tuple[KnownDifference, ...]:
    """The known differences, from differences.toml."""
    content = tomllib.loads(resources.files("octavo.check").joinpath("differences.toml").read_text())
    return tuple(_entry(facts) for facts in content["difference"])


def _entry(facts: Mapping[str, Any]) -> KnownDifference:
    if facts["kind"] not in KINDS:
        raise ValueError(f"{facts['kind']!r} is not a kind of difference")
    return KnownDifference(
        suite=facts.get("suite", "regression"),
        test=facts["test"],
        kind=facts["kind"],
        reason=facts["reason"],
        statement=re.compile(facts["statement"], re.IGNORECASE | re.DOTALL),
        blocks=tuple(facts["blocks"]),
        removed=tuple(facts["removed"]),
        added=tuple(facts["added"]),
    )
