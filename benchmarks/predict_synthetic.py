"""A synthetic trace of pgbench, from its own access distribution: for sizes that do not fit on this machine.

    .venv/bin/python -m benchmarks.predict_synthetic OUT.octrace --scale 100 --transactions 1000000 [--mode read-write]

`-S` looks up a uniformly drawn account: root, inner page and leaf of the index, then the row's page. `-N` finds it
again for its UPDATE, changes that page and, if the row moves, its index, and appends to the history (pgbench's manual,
"What is the Transaction Actually Performed in pgbench?"). Rows and keys per page are those of 18.6 at 8 kB.
"""

import argparse
import itertools
import random
from pathlib import Path

import numpy as np

from octavo import _core
from octavo.postgres.limits import DEFAULT_BLOCK

BLOCK = DEFAULT_BLOCK
WAL_BLOCK = DEFAULT_BLOCK
ROWS_A_PAGE = 61
KEYS_A_LEAF = 366
LEAVES_AN_INNER = 285
HISTORY_A_PAGE = 157
ACCOUNTS = 100_000
_SPACE, _DATABASE = 1663, 5
_HEAP, _INDEX, _HISTORY = 16400, 16401, 16402
_MANY = 50_000
_READ, _EXTEND, _CHANGE = 0, 1, 2


def main() -> None:
    """Writes the trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--transactions", type=int, default=200_000)
    parser.add_argument("--mode", choices=("read-only", "read-write"), default="read-only")
    parser.add_argument("--tps", type=float, default=10_000.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processors", type=int, default=24)
    parser.add_argument("--cpu-us", type=float, default=120.0, help="of a transaction, in the server")
    parser.add_argument("--busy", type=float, default=0.5, help="the part of the host's CPU that was in use")
    parser.add_argument("--shared-buffers", default="128MB")
    parser.add_argument("--wal-bytes", type=float, default=700.0, help="of a transaction's records, for read-write")
    parser.add_argument("--seed", type=int, default=1)
    write(parser.parse_args())


def write(asked: argparse.Namespace) -> None:
    """Writes the trace's facts and accesses."""
    asked.out.unlink(missing_ok=True)
    writer = _core.TraceWriter(asked.out, BLOCK)
    rows = asked.scale * ACCOUNTS
    pages, leaves = -(-rows // ROWS_A_PAGE), -(-rows // KEYS_A_LEAF)
    for name, value in (
        ("shared_buffers", asked.shared_buffers),
        ("wal_block_size", str(WAL_BLOCK)),
        ("checkpoint_timeout", "5min"),
    ):
        writer.setting(name, value)
    for relation, kind, blocks, tuples in (
        (_HEAP, "r", pages, rows),
        (_INDEX, "i", leaves + leaves // LEAVES_AN_INNER + 2, rows),
    ):
        writer.relation(_SPACE, _DATABASE, relation, kind=kind, blocks=blocks, tuples=tuples, tuple_bytes=0,
                        fillfactor=0, name=None)  # fmt: skip
    seconds = asked.transactions / asked.tps
    facts = {
        "source": "benchmarks/predict_synthetic.py", "server_version_num": "180006", "work_seconds": seconds,
        "work_transactions": asked.transactions, "work_clients": asked.clients, "processors": asked.processors,
        "work_cpu_seconds": asked.transactions * asked.cpu_us / 1e6, "work_cpu_transactions": asked.transactions,
        "work_host_busy_share": asked.busy,
    }  # fmt: skip
    writes, images = asked.mode == "read-write", 0
    if writes:
        images = _changes(writer, asked, pages, leaves)
    else:
        _lookups(writer, asked, pages, leaves)
    grown = (
        (asked.wal_bytes * asked.transactions + images * (0.95 * BLOCK + 32)) / (1 - 24 / WAL_BLOCK) if writes else 0
    )
    writer.wal(0, round(seconds * 1e6), "", records=5 * asked.transactions if writes else 0, full_page_images=images,
               bytes=0, full_page_image_bytes=0, growth_bytes=round(grown))  # fmt: skip
    for name, value in facts.items():
        writer.describe(name, str(value))
    writer.event(round(seconds * 1e6), "transactions", asked.transactions)
    writer.finish()


def _lookups(writer: _core.TraceWriter, asked: argparse.Namespace, pages: int, leaves: int) -> None:
    """Writes the accesses of `-S`: root, inner page, leaf and row of each transaction."""
    source, inner = np.random.default_rng(asked.seed), leaves // LEAVES_AN_INNER + 1
    for begin in range(0, asked.transactions, _MANY):
        number = np.arange(begin, min(begin + _MANY, asked.transactions))
        row = source.integers(0, pages * ROWS_A_PAGE, len(number))
        leaf = np.minimum(row // KEYS_A_LEAF, leaves - 1)
        root = np.full(len(number), leaves + inner)
        blocks = np.stack([root, leaves + leaf // LEAVES_AN_INNER, leaf, row // ROWS_A_PAGE], axis=1)
        times, clients = np.rint(number * (1e6 / asked.tps)).astype(int), number % asked.clients
        writer.push(
            list(
                zip(
                    np.repeat(times, 4).tolist(),
                    np.repeat(clients, 4).tolist(),
                    itertools.repeat(_SPACE),
                    itertools.repeat(_DATABASE),
                    itertools.cycle((_INDEX, _INDEX, _INDEX, _HEAP)),
                    itertools.repeat(0),
                    blocks.ravel().tolist(),
                    itertools.repeat(_READ),
                    itertools.repeat(0),
                )
            )
        )


def _changes(writer: _core.TraceWriter, asked: argparse.Namespace, pages: int, leaves: int) -> int:
    """Writes the accesses of `-N`. Returns how many pages were changed for the first time."""
    source = random.Random(asked.seed)
    first: set[tuple[int, int]] = set()
    batch: list[tuple[int, int, int, int, int, int, int, int, int]] = []
    step = 1e6 / asked.tps
    inner = leaves // LEAVES_AN_INNER + 1

    def push(time: int, client: int, relation: int, block: int, kind: int) -> None:
        batch.append((time, client, _SPACE, _DATABASE, relation, 0, block, kind, 0))
        if kind == _CHANGE:
            first.add((relation, block))

    for number in range(asked.transactions):
        time, client = round(number * step), number % asked.clients
        row = source.randrange(pages * ROWS_A_PAGE)
        leaf = min(row // KEYS_A_LEAF, leaves - 1)
        page = row // ROWS_A_PAGE
        for _ in range(2):
            push(time, client, _INDEX, leaves + inner, _READ)
            push(time, client, _INDEX, leaves + leaf // LEAVES_AN_INNER, _READ)
            push(time, client, _INDEX, leaf, _READ)
            push(time, client, _HEAP, page, _READ)
        push(time, client, _HEAP, page, _CHANGE)
        # The first update of a row moves it, as its page is full: to a new page at the table's end, with a new key.
        target = pages + number // ROWS_A_PAGE
        push(time, client, _HEAP, target, _EXTEND if number % ROWS_A_PAGE == 0 else _READ)
        push(time, client, _HEAP, target, _CHANGE)
        push(time, client, _INDEX, leaf, _READ)
        push(time, client, _INDEX, leaf, _CHANGE)
        push(time, client, _HISTORY, number // HISTORY_A_PAGE, _EXTEND if number % HISTORY_A_PAGE == 0 else _READ)
        push(time, client, _HISTORY, number // HISTORY_A_PAGE, _CHANGE)
        if len(batch) > _MANY:
            writer.push(batch)
            batch.clear()
    writer.push(batch)
    return len(first)


if __name__ == "__main__":
    main()
