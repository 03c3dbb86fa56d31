"""The differences between two plans: in words, then line by line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from octavo.postgres.plan_shape import Shape

_JOINS = ("Nested Loop", "Hash Join", "Merge Join")


def differences(before: Shape, after: Shape) -> list[str]:
    """The differences in words: how relations are read, how and in which order they are joined, and which other nodes
    exist.

    Empty only for equal shapes.
    """
    if before == after:
        return []
    found = [f"{name}: {old} → {new}" for name, old, new in _changed(_reads(before), _reads(after))]
    old_joins, new_joins = _joins(before), _joins(after)
    both = old_joins.keys() & new_joins.keys()
    found += [
        f"join of {', '.join(names)}: {old_joins[names]} → {new_joins[names]}"
        for names in sorted(both)
        if old_joins[names] != new_joins[names]
    ]
    if (old_order := _order(before)) != (new_order := _order(after)):
        found.append(f"join order: {old_order} → {new_order}")
    lost, added = _others(before) - _others(after), _others(after) - _others(before)
    found += [f"without {_times(what, count)}" for what, count in sorted(lost.items())]
    found += [f"with {_times(what, count)}" for what, count in sorted(added.items())]
    return found or ["the same nodes in other places"]


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "not read"), after.get(name, "not read")
        if old != new:
            yield name, old, new


def _reads(shape: Shape) -> dict[str, str]:
    """By relation, how it is read in each place."""
    found: dict[str, list[str]] = {}
    for node in shape.nodes():
        if node.relation is not None and not node.relation.startswith("CTE."):
            index = node.index or "+".join(sorted(_bitmap_indexes(node)))
            found.setdefault(node.relation, []).append(f"{node.what}{f' using {index}' if index else ''}")
    return {name: ", ".join(sorted(ways)) for name, ways in found.items()}


def _bitmap_indexes(node: Shape) -> Iterator[str]:
    """The indexes of a bitmap heap scan's bitmap, without those of its subplans."""
    for one in node.below:
        if one.what.startswith("Bitmap") and one.relation is None:
            if one.index is not None:
                yield one.index
            yield from _bitmap_indexes(one)


def _joins(shape: Shape) -> dict[tuple[str, ...], str]:
    """By the relations below it, the method of each join."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in shape.nodes():
        if _is_join(node):
            found.setdefault(node.relations(), []).append(node.what)
    return {names: ", ".join(sorted(ways)) for names, ways in found.items()}


def _order(shape: Shape) -> str:
    """The tree of joins, outer side first.

    >>> _order(Shape("Hash Join", below=(Shape("Seq Scan", "a"), Shape("Hash", below=(Shape("Seq Scan", "b"),)))))
    '(a b)'
    """
    parts = [_order(one) for one in shape.below]
    parts = [one for one in parts if one]
    if shape.relation is not None:
        return shape.relation
    joined = " ".join(parts)
    return f"({joined})" if len(parts) > 1 else joined


def _others(shape: Shape) -> "Counter[str]":
    """The number of each node that neither reads nor joins, and of subplans of either kind."""
    found = Counter(
        node.what for node in shape.nodes() if not _is_join(node) and node.relation is None and node.index is None
    )
    for node in shape.nodes():
        found.update({"SubPlan": len(node.subplans), "hashed SubPlan": len(node.hashed)})
    return found


def _is_join(node: Shape) -> bool:
    return node.what.removeprefix("Parallel ").startswith(_JOINS)


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{count} × {what}"
