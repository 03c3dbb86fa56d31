"""The page of a comparison."""

from contextlib import closing
from pathlib import Path

from tests.planted_runs import plant
from tests.unit.plans import small_plan

from octavo.analysis.compare_document import make_comparison
from octavo.report.compare_html import render
from octavo.store.store import Store


def test_the_runs_have_their_names_before_their_letters_are_used(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        first, second = (plant(store, small_plan(), rounds=3, number=number) for number in (1, 2))
        page = render(make_comparison(store, [first, second], None))
    head, _, rest = page.partition("</header>")
    assert f"A (reference): {first}" in head and f"B: {second}" in head
    assert "B against A" in rest
