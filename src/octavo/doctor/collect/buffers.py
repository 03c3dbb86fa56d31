"""Blocks that both shared_buffers and the page cache hold: a sample of pg_buffercache, looked up in the page cache.

Nothing is read: cachestat(2) counts the cached pages of a range (Linux 6.5 and later; it needs the files, so root or
the server's user). Listing the buffers costs the server about 1 µs each, so a large shared_buffers is not listed.
"""

import os
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql as composed

from octavo.doctor.collect.server import transaction
from octavo.doctor.facts import Fact
from octavo.host.careful_open import open_file
from octavo.host.page_cache import cached_pages
from octavo.postgres import sql
from octavo.postgres.user_connection import UsersConnection
from octavo.text import one_line

SHARE, USED = "server.buffers.in_page_cache_share", "server.buffers.used_bytes"
_MOST_BUFFERS = 262_144  # 2 GB of 8 kB blocks
_SAMPLE = 1000
_FORKS = ("", "_fsm", "_vm", "_init")
_INSTALL = "CREATE EXTENSION pg_buffercache"


def buffer_facts(connection: UsersConnection, directory: Path | None) -> list[Fact]:
    """The bytes of shared_buffers in use, and the share of a sample of them that is also in the page cache."""
    if directory is None:
        return _unknown("the data directory cannot be seen from here")
    try:
        with transaction(connection):
            row = connection.execute(sql.load("doctor_buffers", connection.info.server_version).encode()).fetchone()
            if row is None or row["schema"] is None:
                return _unknown(f"pg_buffercache is not in this database ({_INSTALL}, as a superuser)")
            if row["buffers"] > _MOST_BUFFERS:
                return _unknown(f"{row['buffers']:,} buffers would take the server too long to list")
            every = max(1, row["buffers"] // _SAMPLE)
            rows = connection.execute(_sample(str(row["schema"]), every)).fetchall()
    except psycopg.errors.QueryCanceled:
        return _unknown("listing the buffers took too long and was stopped")
    except psycopg.errors.InsufficientPrivilege:
        return _unknown("this user may not read pg_buffercache; GRANT pg_monitor to it")
    except psycopg.Error as error:
        return _unknown(one_line(error.diag.message_primary or error))
    return _measured(rows, directory, every, int(row["block"]), int(row["segment"]))


def _sample(schema: str, every: int) -> composed.Composed:
    """A query for every n-th buffer that holds a block of the two tablespaces inside the data directory.

    The view is qualified with its schema: another view of that name may belong to anybody.
    """
    return composed.SQL(
        "SELECT reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber FROM {}.pg_buffercache"
        " WHERE relfilenode IS NOT NULL AND reltablespace IN (1663, 1664) AND bufferid % {} = 0"
    ).format(composed.Identifier(schema), composed.Literal(every))


def _measured(rows: list[dict[str, Any]], directory: Path, every: int, block: int, segment: int) -> list[Fact]:
    by_file: dict[Path, list[int]] = {}
    for row in rows:
        at = int(row["relblocknumber"]) * block
        number = at // segment
        place = "global" if row["reltablespace"] == 1664 else f"base/{int(row['reldatabase'])}"
        fork = _FORKS[int(row["relforknumber"])]
        name = f"{int(row['relfilenode'])}{fork}{f'.{number}' if number else ''}"
        by_file.setdefault(directory / place / name, []).append(at % segment)
    seen = cached = 0
    for path, offsets in by_file.items():
        try:
            descriptor = open_file(path)
        except FileNotFoundError:  # dropped in the meantime
            continue
        except PermissionError:
            return _unknown("only the server's user and root may read its files")
        except OSError as error:
            return _unknown(f"{path}: {error.strerror}")
        try:
            cached += sum(cached_pages(descriptor, offset, block) > 0 for offset in offsets)
            seen += len(offsets)
        except OSError as error:
            return _unknown(f"{error.strerror}")
        finally:
            os.close(descriptor)
    source = f"pg_buffercache, one buffer in {every}" if every > 1 else "pg_buffercache"
    used = Fact(USED, len(rows) * every * block, source)
    if not seen:
        return [used, Fact(SHARE, unknown="no block of the sample has a file")]
    return [used, Fact(SHARE, cached / seen, f"pg_buffercache and cachestat(2), a sample of {seen:,} blocks")]


def _unknown(reason: str) -> list[Fact]:
    return [Fact(SHARE, unknown=reason), Fact(USED, unknown=reason)]
