import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plans import changed_plan, small_plan

from octavo.errors import UsageError
from octavo.plan.cells import Cell, make_cells
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan

LEVELS = {
    "data_block": ["4kB", "8kB", "16kB", "32kB"],
    "wal_block": ["4kB", "8kB", "64kB"],
    "shared_buffers": ["64MB", "128MB", "256MB"],
}
BASELINE = {"data_block": "8kB", "wal_block": "8kB", "shared_buffers": "128MB"}
CONDITIONS = {"mode": ["read-only", "read-write"], "clients": ["1", "8"]}

Point = tuple[str, ...]
points = st.tuples(*(st.sampled_from(levels) for levels in LEVELS.values()))


def plan_text(keys: str = "", tables: str = "", factors: dict[str, list[str]] | None = None) -> str:
    listed = {**LEVELS, **CONDITIONS} if factors is None else factors
    return "\n".join(
        [
            'name = "three"\nquestion = "Which?"\nworkload = "pgbench"',
            keys,
            "[baseline]",
            *(f'{name} = "{level}"' for name, level in BASELINE.items()),
            "[factors]",
            *(f"{name} = {levels}" for name, levels in listed.items()),
            tables,
        ]
    )


def design(keys: str = "", tables: str = "", factors: dict[str, list[str]] | None = None) -> Plan:
    return parse_plan(plan_text(keys, tables, factors), origin="three.toml")


def measured(plan: Plan) -> list[Cell]:
    return [cell for cell in make_cells(plan) if not cell.control]


def point(cell: Cell) -> Point:
    return tuple(cell.levels[name] for name in LEVELS)


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_plan(text, origin="three.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


GRID = [cell.levels for cell in measured(design())]


def test_the_grid_is_every_combination_in_the_order_of_the_levels() -> None:
    whole = {**LEVELS, **CONDITIONS}
    wanted = [dict(zip(whole, each, strict=True)) for each in itertools.product(*whole.values())]
    assert [{name: levels[name] for name in whole} for levels in GRID] == wanted


def test_one_at_a_time_is_the_baseline_and_each_other_level_alone_in_every_condition() -> None:
    cells = measured(design('design = "one-at-a-time"'))
    conditions = {cell.condition for cell in cells}
    assert len(conditions) == 4
    for condition in conditions:
        mine = [cell for cell in cells if cell.condition == condition]
        assert len(mine) == 1 + 3 + 2 + 2
        off = [sum(cell.levels[name] != level for name, level in BASELINE.items()) for cell in mine]
        assert sorted(off) == [0] + [1] * 7
        assert [cell.baseline for cell in mine] == [count == 0 for count in off]


def test_one_at_a_time_a_cell_is_called_by_what_differs() -> None:
    wal_block = 'baseline = { data_block = "8kB", wal_block = "8kB" }'
    factors = 'factors = { data_block = ["4kB", "8kB"], wal_block = ["8kB", "16kB"] }'
    head = 'name = "x"\nquestion = "?"\nworkload = "pgbench"\ncontrol = false\n'
    grid = parse_plan(f"{head}{wal_block}\n{factors}\n", origin="x.toml")
    assert [cell.label for cell in make_cells(grid)] == ["4kB/8kB", "4kB/16kB", "8kB/8kB", "8kB/16kB"]
    single = parse_plan(f'{head}design = "one-at-a-time"\n{wal_block}\n{factors}\n', origin="x.toml")
    assert {cell.label for cell in make_cells(single)} == {"baseline", "data_block 4kB", "wal_block 16kB"}


@given(st.lists(points.filter(lambda each: each != tuple(BASELINE.values())), unique=True, min_size=1, max_size=8))
def test_explicit_cells_are_the_baseline_and_those_listed_in_every_condition(chosen: list[Point]) -> None:
    tables = "\n".join(
        "[[cells]]\n" + "\n".join(f'{name} = "{level}"' for name, level in zip(LEVELS, each, strict=True))
        for each in chosen
    )
    plan = design(tables=tables, factors=CONDITIONS)
    cells = measured(plan)
    assert len(cells) == 4 * (1 + len(chosen))
    assert {point(cell) for cell in cells} == {*chosen, tuple(BASELINE.values())}
    assert sum(cell.control for cell in make_cells(plan)) == sum(cell.baseline for cell in cells) == 4


def test_what_an_explicit_cell_does_not_name_is_the_baseline_s() -> None:
    cells = measured(design(tables='[[cells]]\ndata_block = "4kB"\n[[cells]]\nwal_block = "64kB"', factors={}))
    assert {point(cell) for cell in cells} == {
        ("8kB", "8kB", "128MB"), ("4kB", "8kB", "128MB"), ("8kB", "64kB", "128MB"),
    }  # fmt: skip


matches = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(st.sampled_from(levels), unique=True, min_size=1, max_size=2)
        for name, levels in {**LEVELS, **CONDITIONS}.items()
    },
).filter(bool)


