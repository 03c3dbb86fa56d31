"""The page of a comparison."""

from contextlib import closing
from pathlib import Path
from typing import Any

from tests.planted_runs import plant
from tests.unit.plans import small_plan

from octavo.analysis.compare_document import make_comparison
from octavo.report.compare_html import ratio_grids, render
from octavo.report.compare_sentences import differences, names
from octavo.store.store import Store


def test_runs_of_fleets_are_of_the_same_machines_when_all_of_them_are(tmp_path: Path) -> None:
    """The information on the first host alone is the same in all of these."""

    def fleet(*names: str) -> dict[str, Any]:
        hosts = {
            name: {"number": number, "host": {"hostname": name, "memory_bytes": 2**30 * ord(name)}}
            for number, name in enumerate(names, 1)
        }
        return {"host": {"hostname": names[0]}, "fleet": {**hosts, "never came": {"number": 9}}}

    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        first, second = (plant(store, small_plan(), rounds=3, number=number) for number in (1, 2))

        def limits(of_first: dict[str, Any], of_second: dict[str, Any]) -> str:
            for run, environment in ((first, of_first), (second, of_second)):
                store.set_environment(run, environment)
            return " ".join(make_comparison(store, [first, second], None)["limits"])

        assert "between two runs on one machine" in limits(fleet("a"), fleet("a"))
        assert "between two runs on the same machines" in limits(fleet("a", "b"), fleet("a", "b"))
        assert "from different machines" in limits(fleet("a", "b"), fleet("a", "c"))
        assert "Not every run records its machine" in limits(fleet("a", "b"), {})
        limits(fleet("a", "b"), fleet("a", "c"))
        assert differences(make_comparison(store, [first, second]))[1][:2] == [
            ["hostname", "a, b", "a, c"],
            ["memory_bytes", "97 GB, 98 GB", "97 GB, 99 GB"],
        ]


def test_the_runs_have_their_names_before_their_letters_are_used(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        first, second = (plant(store, small_plan(), rounds=3, number=number) for number in (1, 2))
        page = render(make_comparison(store, [first, second], None))
    head, _, rest = page.partition("</header>")
    assert f"A (reference): {first}" in head and f"B: {second}" in head
    assert "B against A" in rest


def test_the_page_loads_and_runs_nothing_whatever_a_run_is_called(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        runs = [plant(store, small_plan(), rounds=3, number=number, name="<script>x</script>") for number in (1, 2)]
        page = render(make_comparison(store, runs, None))
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    assert "<script" not in page


def test_each_of_many_runs_has_a_letter_of_its_own() -> None:
    letters = names({"runs": [{"id": str(number)} for number in range(60)]})
    assert len(set(letters.values())) == 60
    assert (letters["0"], letters["25"], letters["26"]) == ("A", "Z", "A1")


def test_levels_of_a_heatmap_are_in_order_and_zero_is_the_smallest() -> None:
    cells = [
        {"condition": "", "cell": f"{block}/{ahead}", "levels": {"data_block": block, "readahead": ahead}}
        for block in ("16kB", "8kB")
        for ahead in ("128kB", "0", "64kB")
    ]
    about = {"run": "b", "condition": "", "metric": "tps", "item": None, "kind": "value", "verdict": "faster"}
    document: dict[str, Any] = {
        "primary_metric": "tps",
        "metrics": {"tps": {"better": "higher"}},
        "runs": [{"id": "a", "baseline": {"data_block": "8kB", "readahead": "0"}}, {"id": "b"}],
        "cells": cells,
        "comparisons": [about | {"cell": cell["cell"], "ratio": 1.1, "low": 1.0, "high": 1.2} for cell in cells],
    }
    (grid,) = ratio_grids(document)
    assert grid.columns == ["8kB", "16kB"]
    assert [label for label, _ in grid.rows] == ["128kB", "64kB", "0"]
