"""Chart of predicted against measured values: one panel per figure, both axes logarithmic, with the line of
equality."""

from collections.abc import Sequence
from typing import Any

from octavo.report.chart_colours import PLAIN
from octavo.report.chart_style import Chart
from octavo.units import format_size

SIDE = 190
_COLUMNS = 3
_TITLES = {
    "tps": "transactions a second",
    "reads_per_transaction": "reads from the kernel",
    "device_reads_per_transaction": "device reads",
    "device_read_bytes_per_transaction": "device bytes read",
    "device_all_written_bytes_per_transaction": "device bytes written",
    "wal_bytes_per_transaction": "WAL bytes",
    "full_page_images_per_transaction": "full-page images",
}


def scatter(points: Sequence[dict[str, Any]]) -> Chart:
    """A chart of the points of `against.compare`; vertical bars are the intervals. Figures without points have no
    panel."""
    shown = [name for name in _TITLES if any(one["metric"] == name for one in points)]
    panels = [
        _panel(_TITLES[name], [one for one in points if one["metric"] == name], has_legend=name == shown[0])
        for name in shown
    ]
    rows = [{"hconcat": panels[place : place + _COLUMNS]} for place in range(0, len(panels), _COLUMNS)]
    return Chart({"vconcat": rows}, "predicted-measured", "Predicted and measured values; on the line they are equal.")


def _panel(title: str, points: Sequence[dict[str, Any]], *, has_legend: bool) -> dict[str, Any]:
    values: list[dict[str, Any]] = [
        {
            "measured": one["measured"],
            "predicted": one["predicted"],
            "low": max(one["low"], one["predicted"] / 100),
            "high": one["high"],
            "device": one["device"],
            "block": format_size(one["data_block_bytes"]),
        }
        for one in points
    ]
    ends: list[float] = [row[key] for row in values for key in ("measured", "predicted")]
    low, high = min(ends) / 1.25, max(ends) * 1.25
    devices: list[str] = sorted({row["device"] for row in values})
    axis: dict[str, Any] = {"type": "log", "domain": [low, high], "nice": False, "clamp": True}
    # SI prefixes only for thousands: 900m is no way to write 0.9.
    shown = {"tickCount": 4, "format": "~s" if high > 1000 else "~g", "grid": False}
    x: dict[str, Any] = {"field": "measured", "type": "quantitative", "title": "measured", "scale": axis, "axis": shown}
    y: dict[str, Any] = {
        "field": "predicted",
        "type": "quantitative",
        "title": "predicted",
        "scale": axis,
        "axis": shown,
    }
    known = ("native", "iops=2000", "mbps=20") if set(devices) & {"native", "iops=2000", "mbps=20"} else ()
    names = [*known, *(one for one in devices if one not in known)]
    colour = {
        "field": "device",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": [PLAIN.cells[place % len(PLAIN.cells)] for place in range(len(names))]},
        "legend": {"orient": "bottom"} if has_legend else None,
    }
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"measured": end, "predicted": end} for end in (low, high)]},
            "mark": {"type": "line", "color": PLAIN.soft, "strokeDash": [3, 3]},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"values": values},
            "mark": {"type": "rule", "opacity": 0.6},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "size": 36},
            "encoding": {"x": x, "y": y, "color": colour},
        },
    ]
    return {"title": title, "layer": layers, "width": SIDE, "height": SIDE}
