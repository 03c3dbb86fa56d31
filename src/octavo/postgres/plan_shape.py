"""The shape of a plan, which is its identity: its operations on relations in their order, without costs.

Read from EXPLAIN (FORMAT JSON) of PostgreSQL 15 and later. Two plans have one shape when they have the same nodes (with
strategy, join type, direction, parallel or not, subplans, pieces of a partitioned table) over the same relations and
indexes in the same places. Costs, rows, workers, aliases, conditions and names of subplans do not count, except that a
condition looks up a subplan's result in a hash table, which EXPLAIN shows nowhere else. Differences in notation between
versions are normalised:

- a SetOp by hashing has two inputs since 18, and had an Append of subqueries before, with a Result above a SetOp below;
- InitPlans and CTEs are named "InitPlan 1 (returns $0)" until 16; here they have neither name nor place, as each is
  computed once wherever it hangs;
- the scan direction NoMovement of 15 is that of no order.

Pieces of an Append and of a bitmap's AND and OR are sorted: their order follows from costs. Two uses of one relation
are distinguished by their positions only.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from octavo.errors import OctavoError
from octavo.text import one_line

# Deeper and wider than any plan of a hand-written query, and within Python's own limits.
_DEEPEST = 200
_MOST_NODES = 100_000
MOST_TEXT = 64 * 1024**2
_ONCE = ("InitPlan", "CTE")
_UNORDERED = ("Append", "Merge Append", "BitmapAnd", "BitmapOr")
# Properties in EXPLAIN that distinguish nodes of the same type, and the values that are ignored.
_PROPERTIES: Mapping[str, tuple[object, ...]] = {
    "Join Type": ("Inner",),
    "Strategy": ("Plain",),
    "Partial Mode": ("Simple",),
    "Operation": (),
    "Command": (),
    "Scan Direction": ("Forward", "NoMovement"),
    "Custom Plan Provider": (),
}
# Properties with what a node reads, in order of precedence; a CTE is numbered.
_READ = ("Relation Name", "Function Name", "Table Function Name", "Tuplestore Name")
_HASHED = re.compile(r"\bhashed (SubPlan \w+)")
_PLAIN_NAME = re.compile(r"[^\W\d][\w$.*-]*")


@dataclass(frozen=True, slots=True)
class Shape:
    """A node and its subtree. `what` is its type with its distinguishing properties; `relation` and `index` are
    names."""

    what: str
    relation: str | None = None
    index: str | None = None
    below: "tuple[Shape, ...]" = ()
    subplans: "tuple[Shape, ...]" = ()
    """Computed for rows of this node (SubPlan)."""
    hashed: "tuple[Shape, ...]" = ()
    """Computed once, and looked up in a hash table for rows of this node (hashed SubPlan)."""
    once: "tuple[Shape, ...]" = ()
    """Computed once for the whole plan (InitPlan, CTE); at the root only."""

    def title(self) -> str:
        """The node without its subtree.

        >>> Shape("Index Scan", "orders", "orders_pkey").title()
        'Index Scan on orders using orders_pkey'
        """
        if self.relation is None and self.index is not None:  # as EXPLAIN shows it for a Bitmap Index Scan
            return f"{self.what} on {_name(self.index)}"
        on = "" if self.relation is None else f" on {_name(self.relation)}"
        return f"{self.what}{on}" + ("" if self.index is None else f" using {_name(self.index)}")

    def line(self) -> str:
        """The whole shape on one line. Lines are equal only for equal shapes."""
        parts = [one.line() for one in self.below]
        parts += [f"SubPlan: {one.line()}" for one in self.subplans]
        parts += [f"Hashed SubPlan: {one.line()}" for one in self.hashed]
        parts += [f"Once: {one.line()}" for one in self.once]
        return f"{self.title()}({', '.join(parts)})" if parts else self.title()

    @property
    def identity(self) -> str:
        """A short name: the first 12 hexadecimal digits of the sha256 of `line`."""
        return hashlib.sha256(self.line().encode(errors="surrogatepass")).hexdigest()[:12]

    def lines(self, depth: int = 0, role: str = "") -> list[str]:
        """One line per node, indented as in EXPLAIN."""
        found = [f"{'  ' * depth}{role}{self.title()}"]
        groups = (
            ("", self.below), ("SubPlan: ", self.subplans), ("hashed SubPlan: ", self.hashed), ("once: ", self.once),
        )  # fmt: skip
        for label, group in groups:
            for one in group:
                found += one.lines(depth + 1, label)
        return found

    def as_dict(self) -> dict[str, Any]:
        """For a trial's facts; `from_dict` reads it."""
        groups = {"below": self.below, "subplans": self.subplans, "hashed": self.hashed, "once": self.once}
        return {
            "what": self.what,
            **{
                name: value for name, value in (("relation", self.relation), ("index", self.index)) if value is not None
            },
            **{name: [one.as_dict() for one in group] for name, group in groups.items() if group},
        }

    def nodes(self) -> "Iterator[Shape]":
        """Yields the node and all nodes below it, including subplans."""
        yield self
        for one in (*self.below, *self.subplans, *self.hashed, *self.once):
            yield from one.nodes()

    def relations(self) -> tuple[str, ...]:
        """The relations that are read below, sorted, with repetitions, without subplans."""
        mine = () if self.relation is None else (self.relation,)
        return tuple(sorted((*mine, *(name for one in self.below for name in one.relations()))))


def from_dict(facts: Mapping[str, Any]) -> Shape:
    """The shape that `as_dict` wrote."""
    names = ("below", "subplans", "hashed", "once")
    groups = {name: tuple(from_dict(one) for one in facts.get(name, ())) for name in names}
    return Shape(facts["what"], facts.get("relation"), facts.get("index"), **groups)