@settings(deadline=None)
@given(include=st.lists(matches, max_size=2), exclude=st.lists(matches, max_size=2))
def test_include_and_exclude_leave_a_part_of_the_grid_with_its_baselines_or_are_refused(
    include: list[dict[str, list[str]]], exclude: list[dict[str, list[str]]]
) -> None:
    def hit(levels: object, tables: list[dict[str, list[str]]]) -> bool:
        assert isinstance(levels, dict)
        return any(all(levels[name] in wanted for name, wanted in table.items()) for table in tables)

    tables = "\n".join(
        f"[[{kind}]]\n" + "\n".join(f"{name} = {levels}" for name, levels in each.items())
        for kind, given_ in (("include", include), ("exclude", exclude))
        for each in given_
    )
    try:
        cells = measured(design(tables=tables))
    except UsageError as error:
        assert "include" in str(error) or "exclude" in str(error)
        return
    left = [cell.levels for cell in cells]
    assert all(levels in GRID for levels in left)
    assert not any(hit(levels, exclude) for levels in left)
    for cell in cells:
        assert not include or cell.baseline or hit(cell.levels, include)
    wanted = [levels for levels in GRID if (not include or hit(levels, include)) and not hit(levels, exclude)]
    assert all(levels in left for levels in wanted)
    for condition in {cell.condition for cell in cells}:
        mine = [cell for cell in cells if cell.condition == condition]
        assert sum(cell.baseline for cell in mine) == 1
        assert len(mine) > 1


@pytest.mark.parametrize(
    ("keys", "tables", "names"),
    [
        ("", '[[exclude]]\ndata_block = "8kB"', ["exclude", "baseline of mode=read-only clients=1"]),
        ("", '[[exclude]]\ndata_block = ["4kB", "16kB", "32kB"]\nwal_block = ["4kB", "8kB", "64kB"]\n'
             '[[exclude]]\nwal_block = ["4kB", "64kB"]\n[[exclude]]\nshared_buffers = ["64MB", "256MB"]',
         ["no cell is left to compare", "exclude it too"]),
        ("", '[[exclude]]\nmode = ["read-only", "read-write"]', ["every cell"]),
        ("", '[[include]]\ndata_block = "1kB"', ["include", "no cell"]),
        ("", '[[include]]\ndata_block = "8kB"\nwal_block = "8kB"\nshared_buffers = "128MB"',
         ["include: no cell is left to compare"]),
        ("", '[[exclude]]\ndata_blok = "8kB"', ["unknown factor 'data_blok'"]),
        ("", '[[exclude]]\ndata_block = "3kB"', ["data_block", "'3kB'"]),
        ("", '[[exclude]]\nsettings.jit = "off"', ["exclude", "settings.jit"]),
        ("", "[[exclude]]", ["exclude.1", "at least 1"]),
        ("", '[[cells]]\nmode = "read-only"', ["cells.1", "mode", "[baseline]"]),
        ("", '[[cells]]\ndata_block = "4kB"\n[[cells]]\ndata_block = "4kB"\nwal_block = "8kB"',
         ["cells.2 duplicates cells.1"]),
        ("", '[[cells]]\ndata_block = "8kB"', ["cells.1 duplicates the baseline"]),
        ("", '[[cells]]\ndata_block = "1kB"', ["cells", "data_block=1kB", "4kB, 8kB, 16kB, 32kB"]),
        ("", '[[cells]]\ndata_block = "4kB"', ["factors.data_block", "16kB", "no [[cells]]"]),
        ('design = "one-at-a-time"', '[[cells]]\ndata_block = "4kB"', ["design", "[[cells]]"]),
        ('design = "latin"', "", ["design", "'grid' or 'one-at-a-time'"]),
    ],
)  # fmt: skip
def test_a_broken_design_is_told_by_its_name(keys: str, tables: str, names: list[str]) -> None:
    message = refusal(plan_text(keys, tables))
    assert all(name in message for name in names), message


def test_a_condition_may_be_left_out_as_a_whole() -> None:
    plan = changed_plan({"loads = 2": 'loads = 2\n[[exclude]]\nmode = "read-only"'})
    assert {cell.levels["mode"] for cell in make_cells(plan)} == {"read-write"}


def test_a_lone_baseline_with_its_control_is_a_plan() -> None:
    assert [cell.control for cell in make_cells(small_plan(data_block=["8kB"], mode=["read-only"]))] == [False, True]


def test_a_slip_of_the_pen_is_refused_before_its_cells_are_made() -> None:
    sixteen = {f"settings.a{number}": ["1", "2", "3", "4"] for number in range(16)}
    with pytest.raises(UsageError, match="17,179,869,184 cells; at most 10,000"):
        small_plan(**sixteen)


def test_a_thousand_cells_take_no_time() -> None:
    changes = {"clients": [str(number) for number in range(1, 101)], "mode": ["read-only"]}
    began = time.process_time()
    cells = make_cells(small_plan(**changes, data_block=["1kB", "2kB", "4kB", "8kB", "16kB"], checksums=["on", "off"]))
    assert len(cells) == 1000 + 200
    assert time.process_time() - began < 1


def test_one_at_a_time_does_not_make_the_grid_to_throw_it_away() -> None:
    factors = {f"settings.a{number}": ["1", "2", "3", "4"] for number in range(16)}
    baseline = "\n".join(f'{name} = "1"' for name in factors)
    plan = changed_plan({"rounds = 4": 'design = "one-at-a-time"', "[factors]": f"{baseline}\n[factors]"}, **factors)
    assert len([cell for cell in make_cells(plan) if not cell.control]) == 2 * (1 + 1 + 16 * 3)
