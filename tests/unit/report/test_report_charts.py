"""Charts: their numbers are the document's, and marks repeat what colours show."""

import json
import math
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from octavo.plan.parts import PARTS_OF_A_HOST
from octavo.report import chart_run, chart_trials, trials
from octavo.report.chart_colours import DARK, LIGHT, PLAIN, Theme, coloured, diverging, luminance, text_on
from octavo.report.chart_grid import grid_chart
from octavo.report.chart_style import Chart
from octavo.report.document import Document
from octavo.report.picture import heat_grids

from . import documents
from .making import value_of


def _heatmap(document: Document, _: Theme) -> Chart | None:
    """The first heatmap in the form for files; its colours are placeholders."""
    found = heat_grids(document)
    return grid_chart(found[0], "TPS") if found else None


DRAW: list[Callable[[Document, Theme], Chart | None]] = [
    _heatmap,
    chart_trials.points,
    chart_run.over_time,
    chart_run.drift,
]

COLOUR = re.compile("#[0-9a-f]{6}")


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314, our own


def drawn(chart: Chart | None, theme: Theme) -> str:
    assert chart is not None
    return chart.svg(theme)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in parse(svg).iter() if node.tag == "text"]


def test_a_trial_s_repetitions_are_averaged_as_in_the_estimates() -> None:
    document = documents.small()
    chosen = trials.ratio_points(document)[0].trial
    trial = next(one for one in document["trials"] if one["id"] == chosen)
    (seen,) = (one for one in trial["observations"] if one["metric"] == "tps")
    (before,) = (point.value for point in trials.ratio_points(document) if point.trial == trial["id"])
    trial["observations"].append({**seen, "repetition": 2, "value": 9 * seen["value"]})
    (after,) = (point.value for point in trials.ratio_points(document) if point.trial == trial["id"])
    assert after == pytest.approx(5 * before)


def test_a_trial_without_its_whole_has_no_point_of_the_items_that_ended() -> None:
    """Of a trial with a cancelled query only the fast ones have a time."""
    document = documents.small()
    chosen = trials.ratio_points(document)[0].trial
    trial = next(one for one in document["trials"] if one["id"] == chosen)
    assert trial["id"] in {point.trial for point in trials.measured_points(document)}
    trial["observations"] = [{**one, "item": "q1"} for one in trial["observations"]]
    assert trial["id"] not in {point.trial for point in trials.measured_points(document)}
    assert trial["id"] not in {point.trial for point in trials.ratio_points(document)}


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("draw", DRAW)
def test_charts_are_standalone_svg(draw: Callable[[Document, Theme], Chart | None], theme: Theme) -> None:
    for name in ("small", "grid", "hostile", "queries") if theme is LIGHT else ("small",):
        svg = drawn(draw(getattr(documents, name)(), theme), theme)
        root = parse(svg)
        assert root.get("aria-label")
        assert "http" not in re.sub(r'>[^<]*<|aria-label="[^"]*"', "><", svg)


def test_heatmap_has_every_ratio_of_the_grid(grid: Document) -> None:
    control = {cell["id"] for cell in grid["cells"] if cell["control"]}
    shown = [e for e in grid["effects"] if e["metric"] == "tps" and e["cell"] not in control]
    found = heat_grids(grid)
    assert [one.title for one in found] == ["read-only", "read-write"]
    squares = [square for one in found for _, row in one.rows for square in row if square]
    assert len(squares) == 84
    assert sum(square.baseline for square in squares) == 2
    assert sum(square.undecided for square in squares) == sum("undecided" in e["verdict"] for e in shown)
    for one in found:
        seen = texts(drawn(grid_chart(one, "TPS"), PLAIN))
        for _, row in one.rows:
            for square in row:
                assert square is not None
                assert square.figure + (" ?" if square.undecided else "") in seen
                assert square.ends in seen


def test_heatmap_without_effects_is_none() -> None:
    assert heat_grids(documents.unfinished()) == []
    assert chart_trials.points(documents.all_invalid(), LIGHT) is None
    assert chart_run.drift(documents.all_invalid(), LIGHT) is None


def test_blue_is_better_also_when_less_is_better() -> None:
    document = documents.small()
    steps: dict[str, list[int]] = {}
    for better in ("higher", "lower"):
        document["metrics"]["tps"]["better"] = better
        steps[better] = [square.step for _, row in heat_grids(document)[0].rows for square in row if square]
    assert max(steps["higher"]) > 0
    assert steps["lower"] == [-step for step in steps["higher"]]


def test_few_cells_in_many_conditions_are_one_table_of_conditions() -> None:
    (found,) = heat_grids(documents.small())
    assert found.columns == ["4kB"]  # the baseline is 100 everywhere
    assert [label for label, _ in found.rows] == ["read-only", "read-write"]