def known_nodes(plan: object) -> list[Mapping[str, object]]:
    """All nodes of a decoded plan. Raises OctavoError when one does not have the known form."""
    found: list[Mapping[str, object]] = []
    level = [plan]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for node in level:
            if not isinstance(node, dict):
                raise OctavoError(f"the plan has an invalid node: {one_line(str(node)[:40])!r}")
            known = cast(dict[str, object], node)
            children = known.get("Plans", [])
            if not isinstance(known.get("Node Type"), str) or not isinstance(children, list):
                raise OctavoError("the plan has a node without a type; give EXPLAIN (FORMAT JSON) of PostgreSQL")
            found.append(known)
            below += cast(list[object], children)
        if len(found) > _MOST_NODES:
            raise OctavoError(f"the plan has more than {_MOST_NODES} nodes, the limit")
        level = below
        if not level:
            return found
    raise OctavoError(f"the plan is more than {_DEEPEST} nodes deep, the limit")


def parse(text: str | bytes) -> Shape:
    """The shape of the plan in EXPLAIN's or auto_explain's JSON. Raises OctavoError when it contains no plan."""
    if len(text) > MOST_TEXT:
        raise OctavoError(f"a plan of {len(text) // 1024**2} MB is too large; give the output of EXPLAIN (FORMAT JSON)")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OctavoError(
            f"no plan in JSON ({str(error)[:80]}); give the whole output of EXPLAIN (FORMAT JSON)"
        ) from None
    return shape_of(document)


def shape_of(document: object) -> Shape:
    """The shape of a decoded plan: EXPLAIN's list, an object with `Plan`, or a node. Raises OctavoError."""
    found = document
    if isinstance(found, list):
        several = cast(Sequence[object], found)
        if len(several) != 1:
            raise OctavoError(f"a plan was expected, not a list of {len(several)}; explain one statement at a time")
        found = several[0]
    if isinstance(found, dict) and "Plan" in found:
        found = cast(dict[str, object], found)["Plan"]
    known_nodes(cast(object, found))
    once: list[Shape] = []
    ctes: dict[str, int] = {}
    root = _shape(cast(Mapping[str, Any], found), once, ctes)
    if not once:
        return root
    return replace(root, once=_sorted(once))


def _shape(node: Mapping[str, Any], once: list[Shape], ctes: dict[str, int]) -> Shape:
    """The node's shape. Shapes that are computed once are added to `once`."""
    below: list[Shape] = []
    subplans: list[Shape] = []
    hashed: list[Shape] = []
    looked_up = _hashed_subplans(node)
    for child in _children(node):
        role, name = child.get("Parent Relationship"), str(child.get("Subplan Name", ""))
        if name.startswith("CTE "):
            ctes.setdefault(name.removeprefix("CTE "), len(ctes) + 1)
        if role in _ONCE or name.startswith("CTE "):
            group = once
        elif role == "SubPlan":
            group = hashed if name in looked_up else subplans
        else:
            group = below
        group.append(_shape(child, once, ctes))
    kind = str(node["Node Type"])
    relation = next((name for key in _READ if (name := _text(node, key)) is not None), None)
    if kind == "CTE Scan":
        relation = f"CTE.{ctes.setdefault(str(node.get('CTE Name')), len(ctes) + 1)}"
    pieces = _sorted(below) if kind in _UNORDERED else tuple(below)
    return Shape(_what(kind, node), relation, _text(node, "Index Name"), pieces, _sorted(subplans), _sorted(hashed))


def _hashed_subplans(node: Mapping[str, Any]) -> set[str]:
    """The names of the subplans whose result a condition of the node looks up in a hash table. The output of a node is
    a list, which EXPLAIN shows only with VERBOSE, and is not considered."""
    return {name for value in node.values() if isinstance(value, str) for name in _HASHED.findall(value)}


def _children(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The nodes below. For a SetOp by hashing until 17, the two sides, which EXPLAIN names *SELECT* 1 and *SELECT* 2; a
    side that is itself a SetOp has a Result instead."""
    children: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    if node["Node Type"] != "SetOp" or node.get("Strategy") != "Hashed" or len(children) != 1:
        return children
    sides: Sequence[Mapping[str, Any]] = children[0].get("Plans", ())
    known = children[0]["Node Type"] == "Append" and all(map(_is_side, sides))
    return [side["Plans"][0] for side in sides] if known else children


def _is_side(node: Mapping[str, Any]) -> bool:
    """Whether the node only marks the rows of a side."""
    below: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    if len(below) != 1:
        return False
    return node["Node Type"] == "Subquery Scan" or (
        node["Node Type"] == "Result" and below[0]["Node Type"] == "SetOp" and "One-Time Filter" not in node
    )


def _what(kind: str, node: Mapping[str, Any]) -> str:
    """The node's type with its distinguishing properties, in the words of EXPLAIN's text format where it has one."""
    words = [one_line(kind)]
    if node.get("Parallel Aware") is True:
        words.insert(0, "Parallel")
    for key, usual in _PROPERTIES.items():
        value = node.get(key)
        if isinstance(value, str) and value not in usual:
            words.append(one_line(value).lower())
    return " ".join(words)


def _sorted(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(sorted(shapes, key=Shape.line))


def _text(node: Mapping[str, Any], key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _name(name: str) -> str:
    """A name for use between other words, quoted if it would be ambiguous."""
    return name if _PLAIN_NAME.fullmatch(name) and name.isprintable() else json.dumps(name)
