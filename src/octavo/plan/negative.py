"""Factors that cannot matter, everywhere or in some conditions only: WAL blocks where nothing is written."""

from collections.abc import Iterable, Mapping


def negative_in(entries: Iterable[str], levels: Mapping[str, str]) -> list[str]:
    """The factors that cannot matter to a cell with these levels.

    An entry is a factor, or a factor with the level of another one at which it cannot matter.

    >>> negative_in(["wal_block"], {"mode": "read-write"})
    ['wal_block']
    >>> negative_in(["wal_block where mode=read-only"], {"mode": "read-write"})
    []
    """
    found: list[str] = []
    for entry in entries:
        name, _, where = entry.partition(" where ")
        factor, _, level = where.partition("=")
        if not where or levels.get(factor) == level:
            found.append(name)
    return found
