"""The identity of plans: real ones of three versions, which must be equal or differ.

`real_plans/VERSION.json` are the outputs of PostgreSQL's EXPLAIN for the same tables and queries in each version.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import OctavoError
from octavo.postgres.plan_diff import differences
from octavo.postgres.plan_shape import Shape, from_dict, parse, shape_of

_FILES = sorted((Path(__file__).parent / "real_plans").glob("*.json"))
REAL: dict[str, dict[str, Any]] = {file.stem: json.loads(file.read_text()) for file in _FILES}
SHAPES = {version: {name: shape_of(plan) for name, plan in plans.items()} for version, plans in REAL.items()}
NAMES = list(REAL["18"])
# These differ from `join` only in costs, rows, aliases, literals and options of EXPLAIN.
SAME_AS_JOIN = ("join, other aliases", "join, other costs", "join, other rows", "join, analyzed", "join, verbose")


def test_there_are_plans_of_every_version() -> None:
    assert list(REAL) == ["15", "17", "18"]


@pytest.mark.parametrize("name", NAMES)
def test_versions_agree(name: str) -> None:
    assert len({SHAPES[version][name].identity for version in SHAPES}) == 1
    assert len({SHAPES[version][name] for version in SHAPES}) == 1


@pytest.mark.parametrize("version", SHAPES)
@pytest.mark.parametrize("name", SAME_AS_JOIN)
def test_costs_rows_aliases_and_options_are_no_part_of_it(version: str, name: str) -> None:
    assert SHAPES[version][name] == SHAPES[version]["join"]


@pytest.mark.parametrize("version", SHAPES)
def test_every_other_plan_is_another(version: str) -> None:
    others = [name for name in NAMES if name not in (*SAME_AS_JOIN, "cte, other name")]
    assert len({SHAPES[version][name].identity for name in others}) == len(others)
    assert SHAPES[version]["cte"] == SHAPES[version]["cte, other name"]


def test_two_sides_of_a_set_operation_are_not_exchanged() -> None:
    """Until 17 they are below an Append, whose children have no order elsewhere."""
    plan = json.loads(json.dumps(REAL["15"]["set operation"]))
    plan[0]["Plan"]["Plans"][0]["Plans"].reverse()
    assert shape_of(plan) != SHAPES["15"]["set operation"]


def test_pieces_have_no_order() -> None:
    plan = json.loads(json.dumps(REAL["18"]["partition-wise"]))
    plan[0]["Plan"]["Plans"].reverse()
    assert shape_of(plan) == SHAPES["18"]["partition-wise"]


def test_a_side_of_a_set_operation_may_be_one() -> None:
    """(a except b) except c: until 17 the first has a Result above it, where the others have a Subquery Scan."""

    def scan(name: str) -> dict[str, Any]:
        return {"Node Type": "Seq Scan", "Relation Name": name}

    def side(kind: str, below: dict[str, Any]) -> dict[str, Any]:
        return {"Node Type": kind, "Parent Relationship": "Member", "Plans": [below]}

    def less(*below: dict[str, Any]) -> dict[str, Any]:
        return {"Node Type": "SetOp", "Strategy": "Hashed", "Command": "Except", "Plans": list(below)}

    def appended(*below: dict[str, Any]) -> dict[str, Any]:
        return less({"Node Type": "Append", "Plans": list(below)})

    inner = appended(side("Subquery Scan", scan("a")), side("Subquery Scan", scan("b")))
    before = appended(side("Result", inner), side("Subquery Scan", scan("c")))
    assert shape_of(before) == shape_of(less(less(scan("a"), scan("b")), scan("c")))
    filtered = appended({**side("Result", inner), "One-Time Filter": "$0"}, side("Subquery Scan", scan("c")))
    assert shape_of(filtered) != shape_of(before)


def test_a_subplan_looked_up_in_a_hash_table_is_another_plan() -> None:
    """`NOT IN`, as in TPC-H's query 16, as printed by 15 and by 18; EXPLAIN marks only the condition."""

    def plan(condition: str, **more: object) -> Shape:
        below = {"Node Type": "Seq Scan", "Relation Name": "supplier", "Parent Relationship": "SubPlan",
                 "Subplan Name": "SubPlan 1"}  # fmt: skip
        return shape_of({"Node Type": "Seq Scan", "Relation Name": "partsupp", "Filter": condition, "Plans": [below],
                         **more})  # fmt: skip

    hashed = plan("(NOT (hashed SubPlan 1))")
    assert hashed == plan("(NOT (ANY (ps_suppkey = (hashed SubPlan 1).col1)))")
    assert hashed == plan("(NOT (hashed SubPlan 1))", Output=["ps_suppkey", "(hashed SubPlan 1)"])
    each = plan("(NOT (SubPlan 1))")
    assert each == plan("(NOT (ANY (ps_suppkey = (SubPlan 1).col1)))") == plan("(hashed SubPlan 10)")
    assert hashed.identity != each.identity
    assert from_dict(hashed.as_dict()) == hashed
    assert hashed.lines() == ["Seq Scan on partsupp", "  hashed SubPlan: Seq Scan on supplier"]
    assert differences(each, hashed) == ["without SubPlan", "with hashed SubPlan"]


