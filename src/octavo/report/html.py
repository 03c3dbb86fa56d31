"""The report as one self-contained HTML page: no network, no JavaScript, charts as inlined SVG."""

import re
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from octavo.analysis.limitations import recorded_hosts
from octavo.plan.condition_text import capital
from octavo.report import chart_run, chart_trials, grids, numbers
from octavo.report.answer import answer
from octavo.report.applied_settings import applied_settings
from octavo.report.bottlenecks import bottleneck_tables
from octavo.report.chart_colours import PLAIN, variables
from octavo.report.chart_series import series_of
from octavo.report.document import (
    Document,
    attempted,
    better_direction,
    clean,
    clip,
    compared,
    conditions,
    factors,
    is_imported,
    left_out,
    main_cells,
    settings_that_differ,
    title,
    unit,
)
from octavo.report.grids import class_of
from octavo.report.items import items_of, steps
from octavo.report.memo import remembered
from octavo.report.page_template import environment, own, style
from octavo.report.picture import forest_heading, heading, heat_grids, is_forest
from octavo.report.plain import cell_heading, condition_text
from octavo.report.run_history import disturbances, ending_sentence, loads_text, rounds_text, time_sentence
from octavo.report.sentences import limits_of, run_notes, status_sentence
from octavo.report.tables import (
    controls,
    item_tables,
    metric_table,
    sentences,
    statistical_model,
    unfolded,
    verdict_table,
)
from octavo.report.trials import step

MOST_IDS = 100


@dataclass(frozen=True)
class Figure:
    """A chart that is being drawn."""

    svg: Future[str]
    caption: str

    @property
    def drawing(self) -> Markup:
        """Its SVG, as soon as it is drawn."""
        return own(self.svg.result())


def render(document: Document, *, refresh: int | None = None, home: str | None = None) -> str:
    """The page; every text of the document is escaped, only our own style sheet and SVG are markup.

    With `refresh` a browser loads it again every so many seconds; `home` is the address of a page that lists runs.
    """
    document = remembered(document)
    with ThreadPoolExecutor(1) as pool:  # the charts are drawn beside the rest of the page
        text = _page(document, _figures(document, pool), refresh, home)
    text = text.replace("<style>", f"<style>{variables(text)}", 1)  # ours: the texts before it are escaped
    return text.encode("utf-8", "replace").decode("utf-8")


def _page(document: Document, figures: dict[str, Figure], refresh: int | None, home: str | None) -> str:
    trials = attempted(document)
    page = _environment().get_template("page.html.j2")
    verdicts = [verdict_table(document, condition) for condition in conditions(document)]
    return page.render(
        document=document,
        refresh=refresh,
        home=home,
        imported=is_imported(document),
        run=document["run"],
        environment=document["environment"],
        style=_style(),
        heading=clip(clean(document["run"]["name"]), 120),
        status=status_sentence(document),
        answer=answer(document),
        forest=is_forest(document) and "points" in figures,
        forest_heading=forest_heading(document),
        cell_heading=clip(cell_heading(document), 60),
        picture=heat_grids(document),
        picture_heading=heading(document),
        picture_note=_picture_note(document),
        steps=steps(document),
        metric=clip(clean(title(document, document["run"]["primary_metric"])), 60),
        metric_unit=_unit(document),
        ending=ending_sentence(document),
        rounds=rounds_text(document),
        loads=loads_text(document),
        alarms=document.get("alarms", []),
        verdicts=verdicts,
        verdicts_shown=unfolded(verdicts),
        bottlenecks=bool(document.get("bottlenecks")),
        sentences=[one for condition in conditions(document) for one in sentences(document, condition)],
        controls=[controls(document, condition) for condition in conditions(document)],
        controls_note=_controls_note(document),
        limits=limits_of(document),
        figures=figures,
        tables=[metric_table(document, condition) for condition in conditions(document)],
        items=items_of(document),
        item_tables=list(item_tables(document)),
        models=[found for condition in conditions(document) if (found := statistical_model(document, condition))],
        notes=run_notes(document),
        spent=time_sentence(document),
        series=series_of(document),
        bottleneck_tables=list(bottleneck_tables(document)),
        hosts=recorded_hosts(document["environment"]),
        disturbances=disturbances(document),
        left_out=left_out(document),
        counts={"trials": len(trials), "used": sum(1 for trial in trials if trial["used"])},
        settings=settings_that_differ(document),
        constant=_constant(document),
        applied_settings=applied_settings(document),
    )


@cache
def _environment() -> Environment:
    return environment(
        "octavo.report",
        clean=clean,
        clip=clip,
        square_class=class_of,
        size=numbers.size,
        seconds=numbers.seconds,
        percent=numbers.percent,
        joined=_joined,
        whole=whole,
        breakable=grids.breakable,
        condition_text=condition_text,
        capital=capital,
        moment=moment,
    )


@cache
def _style() -> Markup:
    return style(grids.style())


