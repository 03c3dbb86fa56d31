"""Heatmaps of single numbers, and statements about plans, groups and noise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.imports.making import write_tpch

from octavo.analysis.document import make_document
from octavo.imports.run import save
from octavo.imports.vondra_tpch import read
from octavo.report.chart_files import every_chart, file_name
from octavo.report.document import item_names
from octavo.report.grids import class_of, sheets, square
from octavo.report.html import render
from octavo.report.items import item_sentences, items_of, plan_table
from octavo.report.sentences import noise_sentence
from octavo.store.records import RunRecord
from octavo.store.store import Store

from . import documents


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("items")
    run = save(read(write_tpch(home / "small")), home / "store.sqlite")
    store = Store.open_to_read(home / "store.sqlite")
    found = make_document(store, run)
    store.close()
    return found


def test_there_is_a_heatmap_for_each_number_of_each_condition(document: dict[str, Any]) -> None:
    found = {sheet.title: [grid.title for grid in sheet.items] for sheet in sheets(document)}
    assert found == {
        "best of all runs, as in the published figures": ["q1", "q9"],
        "queries": ["q1", "q9"],
        "first run": ["q1", "q9"],
        "load": ["load.copy", "load.fkey"],
    }


def test_steps_of_a_load_are_in_their_order_and_queries_by_number() -> None:
    ran = ["load.copy", "load.pkey", "load.fkey", "load.indexes", "load.analyze"]
    document: dict[str, Any] = {
        "trials": [{"observations": [{"item": None}]}, {"observations": [{"item": item} for item in ran]}],
        "summary": [{"metric": "seconds", "item": item} for item in (None, *reversed(ran), "q10", "q2", "q2²")],
        "effects": [],
    }
    assert item_names(document, "seconds") == ["q2", "q2²", "q10", *ran]


def test_each_of_them_can_be_a_file(document: dict[str, Any]) -> None:
    names = [file_name(words) for words, _ in every_chart(document)]
    assert len(names) == len(set(names))
    assert {"items-queries-seconds-q9", "items-best-of-all-runs-seconds-total", "items-load-seconds-load-fkey"} < {
        *names
    }


def test_a_heatmap_has_data_blocks_across_and_wal_blocks_from_the_largest_down(document: dict[str, Any]) -> None:
    grid = next(sheet for sheet in sheets(document) if sheet.title == "queries").items[1]
    assert (grid.title, grid.note, grid.x, grid.y) == ("q9", "2 plans", "data block", "WAL block")
    assert grid.columns == ["4kB", "8kB"]
    assert [label for label, _ in grid.rows] == ["64kB", "8kB"]
    squares = grid.rows[1][1]
    assert squares[1] is not None
    assert (squares[1].baseline, squares[1].letters) == (True, "A")
    assert squares[0] is not None
    assert (squares[0].figure, squares[0].letters) == ("78", "B")


def test_a_run_of_one_factor_has_its_items_down_and_says_how_plans_differ(tmp_path: Path) -> None:
    """As in TPC-H's own runs."""
    directory = write_tpch(tmp_path / "small")
    for file in directory.glob("*.csv"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if line.split(";")[1] == "8"))
    run = save(read(directory), tmp_path / "store.sqlite")
    store = Store.open_to_read(tmp_path / "store.sqlite")
    found = make_document(store, run)
    store.close()
    later = next(sheet for sheet in sheets(found) if sheet.title == "queries")
    assert later.items == [] and later.whole is not None
    assert (later.whole.x, later.whole.columns) == ("data block", ["4kB", "8kB"])
    rows = {label: [square and (square.figure, square.letters) for square in row] for label, row in later.whole.rows}
    assert rows["q9"] == [("78", "B"), ("100", "A")]
    for row in found["plans"]:
        row["shapes"] = {"A": {"differences": []}, "B": {"differences": ["part: Seq Scan → <Index Scan>"]}}
    page = render(found)
    assert "q9, plan B: part: Seq Scan → &lt;Index Scan&gt;" in page
    assert "data block across and items down" in page
    assert any("items-queries" in file_name(words) for words, _ in every_chart(found))


