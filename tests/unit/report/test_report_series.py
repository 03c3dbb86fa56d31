"""Series: which are drawn and for which trials, what a line shows, and the data for programs."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import small_plan

from octavo.analysis.charted_series import CHARTED, MOST_TRIALS, all_series, choose
from octavo.analysis.document import make_document
from octavo.analysis.trials import TrialKey, used_trials
from octavo.cli.choices import ReportFormat
from octavo.cli.report import report
from octavo.errors import UsageError
from octavo.home import store_path
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan
from octavo.report import as_json
from octavo.report.chart_colours import PLAIN, with_variables
from octavo.report.chart_panel import HEIGHT, WIDTH, LinePanel, rounded_up
from octavo.report.chart_series import FIGURES, MOST_CONDITIONS, series_of
from octavo.report.chart_style import Chart, mark, number
from octavo.report.html import render
from octavo.report.series_lines import MOST_POINTS, ChartLine, LineStyle, line_styles, lines_of, thin
from octavo.series import Series
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store

from . import documents
from .making import make_cell
from .surroundings import Document
from .test_report_html import check_form

UNITS = ["kB/s", "kB/s", "fraction", "bytes", "bytes", "1", *["bytes"] * 5, *["bytes/s"] * 3, "1/s", "1"]


def with_series(
    document: Document, points: int, value: Callable[[int], float] = float, figures: int = len(UNITS)
) -> Document:
    """The document with a series of each of these figures in each trial that counts: one point per second."""
    document["series"] = [
        a_row(trial["id"], metric, unit, [float(n + 1) for n in range(points)], [value(n) for n in range(points)])
        for trial in document["trials"]
        if trial["used"]
        for metric, unit in list(zip(CHARTED, UNITS, strict=True))[:figures]
    ]
    return document


def a_row(trial: int, metric: str, unit: str, seconds: Sequence[float], values: Sequence[float]) -> dict[str, Any]:
    return {"trial": trial, "metric": metric, "item": None, "unit": unit, "seconds": seconds, "values": values}


def variable(colour: str) -> str:
    """The colour in the form that the page uses."""
    return with_variables(f'="{colour}"')[2:-1]


def paths(svg: str) -> list[ElementTree.Element]:
    """The lines of a panel."""
    return [node for node in ElementTree.fromstring(svg).iter("path") if node.get("stroke-linejoin")]  # noqa: S314


def a_trial(cell: str, number: int, series: tuple[Series, ...] = (), position: int = 1) -> TrialRecord:
    seen = (Observation("tps", 10.0 + number, "1/s"),)
    return TrialRecord(cell, number, 1, position, 1, "ok", None, number, number + 1, 3, seen, series=series)


def place(trials: Sequence[TrialRecord]) -> dict[TrialKey, TrialRecord]:
    return {(trial.round, trial.part, trial.cell): trial for trial in trials}


def stored(path: Path, plan: Plan, trials: Sequence[TrialRecord]) -> Store:
    metrics = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}
    store = Store.open(path)
    values = plan.model_dump(mode="json")
    store.create_run(
        RunRecord("one", "small", "finished", "", 1, 0.0, 9.0, values, "", "", metrics, {}), make_cells(plan)
    )
    for trial in trials:
        store.add_trial("one", trial)
    return store


def test_every_drawn_metric_has_its_panel() -> None:
    assert [metric for metric, _, _ in FIGURES] == list(CHARTED)


def test_a_run_without_series_shows_nothing(small: Document) -> None:
    assert series_of(small) is None
    assert "While the trials ran" not in render(small)
    small["series"] = []
    assert series_of(small) is None
    assert series_of(with_series(documents.small(), 5, lambda _: 0.0)) is None


def test_document_has_drawn_series_of_counted_trials_and_json_all(tmp_path: Path) -> None:
    plan = small_plan()
    baseline, other = (next(c for c in make_cells(plan) if c.baseline is is_base) for is_base in (True, False))
    drawn = Series.of("wal_amplification", "1", (1.0, 2.0), (1.5, 2.5))
    role = Series.of("process_page_table_bytes", "bytes", (1.0,), (4096.0,), "checkpointer")
    load = Series.of("cpu_busy_share", "fraction", (1.0,), (0.25,))
    trials = [
        a_trial(baseline.id, 1, (drawn, role)),
        a_trial(other.id, 1, (load,), 2),
        TrialRecord(other.id, 2, 1, 1, 1, "invalid", "noise", 2.0, 3.0, 3, series=(drawn,)),
    ]
    with closing(stored(tmp_path / "store.sqlite", plan, trials)) as store:
        document = make_document(store, "one")
        ids = [trial["id"] for trial in document["trials"]]
        expected = a_row(ids[0], "wal_amplification", "1", [1.0, 2.0], [1.5, 2.5])
        assert document["series"] == [expected]
        everything = json.loads(as_json.render({**document, "series": all_series(store, ids)}))
        nothing = json.loads(as_json.render({"series": all_series(store, [])}))
    assert [(row["trial"], row["metric"], row["item"]) for row in everything["series"]] == [
        (ids[0], "wal_amplification", None),
        (ids[0], "process_page_table_bytes", "checkpointer"),
        (ids[1], "cpu_busy_share", None),
        (ids[2], "wal_amplification", None),
    ]
    assert everything["series"][0] == expected
    assert nothing == {"series": []}


@given(st.integers(1, 90), st.integers(1, 40))
def test_whole_rounds_are_chosen_evenly(rounds: int, most: int) -> None:
    cells = make_cells(small_plan())
    trials = [a_trial(cell.id, number) for number in range(1, rounds + 1) for cell in cells]
    chosen = choose(cells, place(trials), most)
    assert len(chosen) <= most
    numbers = sorted({trial.round for trial in chosen})
    assert numbers[0] == 1
    if most >= len(cells):
        assert all(sum(trial.round == number for trial in chosen) == len(cells) for number in numbers)
        assert len(chosen) == len(trials) or len(chosen) > most - len(cells)
        gaps = {after - before for before, after in pairwise(numbers)}
        assert len(gaps) <= 2


def test_of_a_round_that_is_too_large_the_baselines_are_chosen() -> None:
    sizes = [f"{2**n}kB" for n in range(6)]
    cells = make_cells(small_plan(data_block=sizes))
    chosen = choose(cells, place([a_trial(cell.id, 1) for cell in cells]), 6)
    baselines = {cell.id for cell in cells if cell.baseline}
    assert len(chosen) == 6
    assert baselines < {trial.cell for trial in chosen}
    assert choose(cells, {}) == []


def test_lines_have_the_values_in_the_unit_and_not_the_short_last_interval(small: Document) -> None:
    trial = next(one for one in small["trials"] if one["used"])
    cell_of = {one["id"]: one["cell"] for one in small["trials"]}
    values = [3 * 2.0**20, float("nan"), 2.0**20, 900 * 2.0**20]
    row = a_row(trial["id"], "wal_bytes_per_second", "bytes/s", [1.0, 2.0, 3.0, 3.07], values)
    (line,), unit = lines_of([row], "wal_bytes_per_second", cell_of, line_styles(small))
    assert (list(line.seconds), list(line.values), unit) == ([1.0, 3.0], [3.0, 1.0], "MB/s")
    assert lines_of([row], "device_util", cell_of, line_styles(small)) == ([], "")


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=2000), st.integers(1, 300))
def test_thinned_lines_keep_their_end_and_stay_within(values: list[float], most: int) -> None:
    seconds = [float(n) for n in range(1, len(values) + 1)]
    moments, means = thin(seconds, values, most)
    assert len(moments) == len(means) <= most
    assert moments[-1] == seconds[-1]
    assert min(values) <= min(means) * (1 + 1e-9)
    assert max(means) <= max(values) * (1 + 1e-9)
    assert sorted(moments) == moments


def test_panels_have_a_line_for_each_counted_trial(small: Document) -> None:
    part = series_of(with_series(small, 8))
    assert part is not None
    assert [one.condition for one in part.conditions] == ["read-only", "read-write"]
    conditions = {cell["id"]: cell["condition"] for cell in small["cells"]}
    for one in part.conditions:
        counted = sum(t["used"] and conditions[t["cell"]] == one.condition for t in small["trials"])
        assert [panel.heading for panel in one.panels] == [heading for _, heading, _ in FIGURES]
        for panel in one.panels:
            lines = paths(panel.drawing)
            assert len(lines) == counted
            assert {line.get("stroke") for line in lines} == {variable(PLAIN.ink), variable(PLAIN.cells[0])}
        assert [label for label, _ in one.legend] == ["4kB", "8kB (baseline)", "8kB again (A/A control)"]
    assert part.caption.startswith("Every counted trial")


def test_panels_say_their_unit_and_range(small: Document) -> None:
    part = series_of(with_series(small, 4, lambda n: 2048.0 * n))
    assert part is not None
    units = {panel.heading: panel.unit for panel in part.conditions[0].panels}
    assert (units["Read at the device"], units["Bytes a read"], units["WAL"]) == ("MB/s", "kB", "kB/s")
    assert (units["Device in use"], units["Full-page images"]) == ("%", "a second")
    svg = next(panel.drawing for panel in part.conditions[0].panels if panel.heading == "Bytes a read")
    root = ElementTree.fromstring(svg)  # noqa: S314
    assert root.get("role") == "img"
    assert str(root.get("aria-label")).startswith("Bytes a read, kB: ")
    assert str(root.get("aria-label")).endswith(" over 4.00 s, at most 6.00.")
    assert {"0 s", "4 s"} <= {str(node.text) for node in root.iter("text")}


@pytest.mark.parametrize(
    ("end", "top"),
    [
        (9.7, 135),
        (60, 1.2),
        (300, 0.104),
        (12.6, 9_999),
        (0.9, 10_000),
        (3601, 66_666),
        (86_399, 2.4e6),
        (1, 7),
        (5, 100),
    ],
)
def test_panels_have_the_axes_that_vega_would_draw(end: float, top: float) -> None:
    panel = LinePanel("", [ChartLine(1, LineStyle("", PLAIN.ink, ()), (end,), (top,))], end, rounded_up(top))
    axis = {"tickCount": 4, "title": None, "labelOverlap": False}
    across = axis | {"labelExpr": "datum.label + ' s'"}
    up = axis | ({"format": "~s"} if rounded_up(top) > 1e4 else {})
    vega = mark(
        "point", [{"s": end, "v": top}],
        {"x": number("s", scale={"domain": [0, end], "nice": False}, axis=across),
         "y": number("v", scale={"domain": [0, top], "nice": True}, axis=up)},
    ) | {"width": WIDTH, "height": HEIGHT}  # fmt: skip
    drawn, expected = labels(panel.page()), labels(Chart(vega, "", "").page())
    assert [text for text in drawn if not text.endswith(" s")] == [t for t in expected if not t.endswith(" s")]
    # Labels of the horizontal axis that would touch are left out.
    assert {text for text in drawn if text.endswith(" s")} <= {text for text in expected if text.endswith(" s")}


def test_labels_that_would_touch_are_left_out_and_texts_are_escaped() -> None:
    line = ChartLine(1, LineStyle("", PLAIN.ink, ()), (126e6,), (3.0,))
    panel = LinePanel("<a>", [line], 126e6, 3.0, "<b>", "<i>")
    assert labels(panel.page())[-3:] == ["0 s", "40,000,000 s", "80,000,000 s"]
    file = panel.file("svg").decode()
    assert labels(file)[:2] == ["<b>", "<i>"]
    assert panel.file("png").startswith(b"\x89PNG")
    many = LinePanel("", [replace(line, seconds=(12_600.0,))], 12_600.0, 3.0)
    assert [text for text in labels(many.page()) if text.endswith(" s")] == ["0 s", "4,000 s", "8,000 s", "12,000 s"]


def labels(svg: str) -> list[str]:
    """The texts of a drawing, in order."""
    root = ElementTree.fromstring(svg)  # noqa: S314
    return [str(node.text) for node in root.iter() if node.tag.rpartition("}")[2] == "text"]


def test_a_trial_of_one_reading_is_a_dot(small: Document) -> None:
    part = series_of(with_series(small, 1, lambda _: 5.0, 1))
    assert part is not None
    svg = part.conditions[0].panels[0].drawing
    colours = [variable(colour) for colour in (PLAIN.ink, *PLAIN.cells)]
    marks = [node for node in ElementTree.fromstring(svg).iter("circle") if node.get("fill") in colours]  # noqa: S314
    assert marks


def test_baselines_are_neutral_and_other_cells_differ_without_colour(grid: Document) -> None:
    for document in (grid, documents.small()):
        looks = line_styles(document)
        for cell in document["cells"]:
            look = looks[cell["id"]]
            assert (look.colour == PLAIN.ink) == (cell["baseline"] or cell["control"])
            assert not (cell["baseline"] and look.dash)
    names = {
        line_styles(grid)[cell["id"]].label for cell in grid["cells"] if not cell["baseline"] and not cell["control"]
    }
    assert names == {f"{2**n}kB" for n in range(6)}  # of 42 cells the colours are data blocks


def test_many_long_trials_stay_a_small_page(small: Document) -> None:
    with_series(small, 1800, lambda n: 1e6 * (1 + n * 7919 % 1000))
    small["trials"] += [{**small["trials"][0], "id": 1000 + n, "observations": []} for n in range(200)]
    part = series_of(small)
    assert part is not None
    drawings = [panel.drawing for one in part.conditions for panel in one.panels]
    assert sum(map(len, drawings)) < 43_000 * len(UNITS)
    assert all(line.get("d", "").count("L") < MOST_POINTS for one in drawings for line in paths(one))
    assert len({row["trial"] for row in small["series"]}) <= MOST_TRIALS
    assert part.caption.startswith("27 of 227 counted trials, evenly over the rounds: ")
    assert "a mean of up to 15 readings" in part.caption


def test_of_many_conditions_the_first_are_shown(small: Document) -> None:
    extra = [make_cell("8kB", "8kB", f"mode {n}", "8kB", baseline=True) for n in range(5)]
    small["cells"] += extra
    small["trials"] += [{**small["trials"][0], "id": 100 + n, "cell": cell["id"]} for n, cell in enumerate(extra)]
    part = series_of(with_series(small, 3, figures=1))
    assert part is not None
    assert len(part.conditions) == MOST_CONDITIONS
    assert f"Of 7 conditions the first {MOST_CONDITIONS} are shown." in part.caption


@pytest.mark.parametrize("name", ["small", "hostile", "queries"])
def test_the_page_with_series_is_well_formed(name: str) -> None:
    document = with_series(getattr(documents, name)(), 6, figures=3)
    page = check_form(render(document))
    assert "While the trials ran" in page.text
    assert "every scale starts at zero" in page.text


def test_used_trials_are_those_that_may_be_drawn() -> None:
    cells = make_cells(small_plan())
    good, bad = a_trial(cells[0].id, 1), TrialRecord(cells[1].id, 1, 1, 2, 1, "invalid", "x", 1.0, 2.0, 3)
    assert choose(cells, used_trials([good, bad])) == [good]


def test_the_verb_gives_series_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    monkeypatch.setattr("gc.disable", lambda: None)
    plan = small_plan()
    drawn = Series.of("wal_amplification", "1", (1.0, 2.0), (1.5, 2.5))
    stored(store_path(), plan, [a_trial(make_cells(plan)[0].id, 1, (drawn,))]).close()
    report("one", format=ReportFormat.json)
    assert "series" not in json.loads(capsys.readouterr().out)
    report("one", format=ReportFormat.json, series=True)
    assert [row["values"] for row in json.loads(capsys.readouterr().out)["series"]] == [[1.5, 2.5]]
    with pytest.raises(UsageError, match="--format json"):
        report("one", series=True)
