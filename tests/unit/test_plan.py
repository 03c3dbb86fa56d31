from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import TEXT, changed_plan, small_plan

from octavo.errors import UsageError
from octavo.plan.cells import load_of, make_cells, order_of_round, short_label, with_defaults
from octavo.plan.factors import build_of
from octavo.plan.model import factors_of, restore_plan
from octavo.plan.negative import negative_in
from octavo.plan.parse import parse_plan
from octavo.plan.server_settings import settings_of
from octavo.plan.sizes import choose_size
from octavo.postgres.builds.spec import BuildSpec


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('name = "small"', 'name = "small"\nreplicas = 3', ["unknown key 'replicas'", "rounds", "loads", "sizes"]),
        ('name = "small"', 'name = "small"\nround = 3', ["unknown key 'round'; did you mean rounds?"]),
        ('name = "small"', 'name = "a b"', ["name: invalid name 'a b'; allowed: ", "letters, digits"]),
        ('data_block = ["4kB", "8kB"]', 'data_blok = ["4kB"]', ["'data_blok'; did you mean data_block?"]),
        ('name = "small"', 'name = "a/../b"', ["name"]),
        ("rounds = 4", "rounds = 0", ["rounds", "greater than or equal to 1"]),
        ('question = "Which?"', "", ["'question' is missing"]),
        ('data_block = ["4kB", "8kB"]', 'data_block = ["3kB", "8kB"]', ["data_block", "'3kB'", "1kB, 2kB, 4kB, 8kB"]),
        ('data_block = ["4kB", "8kB"]', 'data_blocks = ["4kB"]', ["unknown factor 'data_blocks'", "data_block"]),
        ('data_block = ["4kB", "8kB"]', 'data_block = ["4kB", "4kB", "8kB"]', ["data_block", "duplicate"]),
        ('[baseline]\ndata_block = "8kB"', '[baseline]\ndata_block = "16kB"', ["baseline.data_block", "4kB, 8kB"]),
        ('[baseline]\ndata_block = "8kB"', '[baseline]\nwal_block = "4kB"', ["baseline.wal_block", "the levels 8kB"]),
        ('workload = "pgbench"', 'workload = "tpcz"', ["workload", "'tpcz'", "tpch"]),
        ("rounds = 4", "rounds = 4\nthreshold = 3", ["threshold"]),
        ("rounds = 4", 'rounds = 4\nthreshold = "3"', ["threshold", "%"]),
        ("[baseline]", "[validity]\nmost_stele = '1%'\n[baseline]", ["validity.most_stele", "most_steal"]),
        ('[baseline]\ndata_block = "8kB"', "[baseline]", ["baseline", "at least 1"]),
        ("rounds = 4", "rounds = ", ["small.toml", "not TOML"]),
        ("rounds = 4", 'rounds = 4\nstopping = "soon"', ["stopping", "'decided' or 'fixed'"]),
        ("rounds = 4", 'rounds = 4\nmetric = "latency_avg"', ["metric", "'latency_avg'", "latency_avg_ms"]),
        ("rounds = 4", "rounds = 4\nfirst_look = 1", ["first_look", "greater than or equal to 2"]),
        ("rounds = 4", 'rounds = 4\nprecision = "1"', ["precision", "%"]),
        ("rounds = 4", 'rounds = 4\nbudget = "soon"', ["budget", "'soon'", "duration"]),
        ("rounds = 4", 'rounds = 4\nbudget = "0s"', ["budget", "no time"]),
        ("rounds = 4", 'rounds = 4\nnegative = ["mode"]', ["negative", "mode", "[baseline]"]),
        ('[baseline]\n', 'negative = ["wal_block"]\n[baseline]\nwal_block = "8kB"\n', ["negative", "one level"]),
        ("rounds = 4", 'rounds = 4\noutcomes = ["weather"]', ["outcomes", "'weather'", "steal"]),
        ("[factors]", '[factors]\nversion = "14"', ["version", "'14'", "18, 17, 15"]),
        ("[factors]", '[factors]\ncompiler_flags = "O3"', ["compiler_flags", "'O3'", "-O3"]),
        ("[factors]", '[factors]\nsettings.shared_buffers = "1GB"', ["shared_buffers", "the factor"]),
        ("[factors]", '[factors]\nsettings.Data_Checksums = "on"', ["the factor checksums"]),
        ("[factors]", '[factors]\nsettings.port = 5432', ["setting port", "reserved"]),
        ("[factors]", '[factors]\n"settings.work mem" = "1MB"', ["'work mem'", "not a valid setting name"]),
        ("[factors]", '[settings]\nmin_wal_size = "1GB"\n[factors]', ["[settings]", "the factor recycled_wal"]),
        ("[factors]", '[settings]\njit = "on"\n[factors]\nsettings.jit = "off"', ["[settings]", "settings.jit"]),
        ('data_block = "8kB"', 'data_block = "8kB"\nsettings.jit = "on"', ["baseline.settings.jit", "[factors]"]),
    ],
)  # fmt: skip
def test_a_broken_plan_is_told_in_one_line_with_its_key(old: str, new: str, names: list[str]) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        parse_plan(TEXT.replace(old, new), origin="small.toml")
    message = str(caught.value)
    assert message.startswith("small.toml: ")
    assert "\n" not in message
    assert all(name in message for name in names), message