def test_points_are_ratios_within_the_round(small: Document) -> None:
    values = {t["id"]: value_of(t, "tps") for t in small["trials"]}
    baselines = {c["id"]: c["condition"] for c in small["cells"] if c["baseline"]}
    bases = {
        (baselines[t["cell"]], t["round"]): t["id"] for t in small["trials"] if t["cell"] in baselines and t["used"]
    }
    points = trials.ratio_points(small)
    assert len(points) > 10
    for point in points:
        mine, base = values[point.trial], values[bases[point.condition, point.round]]
        assert mine is not None
        assert base is not None
        assert point.value == pytest.approx(mine / base)


def test_points_leave_out_unused_trials(small: Document) -> None:
    unused = {trial["id"] for trial in small["trials"] if not trial["used"]}
    assert unused
    assert not unused & {point.trial for point in trials.ratio_points(small)}
    assert unused & {point.trial for point in trials.measured_points(small)}


def test_drift_is_centred(small: Document) -> None:
    points = trials.drift_points(small)
    assert sum(math.log(point.value) for point in points) == pytest.approx(0, abs=1e-9)


def test_the_speeds_of_hosts_are_no_drift(small: Document) -> None:
    before = {point.trial: point.value for point in trials.drift_points(small)}
    for trial in small["trials"]:
        host = 1 + trial["round"] % 2
        trial["part"] = host * PARTS_OF_A_HOST + 1
        for observation in trial["observations"]:
            observation["value"] *= 10**host
    assert max(before.values()) < 1.5
    assert all(0.5 < point.value < 1.5 for point in trials.drift_points(small))


@pytest.mark.parametrize(("spread", "expected"), [(0.002, "0.995"), (0.03, "0.98")])
def test_the_drift_s_axis_has_the_values_of_its_ticks(spread: float, expected: str) -> None:
    """Of a quiet run they are half a percent apart, and two decimals would write two of them alike."""
    document = documents.small()
    for trial in document["trials"]:
        for observation in trial["observations"]:
            observation["value"] = 1000 * math.exp(spread * (-1) ** trial["round"])
    chart = chart_run.drift(document, LIGHT)
    assert chart is not None
    axis = next(layer["encoding"]["y"]["axis"] for layer in chart.spec["layer"] if layer["mark"]["type"] == "point")
    seen = texts(drawn(chart, LIGHT))
    assert expected in seen
    assert {f"{value:.{len(expected) - 2}f}" for value in axis["values"]} <= set(seen)


def test_queries_are_paired_by_item() -> None:
    for point in trials.ratio_points(documents.queries()):
        assert point.value == pytest.approx(0.91 if "32kB" in point.cell else 1.0, rel=0.03)


def test_estimates_stand_beside_the_points(small: Document) -> None:
    seen = texts(drawn(chart_trials.points(small, DARK), DARK))
    for effect in small["effects"]:
        if effect["metric"] == "tps":
            assert any(text.startswith(f"{effect['ratio']:.3f} (") for text in seen)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_on_squares_has_contrast(theme: Theme) -> None:
    for step in range(-20, 21):
        fill = diverging(step / 20, theme)
        ink = text_on(fill)
        shade = luminance((int(ink[1:3], 16), int(ink[3:5], 16), int(ink[5:7], 16)))
        light, dark = max(shade, luminance(fill)), min(shade, luminance(fill))
        assert (light + 0.05) / (dark + 0.05) >= 4.0


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_chart_drawn_once_is_the_one_drawn_in_its_theme(theme: Theme, grid: Document) -> None:
    for name in ("small", "grid"):
        document: Document = getattr(documents, name)() if name == "small" else grid
        for draw in (chart_trials.points, chart_run.over_time, chart_run.drift):
            plain, themed = drawn(draw(document, PLAIN), PLAIN), drawn(draw(document, theme), theme)
            found = coloured(plain, theme)
            assert COLOUR.sub("", found) == COLOUR.sub("", themed)
            # A step of the scale is one of 255: no channel is off by more than the eye can see.
            pairs = zip(COLOUR.findall(found), COLOUR.findall(themed), strict=True)
            assert max(abs(a - b) for one, two in pairs for a, b in zip(rgb(one), rgb(two), strict=True)) <= 2


def rgb(colour: str) -> bytes:
    return bytes.fromhex(colour.removeprefix("#"))


def test_an_interval_that_says_nothing_is_said_in_words() -> None:
    document = documents.small()
    effect = next(row for row in document["effects"] if row["metric"] == "tps" and row["item"] is None)
    effect |= {"ratio": 132.0, "low": 0.000657, "high": 2.66e7, "verdict": "undecided (needs more loads)"}
    seen = texts(drawn(_heatmap(document, LIGHT), LIGHT))
    assert "wide" in seen and "×132 ?" in seen


def test_bytes_over_the_run_have_their_unit_and_are_never_below_none() -> None:
    document = documents.small()
    document["metrics"]["tps"] |= {"title": "memory", "unit": "bytes"}
    for observation in document["trials"][0]["observations"]:
        observation["value"] = 1.0
    chart = chart_run.over_time(document, LIGHT)
    assert chart is not None and "memory, kB" in texts(drawn(chart, LIGHT))
    begins = [float(number) for number in re.findall(r'"domain": \[(-?[0-9.e+-]+),', json.dumps(chart.spec))]
    assert begins and min(begins) == 0
