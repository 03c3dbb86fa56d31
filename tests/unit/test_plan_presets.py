import math
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import TEXT, changed_plan, small_plan
from tests.unit.planted import plant

from octavo import workloads
from octavo.cli.presets import list_presets, show
from octavo.errors import UsageError
from octavo.knobs import fragmentation
from octavo.lab.estimate import estimate
from octavo.lab.slices import eligibility
from octavo.lab.steady import LONGEST_SECONDS
from octavo.plan.cells import make_cells
from octavo.plan.design import combinations
from octavo.plan.impossible import impossible_cells
from octavo.plan.model import Plan, factors_of, known_factors
from octavo.plan.parse import parse_plan
from octavo.plan.presets import all_presets, find_plan, preset_names, preset_text
from octavo.plan.sizes import SIZES
from octavo.plan.text import plan_text
from octavo.plan.thresholds import RULE_NAMES, Thresholds
from octavo.units import human_count, parse_duration

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"
SIZED = (
    TEXT
    + """
[sizes.quick]
rounds = 2
factors.clients = 1

[sizes.here]
rounds = 9
budget = "2h"
[sizes.here.factors]
data_block = ["2kB", "8kB"]
settings.jit = ["on", "off"]
[sizes.here.settings]
max_wal_size = "16GB"
"""
)

every_preset = pytest.mark.parametrize("name", preset_names())
every_size = pytest.mark.parametrize("size", SIZES)


@every_preset
@every_size
def test_every_preset_is_a_plan_in_every_size(name: str, size: str) -> None:
    plan, text = find_plan(name, size=size)
    assert (plan.name, plan.size) == (name, size)
    assert text == preset_text(name)
    cells = make_cells(plan)
    assert any(cell.baseline for cell in cells)
    assert impossible_cells(plan, cells) == []


@every_preset
@pytest.mark.parametrize(("size", "hours", "gigabytes"), [("quick", 0.25, 50), ("here", 2.0, 70)])
def test_a_preset_keeps_what_its_size_promises_on_two_cores(
    name: str, size: str, hours: float, gigabytes: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def memory(*_: object) -> int:
        return 24 * 1024**3

    def disk(*_: object) -> SimpleNamespace:
        return SimpleNamespace(free=2 * gigabytes * 1024**3)

    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))  # nothing is built or loaded yet
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    # With less memory or disk, cells are measured in groups, each with the baseline, which takes longer.
    monkeypatch.setattr(fragmentation, "_PROC", plant(tmp_path, {"meminfo": f"MemAvailable: {24 * 1024**2} kB\n"}))
    monkeypatch.setattr(eligibility, "meminfo", memory)
    monkeypatch.setattr(shutil, "disk_usage", disk)
    plan = find_plan(name, size=size)[0]
    needs = estimate(plan, make_cells(plan), workloads.find(plan.workload))
    assert needs.seconds <= hours * 3600
    assert needs.disk_bytes <= gigabytes * 1024**3


@every_preset
@pytest.mark.parametrize(("size", "most"), [("quick", 600), ("here", 7200), ("full", math.inf)])
def test_what_ends_a_preset_is_its_budget(name: str, size: str, most: float) -> None:
    plan = find_plan(name, size=size)[0]
    assert plan.budget_seconds is not None and 0 < plan.budget_seconds <= most
    assert plan.last_round is None


@every_preset
@every_size
def test_a_steady_regime_is_reached_before_its_trial_gives_up(name: str, size: str) -> None:
    plan = find_plan(name, size=size)[0]
    if any(cell.levels["wal_regime"] == "steady" for cell in make_cells(plan)):
        assert 4 * parse_duration(plan.settings.get("checkpoint_timeout", "5min")) < LONGEST_SECONDS


@every_size
def test_costs_are_compared_with_the_defaults_at_the_same_page_size(size: str) -> None:
    cells = make_cells(find_plan("olap-costs", size=size)[0])
    for condition in {cell.condition for cell in cells}:
        here = [cell for cell in cells if cell.condition == condition]
        assert len({(cell.levels["data_block"], cell.levels["cache"], cell.levels["device"]) for cell in here}) == 1
        assert sorted(cell.levels["costs"] for cell in here) == ["calibrated", "default", "default", "scaled"]


def test_rounds_that_are_asked_for_are_a_limit_beside_a_budget() -> None:
    plan = find_plan("oltp-blocks-demo", rounds=3)[0]
    assert (plan.rounds, plan.last_round, plan.budget) == (3, 3, "10m")
    assert find_plan("oltp-blocks-demo", loads=5)[0].loads == 5 != plan.loads
    fixed = changed_plan({"loads = 2": 'loads = 2\nbudget = "1h"\nstopping = "fixed"'})
    assert fixed.last_round == fixed.rounds == 4


@every_preset
def test_without_a_size_a_preset_is_quick(name: str) -> None:
    assert find_plan(name) == find_plan(name, size="quick")


def test_a_size_overrides_keys_and_merges_tables() -> None:
    plan = parse_plan(SIZED, origin="sized.toml", size="here")
    assert (plan.rounds, plan.loads, plan.budget, plan.size) == (9, 2, "2h", "here")
    assert plan.factors["data_block"] == ["2kB", "8kB"]
    assert plan.factors["settings.jit"] == ["on", "off"]
    assert plan.factors["mode"] == ["read-only", "read-write"]
    assert plan.settings == {"max_wal_size": "16GB"}
    quick = parse_plan(SIZED, origin="sized.toml")
    assert (quick.rounds, quick.size, quick.factors["clients"]) == (2, "quick", ["1"])


