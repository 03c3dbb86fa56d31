"""Synthetic traces with pgbench's own distribution, and the figures of predictions from them."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from octavo import _core

MB = 1024**2
BLOCK = 8192
ROWS = 61
RECORDS = 300.0
FACTS = {
    "server_version_num": "180006",
    "work_clients": "4",
    "processors": "2",
    "work_host_busy_share": "0.6",
}


def made(path: Path, *, pages: int = 4000, transactions: int = 20_000, seconds: float = 20.0, writes: bool = False,
         facts: dict[str, Any] | None = None, settings: dict[str, str] | None = None, lost: int = 0,
         finish: bool = True, hot: bool = False, before: int | None = None, logged: float | None = None,
         fills: tuple[float, float] = (0.95, 0.95), kinds: bool = False, late: int = 0,
         twice: float = 0.0, stretches: int = 1, pause: bool = False, database: int = 1) -> Path:  # fmt: skip
    """A table of `pages` pages of 61 rows, one looked up per transaction (`hot`: in even pages only); some change it.

    A change is of a page that was looked up; each first one is an image, except for pages that were changed by the
    `before` transactions between the last checkpoint and the trace. Pages are as full as `fills` in the images before
    the trace and in those of the trace. With `kinds` the WAL was read again (pg_walinspect). The server's counter of
    images includes `late` from before the trace. The first part of the transactions (`twice`) looks up another page,
    too. The commits of this number of `stretches` are known; `pause`: nothing was recorded for a while. The recorder
    knows the relations of a `database`; 1 is the one that is accessed.
    """
    source = random.Random(1)
    writer = _core.TraceWriter(path, BLOCK)
    for name, value in {"shared_buffers": "8MB", "wal_block_size": "8192", **(settings or {})}.items():
        writer.setting(name, value)
    writer.relation(1, database, 7, kind="r", blocks=pages, tuples=pages * ROWS, tuple_bytes=0, fillfactor=0, name="t")
    first: set[int] = set()
    other, third = random.Random(2), random.Random(3)
    had = {other.randrange(pages) for _ in range(before or 0)}
    batch: list[tuple[int, int, int, int, int, int, int, int, int]] = []
    for number in range(transactions):
        time, page = round(number * seconds * 1e6 / transactions), source.randrange(pages)
        page = page // 2 * 2 if hot else page
        if number < twice * transactions:
            batch.append((time, number % 4, 1, 1, 7, 0, third.randrange(pages), 0, 0))
        batch.append((time, number % 4, 1, 1, 7, 0, page, 0, 0))
        if writes:
            batch.append((time, number % 4, 1, 1, 7, 0, page, 2, 0))
            first.add(page)
    writer.push(batch)
    first -= had
    wal, earlier = (
        (count * RECORDS + len(images) * (fill * BLOCK + 32)) / (1 - 24 / 8192) if writes else 0.0
        for count, images, fill in ((transactions, first, fills[1]), (before or 0, had, fills[0]))
    )
    told: dict[str, Any] = {
        **FACTS, "work_transactions": transactions, "work_seconds": seconds,
        "work_cpu_seconds": transactions * 1e-4, "work_cpu_transactions": transactions,
        **({"work_wal_syncs": transactions / 2} if writes else {}),
        "checkpoint_wal_bytes": None if before is None else round(earlier),
        "checkpoint_commits": before if kinds else None,
        "checkpoint_image_bytes": round(len(had) * fills[0] * BLOCK) if kinds else None,
        "checkpoint_images": len(had) if kinds else None,
        **(facts or {}),
    }  # fmt: skip
    for name, value in told.items():
        if value is not None:
            writer.describe(name, str(value))
    writer.wal(0, round(seconds * 1e6), "", records=3 * transactions if writes else 0,
               full_page_images=len(first) + late, bytes=0, full_page_image_bytes=0,
               growth_bytes=round(wal if logged is None else logged))  # fmt: skip
    if kinds:
        amount = round(len(first) * fills[1] * BLOCK)
        writer.wal(0, round(seconds * 1e6), "Heap/UPDATE", records=transactions, full_page_images=len(first),
                   bytes=amount, full_page_image_bytes=amount, growth_bytes=0)  # fmt: skip
        ends = [round(seconds * 1e6 * part / stretches) for part in range(stretches + 1)]
        for start, end in pairwise(ends):
            writer.wal(start, end, "Transaction/COMMIT", records=transactions // stretches, full_page_images=0,
                       bytes=0, full_page_image_bytes=0, growth_bytes=0)  # fmt: skip
    if pause:
        writer.event(0, "pause_microseconds", 1_000_000)
    writer.event(round(seconds * 1e6), "transactions", transactions)
    if lost:
        writer.event(round(seconds * 1e6), "lost", lost)
    writer.finish() if finish else writer.flush()
    return path


def by_block(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Figures by data block."""
    return {row["data_block_bytes"]: row["figures"] for row in document["sizes"]}
