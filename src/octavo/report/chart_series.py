"""Series of instruments as small panels: one for each figure, a thin line a trial, all trials begun at 0.

Each panel is a picture of its own, so that a page lays them out by its width.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup

from octavo.report import numbers
from octavo.report.chart_colours import with_variables
from octavo.report.chart_panel import LinePanel, rounded_up
from octavo.report.document import Document, Row, conditions
from octavo.report.page_template import own
from octavo.report.series_lines import MOST_POINTS, ChartLine, LineStyle, line_styles, lines_of, whole_intervals

# Of many conditions the first ones are drawn.
MOST_CONDITIONS = 4

# Metric, heading, what it note.
FIGURES = (
    ("device_read_kb_per_second", "Read at the device", "not found in any cache (rkB/s)"),
    ("device_written_kb_per_second", "Written at the device", "WAL, and pages written back (wkB/s)"),
    ("device_util", "Device in use", "of the time with a request in flight (%util)"),
    ("rareq_sz", "Bytes a read", "after merging and splitting (rareq-sz)"),
    ("wareq_sz", "Bytes a write", "after merging and splitting (wareq-sz)"),
    ("burst_credits", "Burst balance", "I/O credits that the volume has left"),
    ("memory_dirty_bytes", "Dirty in the page cache", "written, not yet at the device (Dirty)"),
    ("memory_available_bytes", "Memory available", "available on this host (MemAvailable)"),
    ("memory_page_tables_bytes", "Page tables, all processes", "the kernel's own count (PageTables)"),
    ("process_page_table_bytes", "Page tables, PostgreSQL", "sum over its processes (VmPTE)"),
    ("swap_used_bytes", "Swap in use", "of this host (SwapTotal − SwapFree)"),
    ("swapped_out_bytes_per_second", "Swapped out", "memory to swap (so)"),
    ("swapped_in_bytes_per_second", "Swapped in", "swap to memory (si)"),
    ("wal_bytes_per_second", "WAL", "generated, page headers included"),
    ("wal_full_page_images_per_second", "Full-page images", "first changes of pages since a checkpoint"),
    ("wal_amplification", "WAL written per WAL generated", "a partly filled WAL page is written again at each flush"),
)


@dataclass(frozen=True)
class Panel:
    """One figure."""

    heading: str
    unit: str
    note: str
    drawing: Markup


@dataclass(frozen=True)
class Panels:
    """The figures of one condition, with what its lines mean."""

    condition: str
    legend: list[tuple[str, Markup]]
    panels: list[Panel]


@dataclass(frozen=True)
class SeriesPart:
    """The page's section on series."""

    style: Markup
    caption: str
    conditions: list[Panels]


def series_of(document: Document) -> SeriesPart | None:
    """The panels of every condition; None for a run without series."""
    shown, cell_of, looks = _shown(document)
    found: list[Panels] = []
    for name in list(shown)[:MOST_CONDITIONS]:
        lines = {metric: lines_of(shown[name], metric, cell_of, looks) for metric, _, _ in FIGURES}
        panels = [panel for metric, heading, note in FIGURES if (panel := _panel(heading, note, *lines[metric]))]
        if panels:
            drawn = {line.look for every, _ in lines.values() for line in every}
            legend = [(look.label, _swatch(look)) for look in dict.fromkeys(looks.values()) if look in drawn]
            found.append(Panels(name, legend, panels))
    if not found:
        return None
    drawn_rows = [row for one in found for row in shown[one.condition]]
    return SeriesPart(_style(), _caption(document, drawn_rows, len(found), len(shown)), found)


def _shown(document: Document) -> tuple[dict[str, list[Row]], dict[int, str], dict[str, LineStyle]]:
    """The series by condition, in the order of the conditions; the cell of each trial; how each cell is drawn."""
    cell_of = {trial["id"]: trial["cell"] for trial in document["trials"]}
    condition_of = {cell["id"]: cell["condition"] for cell in document["cells"]}
    found: dict[str, list[Row]] = {}
    for row in document.get("series", []):
        found.setdefault(condition_of[cell_of[row["trial"]]], []).append(row)
    shown = {one: found[one] for one in conditions(document) if one in found}
    return shown, cell_of, line_styles(document)


def _panel(heading: str, note: str, lines: Sequence[ChartLine], unit: str) -> Panel | None:
    """The panel; None where nothing happened."""
    chart = _chart(heading, note, lines, unit)
    return Panel(heading, unit, note, own(chart.page())) if chart else None


def series_charts(document: Document) -> Iterator[tuple[str, str, LinePanel]]:
    """Condition, metric and chart of every panel, each with its heading."""
    shown, cell_of, looks = _shown(document)
    for name in list(shown)[:MOST_CONDITIONS]:
        for metric, heading, note in FIGURES:
            lines, unit = lines_of(shown[name], metric, cell_of, looks)
            if chart := _chart(heading, note, lines, unit):
                yield name, metric, chart


def _chart(heading: str, note: str, lines: Sequence[ChartLine], unit: str) -> LinePanel | None:
    highest = max((value for line in lines for value in line.values), default=0.0)
    if highest <= 0:
        return None
    end = max(line.seconds[-1] for line in lines)
    top = 100.0 if unit == "%" and highest <= 100 else highest if unit == "%" else rounded_up(highest)
    named = f"{heading}, {unit}" if unit else heading
    what = f"{named}: {len(lines)} trials over {numbers.seconds(end)}, at most {numbers.significant(highest)}."
    return LinePanel(what, lines, end, top, f"{heading} {unit}".strip(), note)


def _swatch(look: LineStyle) -> Markup:
    """A short piece of a cell's line, for the legend."""
    dash = f' stroke-dasharray="{" ".join(map(str, look.dash))}"' if look.dash else ""
    return own(
        with_variables(
            '<svg width="26" height="8" aria-hidden="true">'
            f'<line x1="0" x2="26" y1="4" y2="4" stroke-width="2" stroke="{look.colour}"{dash}/></svg>'
        )
    )


def _caption(document: Document, rows: Sequence[Row], count: int, among: int) -> str:
    """How to read the panels, and how much of the run is in them: of conditions so many, among all with series."""
    trials = len({row["trial"] for row in rows})
    counted = sum(1 for trial in document["trials"] if trial["used"])
    how_many = (
        f"{trials} of {counted:,} counted trials, evenly over the rounds" if trials < counted else "Every counted trial"
    )
    longest = max(math.ceil(whole_intervals(row["seconds"]) / MOST_POINTS) for row in rows)
    sentences = [
        f"{how_many}: one thin line each, starting at 0 s; every scale starts at zero.",
        f"A point is a mean of up to {longest} readings." if longest > 1 else "",
        "A shorter last interval is left out.",
        "The server reports its counters about once a second: WAL written and images may appear a second late.",
        f"Of {among} conditions the first {count} are shown." if among > count else "",
        "Metrics that stayed at zero are left out. For programs: octavo report RUN --format json --series.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


@cache
def _style() -> Markup:
    return own(resources.files("octavo.report").joinpath("series.css").read_text(encoding="utf-8"))