def test_the_command_line_comes_after_the_size() -> None:
    plan = parse_plan(
        SIZED, origin="sized.toml", size="here", rounds=3, budget="30m", changes={"data_block": ["8kB", "16kB"]}
    )
    assert (plan.rounds, plan.budget, plan.factors["data_block"]) == (3, "30m", ["8kB", "16kB"])


def test_paths_in_a_plan_start_from_its_own_directory(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;")
    (tmp_path / "mine.sql").write_text("CREATE TABLE t (i int);")
    mine = tmp_path / "mine.toml"
    mine.write_text(
        TEXT.replace("pgbench", "custom").replace('mode = ["read-only", "read-write"]', 'archive = "mine.sql"')
        + 'script = "read.sql"\n'
    )
    plan = find_plan(str(mine))[0]
    assert plan.factors["archive"] == [str(tmp_path / "mine.sql")]
    assert plan.factors["script"] == [str(tmp_path / "read.sql")]
    assert len(make_cells(plan)) == 3


def test_a_plan_may_name_its_usual_size() -> None:
    assert parse_plan(SIZED.replace("rounds = 4", 'size = "here"'), origin="sized.toml").rounds == 9


@pytest.mark.parametrize(
    ("text", "size", "names"),
    [
        (SIZED, "full", ["unknown size 'full'", "quick, here"]),
        (TEXT, "quick", ["unknown size 'quick'", "no [sizes]"]),
        (SIZED.replace("[sizes.quick]", "[sizes.tiny]"), None, ["sizes.tiny", "quick, here, full"]),
        (SIZED.replace("rounds = 9", 'name = "other"'), "here", ["sizes.here.name", "same in every size"]),
        (SIZED.replace("rounds = 9", "round = 9"), "here", ["unknown key 'round'", "rounds"]),
        (TEXT.replace("rounds = 4", "sizes = 3"), None, ["sizes", "[sizes.quick]"]),
        (TEXT.replace("rounds = 4", 'size = "huge"'), None, ["size", "'quick', 'here' or 'full'"]),
    ],
)
def test_a_size_that_is_none_is_told(text: str, size: str | None, names: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_plan(text, origin="sized.toml", size=size)
    assert all(name in str(caught.value) for name in names), str(caught.value)


@given(
    question=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    negative=st.booleans(),
    level=st.sampled_from(["on", "a 'quoted' \"word\"", "back\\slash", ""]),
)
def test_a_plan_written_out_is_read_as_the_same_plan(question: str, negative: bool, level: str) -> None:
    plan = changed_plan(
        {
            "loads = 2": '[[exclude]]\nmode = "read-only"\ndata_block = ["4kB", "8kB"]\n'
            '[validity]\nmost_steal = "9%"\n[settings]\nautovacuum = "off"',
            "rounds = 4": "rounds = 4\ncontrol = false",
        }
    ).model_copy(update={"question": question, "negative": ["data_block"] if negative else []})
    plan = plan.model_copy(update={"factors": {**plan.factors, "settings.application_name": [level]}})
    assert parse_plan(plan_text(plan), origin="written.toml") == plan


@every_preset
@every_size
def test_a_preset_in_a_size_written_out_is_read_as_the_same_plan(name: str, size: str) -> None:
    plan = find_plan(name, size=size)[0]
    assert parse_plan(plan_text(plan), origin=name) == plan


def test_presets_are_listed_with_their_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    class Context:
        invoked_subcommand = None

    list_presets(Context())  # pyright: ignore[reportArgumentType]
    listed = capsys.readouterr().out
    for preset in all_presets():
        assert f"{preset.name}: {preset.question}" in listed
        assert set(preset.plans) == set(SIZES)
        for plan in preset.plans.values():
            of_measuring = f"on {human_count(plan.loads, 'load')}, at most {plan.budget} of measuring"
            assert of_measuring in listed


@every_preset
def test_a_preset_is_shown_whole_or_in_a_size(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(name)
    assert capsys.readouterr().out == preset_text(name)
    show(name, size="here")
    assert parse_plan(capsys.readouterr().out, origin=name) == find_plan(name, size="here")[0]
    with pytest.raises(UsageError, match="no preset"):
        show("mine.toml", size="here")


def test_the_page_names_every_key_factor_threshold_rule_and_size() -> None:
    page = PAGE.read_text()
    names = {*Plan.model_fields, "sizes", *Thresholds.model_fields, *RULE_NAMES, *SIZES}
    for workload in workloads.WORKLOADS:
        names |= set(known_factors(workload))
    missing = [name for name in sorted(names) if f"`{name}`" not in page and f"`[{name}]`" not in page]
    assert missing == []


def test_the_page_s_examples_are_plans() -> None:
    blocks = PAGE.read_text().split("```toml\n")[1:]
    texts = [block.partition("```")[0] for block in blocks]
    assert any(text.startswith("name =") for text in texts)
    for text in texts:
        whole = text if text.startswith("name =") else f'name = "x"\nquestion = "?"\nworkload = "pgbench"\n{text}'
        plan = parse_plan(whole, origin="docs/plan.md")
        cells = make_cells(plan)
        assert impossible_cells(plan, cells) == []
        assert len(combinations(plan, factors_of(plan))) > 1


def test_a_small_plan_has_no_size() -> None:
    assert small_plan().size is None
