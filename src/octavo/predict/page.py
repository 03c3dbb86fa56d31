"""A prediction as one self-contained HTML page in the look of the reports: no network, no JavaScript, SVG inlined."""

from typing import Any

from markupsafe import Markup

from octavo.predict import render as terminal
from octavo.report.chart_colours import PLAIN
from octavo.report.chart_style import Chart
from octavo.report.page_template import environment, figure, style
from octavo.units import format_size

WIDTH, HEIGHT = 460, 220
_CURVES = (
    ("tps_ratio", "TPS relative to the recorded size", "TPS relative to the recorded data block."),
    ("hit_ratio", "hits in shared buffers", "Hit ratio of shared buffers."),
    ("device_read_bytes_per_transaction", "bytes per transaction", "Bytes read from the device per transaction."),
    ("device_reads_per_transaction", "requests per transaction", "Device reads per transaction."),
    ("wal_bytes_per_transaction", "bytes per transaction", "WAL per transaction: records, full-page images, headers."),
)


def render(document: dict[str, Any]) -> str:
    """The page; every text of the document is escaped."""
    advice = document["recommendation"]
    sections = [
        ("Cheaper changes at the recorded data block", terminal.cheaper_lines(document)),
        ("Cost of switching", [advice["cost"]["text"]]),
        ("What could change this result", advice["changes_if"]),
        ("Break-even: pages unused for longer are cheaper to read again", terminal.break_even_lines(document)),
        ("Rows that do not fit, or are stored differently", terminal.troubles(document)),
        ("Limitations", document["limitations"]),
    ]
    return (
        environment("octavo.predict")
        .get_template("predict.html.j2")
        .render(
            style=style(),
            facts=terminal.facts(document),
            headline=advice["sentence"],
            check=terminal.check_line(document),
            table=_table,
            heads=("data block", *(head for head, _, _ in terminal.columns(document))),
            rows=terminal.table_rows(document),
            size_heads=terminal.size_heads(document),
            size_rows=terminal.size_lines(document),
            sections=sections,
            because_heads=("data block", "figure", "assumption"),
            because=_because(document),
            figures=[figure(chart, chart.description) for chart in charts(document)],
        )
    )


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Markup:
    """A table; cell texts are escaped, and line breaks are kept."""
    lines = [
        Markup('<div class="scroll" tabindex="0" role="group" aria-label="table"><table class="plain"><thead><tr>')
    ]
    lines += [
        Markup('<th scope="col"{}>{}</th>').format(_count(place), _cell(head)) for place, head in enumerate(heads)
    ]
    lines.append(Markup("</tr></thead><tbody>"))
    for row in rows:
        cells = [Markup("<td{}>{}</td>").format(_count(place + 1), _cell(cell)) for place, cell in enumerate(row[1:])]
        lines.append(Markup('<tr><th scope="row">{}</th>{}</tr>').format(_cell(row[0]), Markup("").join(cells)))
    lines.append(Markup("</tbody></table></div>"))
    return Markup("").join(lines)


def _count(place: int) -> Markup:
    return Markup(' class="count"') if place else Markup("")


def _cell(text: str) -> Markup:
    return Markup("<br>").join(text.split("\n"))


def _because(document: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (terminal.size_name(document, row), name.replace("_", " "), row["figures"][name]["because"])
        for row in document["sizes"]
        for name, _, _ in _CURVES
        if row["figures"][name] is not None and row["figures"][name]["because"]
    ]


def charts(document: dict[str, Any]) -> list[Chart]:
    """A chart over the data blocks for each known figure, with its interval and a line for each shared_buffers."""
    return [
        _curve(document, name, title, caption)
        for name, title, caption in _CURVES
        if all(row["figures"][name] for row in document["sizes"]) and len(document["sizes"]) > 1
    ]


def _curve(document: dict[str, Any], name: str, title: str, caption: str) -> Chart:
    rows = [
        {
            "block": format_size(row["data_block_bytes"]),
            "series": _series(document, row),
            **{end: row["figures"][name][end] for end in ("value", "low", "high")},
            "recorded": row["is_recorded"],
        }
        for row in document["sizes"]
    ]
    blocks = [format_size(size) for size in sorted({row["data_block_bytes"] for row in document["sizes"]})]
    series = list(dict.fromkeys(row["series"] for row in rows))
    x = {"field": "block", "type": "ordinal", "title": "data block", "sort": blocks, "axis": {"labelAngle": 0}}
    y: dict[str, Any] = {"type": "quantitative", "title": title, "scale": {"zero": name != "hit_ratio"}}
    if name == "hit_ratio":
        y["axis"] = {"format": ".0%"}
    elif "bytes" in name:
        y["axis"] = {"format": "~s"}
    colour = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "legend": None if len(series) < 2 else {"orient": "top", "columns": 2},
        "scale": {"domain": series, "range": [PLAIN.cells[place % len(PLAIN.cells)] for place in range(len(series))]},
    }
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "area", "opacity": 0.18},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 42, "filled": True}},
            "encoding": {"x": x, "y": {**y, "field": "value"}, "color": colour},
        },
    ]
    return Chart({"data": {"values": rows}, "layer": layers, "width": WIDTH, "height": HEIGHT},
                 f"predicted-{name.replace('_', '-')}", f"{caption} Shaded: 95 % intervals.")  # fmt: skip


def _series(document: dict[str, Any], row: dict[str, Any]) -> str:
    parts: list[str] = []
    for field, word in (("shared_buffers_bytes", "of shared_buffers"), ("wal_block_bytes", "WAL blocks")):
        if len({one[field] for one in document["sizes"]}) > 1:
            parts.append(f"{format_size(row[field])} {word}")
    return ", ".join(parts) or "predicted"
