"""The chart of single trials beside the estimates, as SVG: ratios to the baseline trial of the same round."""

from typing import Any

from octavo.report import numbers
from octavo.report.chart_colours import Theme
from octavo.report.chart_style import SHAPES, inline_data, short_names, ticks, to_svg
from octavo.report.course import absent
from octavo.report.document import Document, Row, by_key, cells, clip, conditions, noise, title
from octavo.report.trials import Point, ratio_points

WIDTH = 460


def points(document: Document, theme: Theme) -> str | None:
    """Every counted trial as a ratio to the baseline trial of its round; None when there is no ratio yet."""
    import altair as alt

    primary = document["run"]["primary_metric"]
    effects = {key[0]: row for key, row in by_key(document["effects"]).items() if key[1:] == (primary, None)}
    found = ratio_points(document)
    spread = [point.value for point in found]
    spread += [row[end] for row in effects.values() for end in ("ratio", "low", "high") if row[end]]
    if not spread:
        return None
    low, high = min(*spread, 0.98) / 1.01, max(*spread, 1.02) * 1.01
    loads = sorted({point.load for point in found}, key=lambda load: (len(load), load)) or ["load 1"]
    shown = [c for c in conditions(document) if any(not cell["baseline"] for cell in cells(document, c))]
    panels = [_panel(document, c, effects, found, loads, (low, high), theme) for c in shown]
    stacked: Any = alt.vconcat(*panels, spacing=26)
    chart = stacked.resolve_scale(color="shared", shape="shared")
    name = clip(title(document, primary), 40)
    what = f"{name} of each trial relative to the baseline trial of its round."
    return to_svg(chart, theme, "points", what)


def _panel(
    document: Document,
    condition: str,
    effects: dict[str, Row],
    found: list[Point],
    loads: list[str],
    span: tuple[float, float],
    theme: Theme,
) -> Any:
    """One condition: a row a cell with its trials above and its estimate with the interval below."""
    import altair as alt

    rows = [cell for cell in cells(document, condition) if not cell["baseline"]]
    short = short_names([cell["label"] for cell in rows], 26)
    name = {cell["id"]: short[cell["label"]] for cell in rows}
    step = 34 if len(rows) <= 12 else 22
    y = alt.Y(
        "cell:N",
        sort=list(short.values()),
        title=None,
        axis=alt.Axis(domain=False, ticks=False, labelPadding=8, grid=len(rows) > 1),
    )
    scale = alt.Scale(type="log", domain=list(span), nice=False)
    values = ticks(*span)
    places = 3 if any(round(v, 2) != v for v in values) else 2
    axis = alt.Axis(values=values, format=f".{places}f" if span[1] / span[0] <= 4 else "~g")

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", scale=scale, axis=axis, title="ratio to the baseline (logarithmic scale)")

    layers: list[Any] = []
    floor = noise(document, condition)
    if floor is not None and floor["floor"]:
        edges = {"low": max(span[0], 1 / (1 + floor["floor"])), "high": min(span[1], 1 + floor["floor"])}
        layers.append(alt.Chart(inline_data([edges])).mark_rect(color=theme.band).encode(x=x("low"), x2="high:Q"))
    layers.append(alt.Chart(inline_data([{"one": 1}])).mark_rule(color=theme.ink).encode(x=x("one")))
    trials = [{"cell": name[p.cell], "ratio": p.value, "load": p.load} for p in found if p.cell in name]
    marks = range(len(loads))
    colours = alt.Scale(domain=loads, range=[theme.loads[i % len(theme.loads)] for i in marks])
    shapes = alt.Scale(domain=loads, range=[SHAPES[i % len(SHAPES)] for i in marks])
    dots = alt.Chart(inline_data(trials)).mark_point(size=46, strokeWidth=1.6, yOffset=-step // 6)
    colour = alt.Color("load:N", title=None, scale=colours, legend=alt.Legend(orient="top"))
    layers.append(dots.encode(x=x("ratio"), y=y, color=colour, shape=alt.Shape("load:N", title=None, scale=shapes)))
    missing = absent(document)
    estimates = [_estimate(name[c["id"]], effects.get(c["id"]), missing.get(c["id"], "no estimate")) for c in rows]
    base = alt.Chart(inline_data([row for row in estimates if row["ratio"]])).encode(y=y)
    ends = [row for row in estimates if row["low"] and row["high"]]
    bounded = alt.Chart(inline_data(ends)).encode(y=y)
    lower = step // 4
    layers.append(bounded.mark_rule(strokeWidth=2.4, color=theme.ink, yOffset=lower).encode(x=x("low"), x2="high:Q"))
    layers.append(base.mark_tick(thickness=2.4, size=9, color=theme.ink, yOffset=lower).encode(x=x("ratio")))
    layers.append(
        alt.Chart(inline_data(estimates))
        .encode(y=y)
        .mark_text(align="left", fontSize=12, color=theme.ink)
        .encode(x=alt.value(WIDTH + 12), text="text:N")
    )
    heading = clip(condition, 80) or "all trials"
    return alt.layer(*layers).properties(width=WIDTH, height=step * len(rows), title=heading)


def _estimate(cell: str, effect: Row | None, missing: str) -> dict[str, Any]:
    if effect is None or effect["ratio"] is None:
        return {"cell": cell, "ratio": None, "low": None, "high": None, "text": missing}
    low, high = effect["low"], effect["high"]
    text = numbers.ratio_interval(effect["ratio"], low, high)
    return {"cell": cell, "ratio": effect["ratio"], "low": low, "high": high, "text": text}