def test_what_is_computed_once_has_no_place() -> None:
    """An InitPlan is attached where its value is first needed, which versions choose differently."""
    plan = json.loads(json.dumps(REAL["18"]["initplan"]))
    pieces = plan[0]["Plan"]["Plans"]
    (computed,) = (one for one in pieces if one["Parent Relationship"] == "InitPlan")
    pieces.remove(computed)
    pieces[0]["Plans"] = [computed]
    assert shape_of(plan) == SHAPES["18"]["initplan"]


def test_it_is_read_in_every_frame() -> None:
    plan = REAL["18"]["join"]
    assert parse(json.dumps(plan)) == parse(json.dumps(plan[0]).encode()) == parse(json.dumps(plan[0]["Plan"]))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_stored_and_read_again(name: str) -> None:
    shape = SHAPES["18"][name]
    assert from_dict(json.loads(json.dumps(shape.as_dict()))) == shape


def test_names_cannot_pretend() -> None:
    """A table's name may look like a part of a plan."""
    ours = Shape("Append", below=(Shape("Seq Scan", "a"), Shape("Seq Scan", "b")))
    theirs = Shape("Append", below=(Shape("Seq Scan", "a, Seq Scan on b"),))
    assert ours.line() != theirs.line()
    assert "\n" not in Shape("Seq Scan", "a\nb").line()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[{}]",
        "{}",
        "null",
        "[[]]",
        '{"Plan": 1}',
        '[{"Plan": {"Node Type": 3}}]',
        '[{"Plan": {"Node Type": "Sort", "Plans": {}}}]',
        '[{"Plan": {"Node Type": "Sort", "Plans": [1]}}]',
        '[{"Plan": {"Node Type": "Sort"}}, {"Plan": {"Node Type": "Sort"}}]',
        "QUERY PLAN\n Seq Scan on a",
        json.dumps(REAL["18"]["join"])[:-20],
        "[" * 100_000,
        '{"Plans": [' * 300 + "]}" * 300,
        '{"Node Type": "Sort", "Plans": [' * 300 + "]}" * 300,
        '{"Node Type": "Sort", "x": ' + "9" * 10_000 + "}",
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(OctavoError) as refused:
        parse(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 250


def test_a_cut_plan_is_refused_wherever_it_is_cut() -> None:
    text = json.dumps(REAL["17"]["join, parallel"])
    for end in range(0, len(text) - 1, 97):
        with pytest.raises(OctavoError):
            parse(text[:end])


def test_a_difference_is_said_in_words() -> None:
    plans = SHAPES["18"]
    assert differences(plans["join"], plans["join, verbose"]) == []
    assert differences(plans["join"], plans["join, nested loops"]) == [
        "orders: Seq Scan → Index Scan using orders_customer",
        "join of customer, orders: Hash Join → Nested Loop",
        "join order: ((orders customer) line) → ((customer orders) line)",
        "without Hash",
    ]
    assert differences(plans["forward"], plans["backward"]) == [
        "orders: Index Only Scan using orders_pkey → Index Only Scan backward using orders_pkey"
    ]
    assert "with Gather Merge" in differences(plans["join"], plans["join, parallel"])
    for one in plans.values():
        for other in plans.values():
            assert bool(differences(one, other)) == (one != other)


def test_an_index_of_a_subplan_is_not_one_that_its_table_is_read_with() -> None:
    """As in the filter of TPC-H's query 20."""
    looked_up = Shape("Aggregate", below=(Shape("Index Scan", "lineitem", "lineitem_part"),))
    scanned = Shape("Aggregate", below=(Shape("Seq Scan", "lineitem"),))
    before, after = (Shape("Seq Scan", "partsupp", subplans=(one,)) for one in (looked_up, scanned))
    assert differences(before, after) == ["lineitem: Index Scan using lineitem_part → Seq Scan"]
    bitmap = Shape("BitmapAnd", below=(Shape("Bitmap Index Scan", index="a"), Shape("Bitmap Index Scan", index="b")))
    heap = Shape("Bitmap Heap Scan", "partsupp", below=(bitmap,), subplans=(looked_up,))
    assert differences(before, heap) == ["partsupp: Seq Scan → Bitmap Heap Scan using a+b", "with BitmapAnd"]
