"""Factors that cannot matter, everywhere or in some conditions only: WAL blocks where nothing is written."""

from collections.abc import Iterable, Mapping


def split(entry: str) -> tuple[str, str, str]:
    """The factor that cannot matter, and the factor and its level where that is so; both empty if it is everywhere.

    >>> split("wal_block"), split("wal_block where mode=read-only")
    (('wal_block', '', ''), ('wal_block', 'mode', 'read-only'))
    """
    name, _, where = entry.partition(" where ")
    factor, _, level = where.partition("=")
    return name, factor, level


def negative_in(entries: Iterable[str], levels: Mapping[str, str]) -> list[str]:
    """The factors that cannot matter to a cell with these levels.

    >>> negative_in(["wal_block"], {"mode": "read-write"})
    ['wal_block']
    >>> negative_in(["wal_block where mode=read-only"], {"mode": "read-write"})
    []
    """
    parts = map(split, entries)
    return [name for name, factor, level in parts if not factor or levels.get(factor) == level]