def test_every_combination_is_a_cell_and_every_baseline_has_a_control() -> None:
    cells = make_cells(small_plan(data_block=["4kB", "8kB", "16kB"]))
    assert len({cell.id for cell in cells}) == len(cells) == 3 * 2 + 2
    for condition in ("read-only", "read-write"):
        mine = [cell for cell in cells if cell.condition == condition]
        assert [cell.label for cell in mine if cell.baseline] == ["8kB"]
        (control,) = [cell for cell in mine if cell.control]
        (baseline,) = [cell for cell in mine if cell.baseline]
        assert control.levels == baseline.levels
        assert control.id != baseline.id
        assert control.dataset != baseline.dataset


def test_cells_know_every_factor() -> None:
    plan = small_plan()
    for cell in make_cells(plan):
        assert set(cell.levels) == set(factors_of(plan))
        assert {"data_block", "wal_block", "version", "scale", "clients", "mode", "cache"} <= set(cell.levels)


@given(seed=st.integers(0, 2**31), number=st.integers(1, 6), attempt=st.integers(1, 3), data=st.data())
def test_a_round_is_every_active_cell_once_and_depends_on_the_seed_alone(
    seed: int, number: int, attempt: int, data: st.DataObject
) -> None:
    cells = make_cells(small_plan())
    active = [cell for cell in cells if cell.baseline or data.draw(st.booleans())]
    order = order_of_round(active, number, attempt, seed)
    assert sorted(cell.id for cell in order) == sorted(cell.id for cell in active)
    assert order == order_of_round(list(active), number, attempt, seed)


def test_the_order_changes_from_round_to_round_and_attempt_to_attempt() -> None:
    cells = make_cells(small_plan())
    rounds = {tuple(cell.id for cell in order_of_round(cells, number, 1, 7)) for number in range(1, 11)}
    attempts = {tuple(cell.id for cell in order_of_round(cells, 1, attempt, 7)) for attempt in range(1, 11)}
    assert len(rounds) > 5
    assert len(attempts) > 5


@given(round_number=st.integers(1, 100), loads=st.integers(1, 9))
def test_the_control_never_shares_a_load_with_its_baseline(round_number: int, loads: int) -> None:
    cells = make_cells(small_plan())
    (baseline, *_) = [cell for cell in cells if cell.baseline]
    (control, *_) = [cell for cell in cells if cell.control]
    assert 1 <= load_of(baseline, round_number, loads) <= loads
    assert loads < load_of(control, round_number, loads) <= 2 * loads


@given(loads=st.integers(1, 9))
def test_rounds_take_the_loads_in_turn(loads: int) -> None:
    cell = make_cells(small_plan())[0]
    taken = [load_of(cell, number, loads) for number in range(1, 3 * loads + 1)]
    assert taken == [*range(1, loads + 1)] * 3


def test_loads_are_shared_across_the_geometry_of_the_wal_and_runs_but_not_across_what_is_in_them() -> None:
    plan = small_plan(wal_block=["4kB", "8kB"], wal_segment=["16MB", "64MB"], clients=["1", "4"], mode=["read-only"])
    assert len({cell.dataset for cell in make_cells(plan) if not cell.control}) == 2  # the data blocks
    plan = small_plan(scale=["1", "2"], data_segment=["1GB", "2GB"], compiler=["gcc", "clang"], checksums=["on", "off"])
    # With any compiler of the server the pages are the same.
    assert len({cell.dataset for cell in make_cells(plan) if not cell.control}) == 2 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("checksums", ["on", "off"]),
        ("wal_segment", ["16MB", "64MB"]),
        ("recycled_wal", ["384MB", "768MB"]),
        ("shared_buffers", ["64MB", "128MB"]),
    ],
)
def test_a_change_costs_a_load_exactly_if_its_levels_have_loads_of_their_own(name: str, levels: list[str]) -> None:
    plan = small_plan(mode=["read-only"], **{name: levels})
    datasets = {cell.dataset for cell in make_cells(plan) if not cell.control}
    assert len(datasets) == (4 if factors_of(plan)[name].kind == "cluster" else 2)  # 2 data blocks