def moment(text: object) -> str:
    """An ISO time to the minute, its zone kept; anything else as it is."""
    try:
        when = datetime.fromisoformat(str(text))
    except ValueError:
        return clip(clean(text), 40)
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".rstrip()


def whole(text: object) -> str:
    """Text whose figures stay on one line with their units.

    >>> whole("7 from 31 min 2 s to 2 h at 32 kB").replace("\N{NO-BREAK SPACE}", "_")
    '7 from 31_min 2_s to 2_h at 32_kB'
    """
    return re.sub(
        r"(?<=\d) (?=(?:%|[kMGT]B|MB/s|IOPS|[mµ]?s|min|h)(?![A-Za-z]))", "\N{NO-BREAK SPACE}", str(text)
    ).replace(" %", "\N{NO-BREAK SPACE}%")


def _joined(ids: Iterable[object]) -> str:
    """Ids with commas; of many the first, and how many more there are."""
    every = [str(one) for one in ids]
    more = f", and {len(every) - MOST_IDS:,} more" if len(every) > MOST_IDS else ""
    return ", ".join(every[:MOST_IDS]) + more


def _unit(document: Document) -> str:
    found = unit(document, document["run"]["primary_metric"]) or ""
    return "" if found in ("1", "1/s", "s", "seconds", "bytes", "fraction") else clip(found, 20)


def _picture_note(document: Document) -> str:
    """How to read the heatmaps."""
    table = any(grid.y == "condition" for grid in heat_grids(document))
    better = better_direction(document)
    aa = any(cell["control"] for cell in document["cells"])
    return (
        "Each square is a percentage of the baseline, with its 95 % interval below; ×11 is 11 times the baseline. "
        f"{capital(grids.meaning_of_colours(better))}{' (less is better)' if better == 'lower' else ''}, in the steps "
        f"above. A dotted outline and a question mark: undecided{'' if table else '; a heavy outline: the baseline'}."
        f"{' The A/A control is below, among the controls.' if aa else ''}"
    )


def _controls_note(document: Document) -> str:
    """The noise floors of the primary metric, from the smallest to the largest."""
    primary = document["run"]["primary_metric"]
    floors = [
        row["floor"] for row in document["noise_floor"]
        if row["metric"] == primary and row["item"] is None and row["floor"] is not None
    ]  # fmt: skip
    if not floors:
        return "no noise floor known"
    ends = dict.fromkeys(numbers.noise_floor(end) for end in (min(floors), max(floors)))
    return f"noise floor {' to '.join(ends)}"


def _captions(document: Document) -> dict[str, str]:
    """How to read each chart."""
    primary = document["run"]["primary_metric"]
    floors = [row["floor"] for row in document["noise_floor"] if row["metric"] == primary]
    every = step(document)
    sample = (
        f" Of {len(document['trials']):,} trials those of every {numbers.ordinal(every)} round are shown."
        if every > 1
        else ""
    )
    cut = any(main_cells(document, condition)[1] for condition in conditions(document))
    some = " Only cells that differ from the baseline in one factor are shown." if cut else ""
    count, drawn = len(conditions(document)), len(chart_trials.drawn_conditions(document))
    first_rows = f" The first {drawn} of {count} conditions are drawn." if drawn < count else ""
    panels = min(count, chart_run.MOST_PANELS)
    first_panels = f" The first {panels} of {count} conditions are drawn." if panels < count else ""
    return {
        "points": "Each mark is a trial divided by the baseline trial of the same round (its shape: the load); the "
        "bar below is the estimate with its 95 % interval. An arrow: beyond the axis."
        f"{' Shaded: the noise floor.' if any(floors) else ''}"
        f"{some}{sample}{first_rows}",
        "run": "Every measured trial in the order of the run; the line joins the baseline’s trials. A slope common to "
        f"all cells is drift of the machine, which cancels within rounds. A cross: not counted.{sample}{first_panels}",
        "drift": "The same trials, each divided by the mean of its cell, which leaves drift, loads and noise. "
        f"On a quiet machine they lie around 1, without a slope.{sample}",
    }


def _figures(document: Document, pool: Executor) -> dict[str, Figure]:
    """The charts with captions; a chart without data is left out."""
    charts = {
        "points": chart_trials.points(document, PLAIN),
        "points-narrow": chart_trials.points(document, PLAIN, narrow=True) if is_forest(document) else None,
        "run": chart_run.over_time(document, PLAIN),
        "drift": chart_run.drift(document, PLAIN),
    }
    captions = _captions(document)
    return {
        name: Figure(pool.submit(chart.page), captions[name.removesuffix("-narrow")])
        for name, chart in charts.items()
        if chart
    }


def _constant(document: Document) -> list[tuple[str, str]]:
    """Factors that had one level in the whole run."""
    varying = {*compared(document)}
    found: list[tuple[str, str]] = []
    for factor in factors(document):
        levels = {str(cell["levels"].get(factor)) for cell in document["cells"]}
        if factor not in varying and len(levels) == 1:
            found.append((factor, levels.pop()))
    return found
