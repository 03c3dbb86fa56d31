"""A run that is followed: one drawing per stored trial, and an end with the run."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.plans import small_plan

from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.report import follow as following
from octavo.report.follow import follow
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store

PLAN = small_plan()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr("octavo.store.store.is_owned", bool)  # any token's process counts as alive
    monkeypatch.setattr(following, "SHARE", 1e9)  # no pause after a drawing
    with closing(Store.open(tmp_path / "octavo.sqlite")) as opened:
        content = json.loads(PLAN.model_dump_json())
        metrics = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}
        record = RunRecord("one", "small", "running", "token", 1, 0.0, None, content, "", "", metrics, {})
        opened.create_run(record, make_cells(PLAN))
        yield opened


def a_trial() -> TrialRecord:
    cell = make_cells(PLAN)[0].id
    return TrialRecord(cell, 1, 1, 1, 1, "ok", None, 1.0, 2.0, 3, (Observation("tps", 12.5, "1/s"),))


def meanwhile(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """The events while the follower waits, one step each time; then Ctrl-C."""
    left = iter(steps)

    def wait(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(following.time, "sleep", wait)


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=100, highlight=False, markup=False), out


def test_a_line_for_each_trial_and_the_report_at_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(
        monkeypatch,
        lambda: store.add_trial("one", a_trial()),
        lambda: None,
        lambda: store.set_status("one", "finished", ended=1.0),
    )
    screen, out = console()
    follow(store, "one", screen, None)
    lines = [line for line in out.getvalue().splitlines() if " · running · " in line or " · finished · " in line]
    assert ["0 trials" in lines[0], "1 trial" in lines[1], "finished" in lines[2]] == [True] * 3
    assert len(lines) == 3
    assert "Trials: 1, of which" in out.getvalue()


def test_ctrl_c_leaves_it_with_the_report(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch)
    screen, out = console()
    follow(store, "one", screen, None)
    assert "still running" in out.getvalue()
    assert store.run("one").status == "running"


def test_the_page_loads_itself_again_until_the_run_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page, seen = tmp_path / "page.html", list[bool]()

    def look() -> None:
        seen.append('http-equiv="refresh"' in page.read_text(encoding="utf-8"))

    meanwhile(monkeypatch, look, lambda: store.set_status("one", "finished", ended=1.0))
    follow(store, "one", console()[0], page)
    assert seen == [True]
    assert 'http-equiv="refresh"' not in page.read_text(encoding="utf-8")


def test_a_screen_that_is_too_small_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch)
    out = io.StringIO()
    follow(store, "one", Console(file=out, width=60, height=8, force_terminal=True), None)
    first = out.getvalue().partition("\x1b[?1049l")[0]  # before it leaves the alternate screen
    assert "Ctrl-C quits" in first
    assert first.count("\n") < 8 * 2
    assert "Trials: 0" not in first
    assert "Trials: 0" in out.getvalue()