def test_a_stored_plan_is_the_same_plan() -> None:
    plan = changed_plan({"loads = 2": 'budget = "2h"\n[[exclude]]\nmode = "read-only"'}, clients=["2"])
    assert restore_plan(plan.model_dump(mode="json")) == plan


def test_a_run_from_before_stopping_rules_had_its_rounds_fixed() -> None:
    stored = small_plan().model_dump(mode="json")
    del stored["stopping"]
    assert restore_plan(stored).stopping == "fixed"
    assert small_plan().stopping == "decided"


def test_a_run_from_before_a_factor_has_it_at_its_default_and_keeps_what_it_had() -> None:
    plan = small_plan(clients=["3"])
    whole = make_cells(plan)
    unknown = {"cache", "duration"}
    before = [
        replace(cell, levels={name: level for name, level in cell.levels.items() if name not in unknown})
        for cell in whole
    ]
    now = with_defaults(before, plan)
    assert now == whole
    known = factors_of(plan)
    assert all(cell.levels[name] == known[name].default for cell in now for name in unknown)
    assert {cell.levels["clients"] for cell in now} == {"3"} != {known["clients"].default}
    assert {cell.levels["data_block"] for cell in now} == {"4kB", "8kB"}


def test_narrow_enough_is_half_the_threshold_unless_the_plan_says_otherwise() -> None:
    assert small_plan().precision_fraction == pytest.approx(0.015)
    plan = changed_plan({"rounds = 4": 'rounds = 4\nprecision = "1%"\nbudget = "1.5h"'})
    assert (plan.precision_fraction, plan.budget_seconds) == (pytest.approx(0.01), 5400)
    assert small_plan().budget_seconds is None


def test_a_setting_is_a_factor_whether_its_key_is_quoted_or_not() -> None:
    quoted = changed_plan({"[factors]": '[factors]\n"settings.full_page_writes" = ["on", "off"]'})
    nested = changed_plan({"[factors]": "[factors]\nsettings.full_page_writes = [true, false]"})
    assert quoted == nested
    assert quoted == small_plan(**{"settings.full_page_writes": ["on", "off"]})
    (baseline, *_) = make_cells(quoted)
    assert settings_of(baseline.levels) == {"full_page_writes": "on"}
    assert {cell.condition for cell in make_cells(quoted)} == {
        f"{mode}, full_page_writes {word}" for word in ("on", "off") for mode in ("read-only", "read-write")
    }


@pytest.mark.parametrize("key", ['"auto_explain.log_analyze"', "auto_explain.log_analyze"])
def test_a_setting_of_an_extension_has_a_dot_in_its_name(key: str) -> None:
    plan = changed_plan({"[factors]": f"[settings]\njit = true\n{key} = false\n[factors]"})
    assert plan.settings == {"jit": "on", "auto_explain.log_analyze": "off"}


def test_settings_of_an_extension_are_merged_one_by_one() -> None:
    below, above = ({"settings": {"auto_explain": {name: True}}} for name in ("log_analyze", "log_timing"))
    merged = choose_size({**below, "sizes": {"quick": above}}, "quick")
    assert merged["settings"] == {"auto_explain.log_analyze": True, "auto_explain.log_timing": True}


def test_a_setting_of_the_command_line_replaces_that_of_the_plan() -> None:
    own = {"[factors]": '[settings]\njit = "on"\nautovacuum = "off"\n[factors]'}
    plan = changed_plan(own, **{"settings.jit": ["off"]})
    assert plan.factors["settings.jit"] == ["off"]
    assert plan.settings == {"autovacuum": "off"}


