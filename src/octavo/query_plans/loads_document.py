"""What plans of several loads come to: which queries have more than one, and whether one load's statistics end that."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table

from octavo.analysis.plan_identity import letter
from octavo.postgres.plan_shape import Shape
from octavo.units import human_count

if TYPE_CHECKING:
    from octavo.query_plans.loads import LoadPlans


def document(found: "Sequence[LoadPlans]", facts: Mapping[str, Any]) -> dict[str, Any]:
    """For programs, and for `view`."""
    sizes = list(dict.fromkeys(one.data_block for one in found))
    names = list(found[0].own)
    queries = [_of_query(name, found, sizes) for name in names]

    def flapping(size: str, kind: str) -> list[str]:
        return [
            one["query"] for one in queries for at in one["sizes"] if at["data_block"] == size and _several(at[kind])
        ]

    return {
        "schema_version": 1,
        **facts,
        "statistics_from": f"load 1 of {sizes[0]}",
        "data_blocks": sizes,
        "sizes": [
            {
                "data_block": size,
                "queries": len(names),
                "flapping_own": flapping(size, "own"),
                "flapping_draws": flapping(size, "draws"),
                "flapping_carried": flapping(size, "carried"),
            }
            for size in sizes
        ],
        "other_between_sizes": [one["query"] for one in queries if len({at["carried"][0] for at in one["sizes"]}) > 1],
        "queries": queries,
    }


def _of_query(name: str, found: "Sequence[LoadPlans]", sizes: Sequence[str]) -> dict[str, Any]:
    shapes: dict[str, Shape] = {}
    for one in found:
        for shape in (*one.own[name], one.carried[name]):
            shapes.setdefault(shape.identity, shape)
    letters = {identity: letter(number) for number, identity in enumerate(shapes)}
    return {
        "query": name,
        "plans": [
            {"letter": letters[identity], "identity": identity, "lines": shape.lines()}
            for identity, shape in shapes.items()
        ],
        "sizes": [
            {
                "data_block": size,
                "own": [letters[one.own[name][0].identity] for one in found if one.data_block == size],
                "draws": [letters[draw.identity] for one in found if one.data_block == size for draw in one.own[name]],
                "carried": [letters[one.carried[name].identity] for one in found if one.data_block == size],
            }
            for size in sizes
        ],
    }


def _several(plans: Iterable[str]) -> bool:
    return len(set(plans)) > 1


def view(document: Mapping[str, Any]) -> RenderableType:
    """The verdict, a sentence for each size, and the queries that have more than one plan."""
    table = Table(box=None, pad_edge=False)
    for name in ("", "data block", "by load", "every draw of ANALYZE", "one load's statistics"):
        table.add_column(name)
    for query in document["queries"]:
        if len(query["plans"]) > 1:
            for at in query["sizes"]:
                table.add_row(
                    query["query"], at["data_block"], "".join(at["own"]), _counted(at["draws"]), "".join(at["carried"])
                )
    parts: list[RenderableType] = [verdict(document), *(_sentence(document, size) for size in document["sizes"])]
    if len(document["data_blocks"]) > 1:
        others = document["other_between_sizes"]
        parts.append(
            f"Between {' and '.join(document['data_blocks'])}, all with one load's statistics: "
            f"{len(others)} of {len(document['queries'])} queries have another plan{_listed(others)}."
        )
    if table.row_count:
        parts += ["", "Queries with more than one plan; a letter is a plan, one for each load:", table]
    return Group(*parts)


def verdict(document: Mapping[str, Any]) -> str:
    """Whether plans that differ between loads of one size differ because of statistics."""
    own = {name for size in document["sizes"] for kind in ("own", "draws") for name in size[f"flapping_{kind}"]}
    carried = {name for size in document["sizes"] for name in size["flapping_carried"]}
    if document["loads"] == document["draws"] == 1:
        return "Flapping was not tested: there is one load and one ANALYZE run at each size (--loads, --draws)."
    if not own and not carried:
        return "No query's plan differs between loads of one size: there is no flapping to explain."
    if not carried:
        return "The flapping is statistics: with those of one load at every load, each query has one plan at each size."
    names = ", ".join(sorted(carried))
    return (
        f"The flapping is not statistics alone: with one load's statistics everywhere, plans still differ for {names}."
    )


def _sentence(document: Mapping[str, Any], size: Mapping[str, Any]) -> str:
    own, draws, carried = (size[f"flapping_{kind}"] for kind in ("own", "draws", "carried"))
    return (
        f"{size['data_block']}: {len(own)} of {size['queries']} queries have more than one plan over "
        f"{human_count(document['loads'], 'load')}{_listed(own)}, {len(draws)} over "
        f"{human_count(document['loads'] * document['draws'], 'draw')} of ANALYZE{_listed(draws)}, "
        f"{len(carried)} with one load's statistics{_listed(carried)}."
    )


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _counted(letters: Sequence[str]) -> str:
    return " ".join(f"{one} × {letters.count(one)}" for one in sorted(set(letters)))
