"""Predicted against measured in the terminal."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from octavo.postgres.limits import DEFAULT_BLOCK
from octavo.predict.against import best_blocks
from octavo.report import numbers
from octavo.units import human_count, human_size


def view(document: dict[str, Any]) -> Group:
    """The errors of the figures in summary, then each point."""
    return Group(
        Text("Error of the predictions:"),
        _summary(document["summary"]),
        Text(),
        *(Text(best_line(one)) for one in best_blocks(document["points"])),
        Text(),
        _points(document["points"]),
    )


def best_line(one: dict[str, Any]) -> str:
    """The predicted and the measured best block.

    >>> best_line({"device": "native", "shared_buffers_bytes": 2**26, "memory_bytes": None, "clients": 4,
    ...            "predicted_block_bytes": 4096, "measured_block_bytes": 4096, "lost": 0.0, "workload": None})
    'device native, 64 MB of shared_buffers, 4 clients: 4 kB predicted and measured to be fastest'
    """
    here = f"device {one['device']}, {human_size(one['shared_buffers_bytes'])} of shared_buffers"
    if one["memory_bytes"]:
        here += f", {human_size(one['memory_bytes'])} of memory"
    if one["clients"]:
        here += f", {human_count(one['clients'], 'client')}"
    if one.get("wal_block_bytes") not in (None, DEFAULT_BLOCK):
        here += f", {human_size(one['wal_block_bytes'])} WAL blocks"
    if one.get("until_checkpoint"):
        here += ", after a checkpoint"
    named = f"{human_size(one['predicted_block_bytes'])} predicted to be fastest"
    if one["predicted_block_bytes"] == one["measured_block_bytes"]:
        return f"{here}: {human_size(one['predicted_block_bytes'])} predicted and measured to be fastest"
    return (
        f"{here}: {named}, {human_size(one['measured_block_bytes'])} measured; the predicted one is "
        f"{100 * one['lost']:.1f} % slower"
    )


def _summary(rows: list[dict[str, Any]]) -> Table:
    table = _table(("figure", "device", "count", "median\nerror", "largest\nerror", "intervals\nthat hold"))
    for row in rows:
        table.add_row(
            row["metric"].replace("_", " "),
            row["device"],
            str(row["count"]),
            *(f"{100 * row[name]:.1f} %" for name in ("median_error", "largest_error")),
            f"{100 * row['covered']:.0f} %",
        )
    return table


def _points(rows: list[dict[str, Any]]) -> Table:
    table = _table(("figure", "device", "block", "measured", "predicted", "error"))
    for row in sorted(rows, key=lambda one: (one["metric"], one["device"], one["data_block_bytes"])):
        table.add_row(
            row["metric"].removesuffix("_per_transaction").replace("_", " "),
            row["device"],
            human_size(row["data_block_bytes"]),
            numbers.significant(row["measured"]),
            f"{numbers.significant(row['predicted'])} ({numbers.significant(row['low'])}–"
            f"{numbers.significant(row['high'])})",
            f"{100 * row['error']:+.1f}%",
        )
    return table


def _table(heads: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place > 1 else "left")
    return table