@pytest.mark.parametrize(
    ("ratio", "better", "verdict", "expected"),
    [
        (0.5, "lower", "faster", "b7"),
        (0.5, "higher", "slower", "w7"),
        (1.06, "lower", "undecided (needs 3 more rounds)", "w2 open"),
        (1.01, "lower", "same within 3 %", "e"),
    ],
)
def test_colours_follow_what_is_better(ratio: float, better: str, verdict: str, expected: str) -> None:
    effect = {"ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "verdict": verdict}
    assert class_of(square({"baseline": False}, effect, better, {})) == expected


def test_the_page_has_them_once_each_for_both_themes(document: dict[str, Any]) -> None:
    html = render(document)
    assert html.count('<table class="grid">') == 2 * 3 + 2
    assert '<table class="grid wide' not in html  # for a few cells the chart shows their estimates
    assert html.count('id="items"') == 1


def test_a_run_without_items_has_no_such_section(document: dict[str, Any]) -> None:
    bare: dict[str, Any] = {**document, "best_of": None, "plans": [], "two_groups": [], "effects": [], "summary": []}
    assert items_of({**bare, "noise_floor": []}) is None


def test_what_stands_out_is_told(document: dict[str, Any]) -> None:
    segments = {"factor": "wal_segment", "low": ["16MB"], "high": ["1MB"]}
    group = {
        "condition": "load",
        "item": "load.fkey",
        "metric": "seconds",
        "factor": "data_block",
        "low": {"trials": 14, "from": 164.0, "to": 331.0},
        "high": {"trials": 7, "from": 1862.0, "to": 7220.0},
        "ratio": 16.5,
        "chance": 0.0,
    }
    groups = [
        group | {"level": level, "goes_with": its}
        for level, its in (("32kB", None), ("4kB", segments), ("8kB", segments))
    ]
    floor = {"metric": "seconds", "condition": "best of all runs", "cell": "c", "ratio": 1.0, "low": 0.98, "high": 1.02}
    floors = [floor | {"item": "q1", "floor": 0.02}, floor | {"item": "q9", "floor": 0.04}]
    told = {**document, "two_groups": groups, "best_of": {**document["best_of"], "noise_floor": floors}}
    plans, noise, first, second = item_sentences(told)
    assert plans.startswith("1 of 2 items kept one plan in every cell. ")
    assert "3 % in the median of 2 items, 2 % (q1) to 4 % (q9)" in noise
    assert first == (
        "load.fkey (load) falls into two groups at data block 32 kB: 14 from 2 min 44 s to 5 min 31 s, "
        "7 from 31 min 2 s to 2 h, × 16.5 apart. Nothing recorded distinguishes the "
        "groups; the mean describes neither."
    )
    assert "at data block 4 kB, 8 kB" in second
    close = {**groups[0], "high": {"trials": 3, "from": 81.1, "to": 81.3}}
    assert ", 3 at 1 min 21 s, " in item_sentences({**document, "two_groups": [close]})[-1]
    assert second.endswith("The slower group has WAL segment 1 MB.")


def test_wal_blocks_are_a_negative_control_for_queries_only(document: dict[str, Any]) -> None:
    negative = {effect["cell"] for effect in document["effects"] if effect["negative_control"]}
    assert negative == {f"data_block=8kB wal_block=64kB phase={phase}" for phase in ("first run", "queries")}


def test_negative_controls_are_not_among_the_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = save(read(write_tpch(tmp_path / "small")), tmp_path / "store.sqlite")
    store = Store.open_to_read(tmp_path / "store.sqlite")
    ended = replace(store.run(run), environment={"ending": "rounds"})

    def of_store(_: Store, _run: str) -> RunRecord:
        return ended

    monkeypatch.setattr(Store, "run", of_store)
    found = make_document(store, run)
    store.close()
    undecided = [verdict["cell"] for verdict in found["verdicts"] if "undecided" in verdict["sentence"]]
    assert len(undecided) == 9  # two of them are the negative controls
    assert any(limit.endswith("the plan's limit, with 7 cells undecided.") for limit in found["limits"])


def test_limits_say_how_it_was_measured(document: dict[str, Any]) -> None:
    text = " ".join(document["limits"])
    assert "their order was not randomised" in text
    assert "The results are of 2020-09-13 to 2020-09-13; the date of the run is that of the import." in text
    assert "Each WAL segment size (16MB, 1MB) counts as a load" in text


def test_names_of_files_and_their_faults_stay_text(tmp_path: Path) -> None:
    directory = write_tpch(tmp_path / "x")
    file = directory / "queries.csv"
    file.write_text(file.read_text() + "8;8;1;16;<script>alert(1)</script>;1;1;1;p;r\n")
    run = save(read(directory), tmp_path / "store.sqlite")
    store = Store.open_to_read(tmp_path / "store.sqlite")
    html = render(make_document(store, run))
    store.close()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_without_a_control_in_the_plan_none_is_said_to_have_failed(document: dict[str, Any]) -> None:
    assert noise_sentence(document, "load") == "Noise floor: unknown, because there is no A/A control."


@pytest.mark.parametrize(
    ("is_alarm", "words"),
    [
        (True, "That interval excludes 1 although both are the same cell: do not trust effects of this size."),
        (False, "That interval excludes 1, which over all conditions and analyses is not beyond chance."),
    ],
)
def test_a_control_whose_interval_excludes_1_is_doubtful_only_beyond_chance(is_alarm: bool, words: str) -> None:
    """Of many conditions some of their controls have such an interval where nothing differs."""
    found = documents.small()
    row = next(one for one in found["noise_floor"] if one["metric"] == "tps" and one["condition"] == "read-only")
    row.update(ratio=1.02, low=1.01, high=1.03, floor=0.03)
    for effect in found["effects"]:
        if effect["cell"] == row["cell"]:
            effect["alarm"] = is_alarm
    assert noise_sentence(found, "read-only").endswith(words)


def test_plans_of_one_item_without_conditions(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def one_item(_: object) -> tuple[str, list[dict[str, Any]]]:
        return "", [{"distinct": 2, "counts": [0, 0, 0, 0, 0, 3, 2]}]

    monkeypatch.setattr("octavo.report.items.plan_table", one_item)
    sentence, *_ = item_sentences(document)
    assert sentence.startswith(
        "0 of 1 item kept one plan in every cell. Of 5 differences of an item from the baseline, 0 are decided: "
    )


def test_differences_of_plans_are_those_of_the_primary_metric_without_the_control() -> None:
    """A query has a dozen metrics, and a control is no page size."""

    def effect(cell: str, metric: str, verdict: str, plan: str | None) -> dict[str, Any]:
        return {"cell": cell, "metric": metric, "item": "q1", "condition": "memory none", "verdict": verdict,
                "plan": plan, "negative_control": False}  # fmt: skip

    document: dict[str, Any] = {
        "run": {"primary_metric": "seconds"},
        "cells": [{"id": name, "control": name == "again"} for name in ("8kB", "4kB", "2kB", "1kB", "again")],
        "plans": [{"condition": "memory none", "item": "q1", "distinct": 2}],
        "effects": [
            effect("4kB", "seconds", "slower", "same"),
            effect("4kB", "seconds_min", "slower", "same"),
            effect("4kB", "server_cpu_seconds", "more", "same"),
            effect("2kB", "seconds", "faster", "other"),
            effect("1kB", "seconds", "slower", None),
            effect("again", "seconds", "undecided", "same"),
        ],
    }
    assert plan_table(document) == ("no memory limit", [{"item": "q1", "distinct": 2, "counts": [0, 1, 1, 0, 0, 0]}])
