import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import TEXT, small_plan

from octavo.errors import UsageError
from octavo.plan.cells import load_of, make_cells, order_of_round
from octavo.plan.model import parse_plan, restore_plan
from octavo.plan.presets import preset_names, preset_text


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('name = "small"', 'name = "small"\nreplicas = 3', ["unknown key 'replicas'", "rounds", "loads"]),
        ('name = "small"', 'name = "a/../b"', ["name"]),
        ("rounds = 4", "rounds = 0", ["rounds", "greater than or equal to 1"]),
        ('question = "Which?"', "", ["'question' is missing"]),
        ('data_block = ["4kB", "8kB"]', 'data_block = ["3kB", "8kB"]', ["data_block", "'3kB'", "1kB, 2kB, 4kB, 8kB"]),
        ('data_block = ["4kB", "8kB"]', 'data_blocks = ["4kB"]', ["unknown factor 'data_blocks'", "data_block"]),
        ('data_block = ["4kB", "8kB"]', 'data_block = ["4kB", "4kB", "8kB"]', ["data_block", "twice"]),
        ('[baseline]\ndata_block = "8kB"', '[baseline]\ndata_block = "16kB"', ["baseline.data_block", "4kB, 8kB"]),
        ('workload = "pgbench"', 'workload = "tpcz"', ["workload", "'tpcz'", "pgbench"]),
        ("rounds = 4", "rounds = 4\nthreshold = 3", ["threshold"]),
        ("rounds = 4", 'rounds = 4\nthreshold = "3"', ["threshold", "%"]),
        ("[baseline]", "[validity]\nmost_stele = '1%'\n[baseline]", ["validity.most_stele", "most_steal"]),
        ('[baseline]\ndata_block = "8kB"', "[baseline]", ["baseline", "at least 1"]),
        ("rounds = 4", "rounds = ", ["small.toml", "not TOML"]),
    ],
)  # fmt: skip
def test_a_broken_plan_is_told_in_one_line_with_its_key(old: str, new: str, names: list[str]) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        parse_plan(TEXT.replace(old, new), origin="small.toml")
    message = str(caught.value)
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


def test_cells_know_every_factor() -> None:
    for cell in make_cells(small_plan()):
        assert {"data_block", "wal_block", "version", "scale", "clients", "mode", "cache"} <= set(cell.levels)


@given(seed=st.integers(0, 2**31), rounds=st.integers(1, 6))
def test_a_round_is_every_cell_once_and_depends_on_the_seed_alone(seed: int, rounds: int) -> None:
    cells = make_cells(small_plan())
    for number in range(1, rounds + 1):
        order = order_of_round(cells, number, 1, seed)
        assert sorted(cell.id for cell in order) == sorted(cell.id for cell in cells)
        assert order == order_of_round(list(cells), number, 1, seed)


def test_the_order_changes_from_round_to_round() -> None:
    cells = make_cells(small_plan())
    orders = {tuple(cell.id for cell in order_of_round(cells, number, 1, 7)) for number in range(1, 11)}
    assert len(orders) > 5


@given(round_number=st.integers(1, 100), loads=st.integers(1, 9))
def test_the_control_never_shares_a_load_with_its_baseline(round_number: int, loads: int) -> None:
    cells = make_cells(small_plan())
    (baseline, *_) = [cell for cell in cells if cell.baseline]
    (control, *_) = [cell for cell in cells if cell.control]
    assert 1 <= load_of(baseline, round_number, loads) <= loads
    assert loads < load_of(control, round_number, loads) <= 2 * loads


def test_a_stored_plan_is_the_same_plan() -> None:
    plan = small_plan(clients=["2"])
    assert restore_plan(plan.model_dump(mode="json")) == plan


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_plan(name: str) -> None:
    plan = parse_plan(preset_text(name), origin=name)
    assert plan.name == name
    assert any(cell.baseline for cell in make_cells(plan))