def test_explicit_cells_at_levels_that_the_command_line_leaves_out_are_dropped() -> None:
    listed = {"[factors]": '[[cells]]\ndata_block = "4kB"\n[[cells]]\ndata_block = "16kB"\n[factors]'}
    listed['data_block = ["4kB", "8kB"]'] = ""
    assert changed_plan(listed).factors["data_block"] == ["8kB", "4kB", "16kB"]
    plan = changed_plan(listed, data_block=["8kB", "16kB"])
    assert (plan.cells, plan.factors["data_block"]) == ([{"data_block": "16kB"}], ["8kB", "16kB"])
    with pytest.raises(UsageError, match="cells: none has the levels data_block=8kB"):
        changed_plan(listed, data_block=["8kB"])
    with pytest.raises(UsageError, match="32kB is in no"):
        changed_plan(listed, data_block=["8kB", "16kB", "32kB"])


def test_settings_of_extensions_and_sizes_in_other_spellings() -> None:
    plan = small_plan(**{"settings.auto_explain.log_analyze": ["on"], "settings.work_mem": ["4096kB", "64 MB"]})
    assert plan.factors["settings.work_mem"] == ["4MB", "64MB"]
    assert plan.factors["settings.auto_explain.log_analyze"] == ["on"]
    with pytest.raises(UsageError, match="duplicate"):
        small_plan(**{"settings.work_mem": ["4096kB", "4MB"]})


def test_a_compared_setting_has_a_short_label() -> None:
    changes = {'[baseline]\ndata_block = "8kB"': '[baseline]\ndata_block = "8kB"\nsettings.full_page_writes = "on"'}
    both = changed_plan(changes, **{"settings.full_page_writes": ["on", "off"]})
    assert {cell.label for cell in make_cells(both) if not cell.control} == {
        f"{block}/full_page_writes {word}" for block in ("4kB", "8kB") for word in ("on", "off")
    }
    alone = changed_plan(changes, **{"settings.full_page_writes": ["on", "off"], "data_block": ["8kB"]})
    assert {cell.label for cell in make_cells(alone) if not cell.control} == {"on", "off"}


def test_a_switch_has_its_factors_name() -> None:
    assert [short_label("indexed", level) for level in ("yes", "no")] == ["indexed yes", "indexed no"]
    assert short_label("mode", "read-only") == "read-only"


def test_the_first_level_set_is_the_baseline_where_the_plans_own_is_not_among_them() -> None:
    assert changed_plan({}, data_block=["4kB", "8kB"]).baseline == {"data_block": "8kB"}
    plan = changed_plan({}, data_block=["16kB", "32kB"])
    assert plan.baseline == {"data_block": "16kB"}
    assert {cell.levels["data_block"] for cell in make_cells(plan) if cell.baseline} == {"16kB"}


def test_a_negative_control_that_a_change_leaves_one_level_is_none_any_more() -> None:
    changes = {
        "rounds = 4": 'rounds = 4\nnegative = ["wal_block"]',
        '[baseline]\ndata_block = "8kB"': '[baseline]\ndata_block = "8kB"\nwal_block = "8kB"',
        "[factors]": '[factors]\nwal_block = ["4kB", "8kB"]',
    }
    assert changed_plan(changes).negative == ["wal_block"]
    assert changed_plan(changes, wal_block=["8kB"]).negative == []


def test_a_factor_may_be_unable_to_matter_in_some_conditions_only() -> None:
    changes = {
        "rounds = 4": 'rounds = 4\nnegative = ["wal_block where mode=read-only"]',
        '[baseline]\ndata_block = "8kB"': '[baseline]\ndata_block = "8kB"\nwal_block = "8kB"',
        "[factors]": '[factors]\nwal_block = ["4kB", "8kB"]',
    }
    plan = changed_plan(changes)
    assert {cell.condition for cell in make_cells(plan) if negative_in(plan.negative, cell.levels)} == {"read-only"}
    assert changed_plan(changes, wal_block=["8kB"]).negative == []
    assert changed_plan(changes, mode=["read-write"]).negative == []
    changes["rounds = 4"] = 'rounds = 4\nnegative = ["wal_block where mode=idle"]'
    with pytest.raises(UsageError, match="idle is not among the levels of mode"):
        changed_plan(changes)


def test_a_cell_knows_its_build() -> None:
    plan = small_plan(
        version=["18.6"], wal_block=["64kB"], data_segment=["4GB"], compiler=["clang-16"],
        compiler_flags=["-O3  -march=native"],
    )  # fmt: skip
    assert build_of(make_cells(plan)[0].levels) == BuildSpec(
        "18.6", "4kB", "64kB", "4GB", "clang-16", ("-O3", "-march=native")
    )
    assert build_of({"version": "18", "data_block": "4kB", "wal_block": "8kB"}) == BuildSpec("18", "4kB", "8kB")
