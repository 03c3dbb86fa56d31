"""The table of plans and sizes as text: what it comes to, the heatmap of plans, and each query whose plan changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from octavo.costs.render import seconds
from octavo.report.numbers import MISSING

_ROWS_APART = 3.0


def view(document: Mapping[str, Any]) -> RenderableType:
    """The document of `octavo plans table` for a terminal."""
    parts: list[RenderableType] = [*verdicts(document), "", "Costs, and what they choose:", _costs(document)]
    parts += _cut_off(document)
    parts += ["", f"Plans by the default costs, and time against {document['base']}:", _heatmap(document)]
    for query in document["queries"]:
        if len(query["plans"]) > 1:
            parts += ["", f"{query['query']}: time by plan and data block; * chosen there by default", _of_query(query)]
            parts += [*_effects(query), *_differences(query)]
    return Group(*parts)


def verdicts(document: Mapping[str, Any]) -> list[str]:
    """A sentence for each size, then what could be forced."""
    lines: list[str] = []
    for size in document["sizes"]:
        if size["page"] is None:
            lines.append(f"{size['data_block']} against {document['base']}: no query has all four times.")
            continue
        lines.append(
            f"{size['data_block']} against {document['base']}: page effect × {size['page']:.2f}, plan effect "
            f"× {size['plan']:.2f} on time (geometric means of {size['with_both']} of {size['queries']} queries; "
            f"{size['same_plan']} kept their plan)."
        )
    lines.append(
        f"{document['forced']} of {document['to_force']} plans could be forced where they were not chosen. "
        f"Statistics: {document['statistics']}."
    )
    return lines


def _costs(document: Mapping[str, Any]) -> Table:
    table = _table("data block", "queries", "time", "best plans", "regret", "other plan", "worst")
    for one in document["costs"]:
        sums = [MISSING] * 4
        if one["queries"]:
            name, ratio = one["worst"]
            worst = f"{name} × {ratio:.2f}"
            sums = [seconds(one["seconds"]), seconds(one["best_seconds"]), f"× {one['regret']:.2f}", worst]
        flips = str(len(one["flips"]))
        table.add_row(one["costs"], one["data_block"], str(one["queries"]), *sums[:3], flips, sums[3])
    return table


def _cut_off(document: Mapping[str, Any]) -> list[str]:
    """The queries whose chosen plan reached the time limit, by costs and size."""
    found = [
        f"{', '.join(one['cut_off'])} ({one['costs']}, {one['data_block']})"
        for one in document["costs"]
        if one["cut_off"]
    ]
    return [f"Cancelled at the time limit, and not in these times: {'; '.join(found)}."] if found else []


def _heatmap(document: Mapping[str, Any]) -> Table:
    """Which plan each size has, by the default costs, and its time against the base."""
    blocks: Sequence[str] = document["data_blocks"]
    table = _table(*blocks)
    for query in document["queries"]:
        default = {one["data_block"]: one for one in query["entries"] if "default" in one["chosen_by"]}
        base = default[document["base"]]["median"]
        squares: list[str] = []
        for block in blocks:
            mine = default[block]["median"]
            ratio = "cancelled" if not mine else f"{100 * mine / base:.0f} %" if base else MISSING
            squares.append(f"{default[block]['plan']} {ratio:>6}")
        table.add_row(query["query"], *squares)
    return table


def _of_query(query: Mapping[str, Any]) -> Table:
    blocks = list(dict.fromkeys(one["data_block"] for one in query["entries"]))
    table = _table(*blocks)
    by_place = {(one["plan"], one["data_block"]): one for one in query["entries"]}
    for plan in query["plans"]:
        table.add_row(plan["letter"], *(_time(by_place[plan["letter"], block]) for block in blocks))
    return table


def _effects(query: Mapping[str, Any]) -> list[str]:
    """What of each size's difference is the page's and what the plan's."""
    lines: list[str] = []
    for effect in query["effects"]:
        if effect["page"] is not None and not effect["same_plan"]:
            low, high = effect["page_range"]
            lines.append(
                f"  {effect['data_block']}: page × {effect['page']:.2f} ({low:.2f} and {high:.2f} with the two plans), "
                f"plan × {effect['plan']:.2f}"
            )
    return lines


def _time(entry: Mapping[str, Any]) -> str:
    if entry["forced_by"] is None:
        return "not forced"
    if entry["median"] is None:
        return "cancelled"
    return seconds(entry["median"]) + ("*" if "default" in entry["chosen_by"] else "")


def _differences(query: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for plan in query["plans"][1:]:
        lines += [f"  {plan['letter']}: {difference}" for difference in plan["differences"]]
        for join, of in zip(plan["parting"] or (), ("A", plan["letter"]), strict=False):
            factor = join["factor"]
            off = "" if 1 / _ROWS_APART < factor < _ROWS_APART else f", × {factor:.3g}"
            lines.append(
                f"  {of}, first join that differs ({', '.join(join['relations'])}): {join['estimated']:.0f} rows "
                f"estimated, {join['actual']:.0f} returned{off}"
            )
    return lines


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table
