"""A surface as one self-contained HTML page in the style of the reports: no network, no JavaScript, SVG inlined."""

from typing import Any

from octavo.report.chart_colours import PLAIN
from octavo.report.chart_style import Chart
from octavo.report.page_template import environment, figure, style
from octavo.trace.render import SURFACE_HEADS, curve_name, surface_rows, verdict
from octavo.units import format_size, human_size

WIDTH, HEIGHT = 460, 300
_DASHES = {"merged": [1, 0], "spread": [6, 4], "concentrated": [2, 3]}
_MB = 1024**2


def render(document: dict[str, Any]) -> str:
    """The page; all text of the document is escaped."""
    accessed = "Bytes of all accessed pages: larger pages include data that was not accessed."
    figures = [figure(hit_ratios(document), _caption(document)), figure(working_sets(document), accessed)]
    return (
        environment("octavo.trace")
        .get_template("surface.html.j2")
        .render(
            document=document,
            style=style(),
            verdict=verdict(document),
            figures=figures,
            heads=SURFACE_HEADS,
            rows=surface_rows(document),
            facts=_facts(document),
        )
    )


def _facts(document: dict[str, Any]) -> list[str]:
    seconds = document["seconds"]
    found = [
        f"{document['accesses']:,} accesses",
        f"recorded with {human_size(document['own_page_size_bytes'])} pages",
    ]
    if seconds:
        found.append(f"{seconds:,.0f} s")
    if document["shared_buffers_bytes"]:
        found.append(f"shared_buffers {human_size(document['shared_buffers_bytes'])}")
    if document["sample_rate"]:
        found.append(f"{document['sample_rate']:.2%} of the pages sampled")
    return found


def _caption(document: dict[str, Any]) -> str:
    here = " The vertical line is the running server’s size." if document["shared_buffers_from"] == "server" else ""
    split = any(curve["layout"] != "merged" for curve in document["curves"])
    ends = " Dashed and dotted: the bounds for smaller pages." if split else ""
    points = " Points: PostgreSQL’s clock sweep." if document["clock_sweep"] else ""
    return f"Hit ratio of an LRU cache by its size, a line for each page size.{ends}{points}{here}"


def hit_ratios(document: dict[str, Any]) -> Chart:
    """The curves, the clock sweep's points, and a line at the server's shared_buffers."""
    names = [curve_name(curve) for curve in document["curves"]]
    sizes = sorted({curve["page_size_bytes"] for curve in document["curves"]})
    colour = {
        "field": "size",
        "type": "nominal",
        "title": "page size",
        "legend": {"orient": "top", "columns": 6, "symbolType": "stroke"},
        "sort": [format_size(size) for size in sizes],
        "scale": {
            "domain": [format_size(size) for size in sizes],
            "range": [PLAIN.cells[place % len(PLAIN.cells)] for place in range(len(sizes))],
        },
    }
    end = _useful_end(document)
    x = {
        "field": "mb",
        "type": "quantitative",
        "title": "shared_buffers (MB)",
        "scale": {"type": "log", "base": 2, "nice": False},
        "axis": {"tickCount": 8, "format": "~s" if end < 1 else "~f"},
    }
    y = {
        "field": "ratio",
        "type": "quantitative",
        "title": "hit ratio",
        "scale": {"zero": False},
        "axis": {"format": ".0%"},
    }
    lines = [
        {
            "mb": capacity / _MB,
            "ratio": ratio,
            "size": format_size(curve["page_size_bytes"]),
            "name": name,
            "layout": curve["layout"],
        }
        for curve, name in zip(document["curves"], names, strict=True)
        for capacity, ratio in zip(document["capacities_bytes"], curve["hit_ratios"], strict=True)
        if capacity <= end and capacity >= (curve["resolved_from_bytes"] or 0)
    ]
    dash = {
        "field": "layout",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(_DASHES), "range": list(_DASHES.values())},
    }
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": lines},
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "name"}, "strokeDash": dash},
        }
    ]
    points = [
        {
            "mb": point["shared_buffers"] / _MB,
            "ratio": point["hit_ratio"],
            "size": format_size(point["page_size"]),
        }
        for point in document["clock_sweep"]
        if point["shared_buffers"] <= end
    ]
    if points:
        layers.append(
            {
                "data": {"values": points},
                "mark": {"type": "point", "size": 45, "strokeWidth": 1.8},
                "encoding": {"x": x, "y": y, "color": colour},
            }
        )
    if document["shared_buffers_bytes"]:
        layers.append(
            {
                "data": {"values": [{"mb": document["shared_buffers_bytes"] / _MB}]},
                "mark": {"type": "rule", "color": PLAIN.soft, "strokeDash": [3, 3]},
                "encoding": {"x": x},
            }
        )
    return Chart({"layer": layers, "width": WIDTH, "height": HEIGHT}, "hit-ratios", _caption(document))


def _useful_end(document: dict[str, Any]) -> int:
    """The end of the axis: twice the last capacity that still improves the hit ratio."""
    curves, capacities = document["curves"], document["capacities_bytes"]
    last = max(
        next(c for c, ratio in zip(capacities, curve["hit_ratios"], strict=True) if ratio >= curve["hit_ratios"][-1])
        for curve in curves
    )
    return max(2 * last, 2 * (document["shared_buffers_bytes"] or 0))


def working_sets(document: dict[str, Any]) -> Chart:
    """A chart with one bar per curve."""
    rows = [
        {
            "name": curve_name(curve),
            "mb": curve["working_set_bytes"] / _MB,
            "text": human_size(curve["working_set_bytes"]),
        }
        for curve in document["curves"]
    ]
    order = [row["name"] for row in rows]
    y = {"field": "name", "type": "nominal", "title": None, "sort": order}
    x = {"field": "mb", "type": "quantitative", "title": "working set (MB)"}
    layers = [
        {"mark": {"type": "bar", "color": PLAIN.cells[3]}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "text", "align": "left", "dx": 4, "color": PLAIN.ink},
            "encoding": {"x": x, "y": y, "text": {"field": "text"}},
        },
    ]
    spec = {"data": {"values": rows}, "layer": layers, "width": WIDTH, "height": {"step": 24}}
    return Chart(spec, "working-sets", "Working set in bytes by page size; the table has the numbers.")
