"""A calibration as text: lines for postgresql.conf first, then their intervals, and the residuals."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from octavo.costs.lines import figure

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def view(document: Mapping[str, Any]) -> RenderableType:
    """The document of `calibrate` for a terminal."""
    parts: list[RenderableType] = []
    for found in document["data_blocks"]:
        parts += [
            f"# data block {found['data_block']}, {document['cache']}, device {document['device']}, "
            f"PostgreSQL {document['version']}",
            *found["postgresql_conf"],
            "",
        ]
    unit = seconds(document["unit_seconds"])
    of = "8 kB of a sequential scan" if document["cache"] == "cold" else "100 rows"
    sizes = " The unit is the same for all sizes." if len(document["data_blocks"]) > 1 else ""
    parts.append(f"A cost of 1 is {unit}, which {of} take here.{sizes}")
    for found in document["data_blocks"]:
        parts += ["", _units(found, document["confidence"]), "", _residuals(found)]
    return Group(*parts)


def seconds(value: float) -> str:
    """A time in the unit that suits it.

    >>> seconds(0.00195), seconds(3.2e-8), seconds(0)
    ('1.95 ms', '32.0 ns', '0')
    """
    for scale, unit in _SCALES:
        if value >= scale * 0.9995:
            return f"{figure(value / scale)} {unit}"
    return "0" if value <= 0 else f"{figure(value * 1e9)} ns"


def _units(found: Mapping[str, Any], confidence: float) -> Table:
    table = _table(f"Measured times, data block {found['data_block']}", "time", f"{confidence:.0%} interval")
    for one in found["seconds_each"]:
        sure = "" if one["resolved"] else ", indistinguishable from 0"
        table.add_row(
            one["unit"], seconds(one["seconds"]), f"{seconds(max(0.0, one['low']))} to {seconds(one['high'])}{sure}"
        )
    return table


def _residuals(found: Mapping[str, Any]) -> Table:
    title = f"Queries as measured and as costed, data block {found['data_block']}"
    table = _table(title, "measured", "by the costs", "off by")
    for one in found["residuals"]:
        table.add_row(
            one["probe"], seconds(one["seconds"]), seconds(one["predicted"]), f"{100 * one['relative']:+.0f} %"
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    return table
