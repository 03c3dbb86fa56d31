"""The results of single items in a report: heatmaps, plans, groups, negative controls and scatter."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from octavo.report import grids, numbers
from octavo.report.document import Document, Row, better_direction, clean, compared, conditions, tone, words
from octavo.report.plain import condition_text, spaced
from octavo.units import human_count


def items_of(document: Document) -> dict[str, Any] | None:
    """Everything for the page's section; None where a run has nothing of it."""
    sheets, reported = grids.sheets(document), item_sentences(document)
    plans_of, plans = plan_table(document)
    if not (sheets or reported or plans):
        return None
    factors = [words(name) for name in compared(document)]
    return {
        "sheets": sheets,
        "x": factors[0] if factors else "",
        "y": factors[1] if len(factors) > 1 else "items",
        "colours": grids.meaning_of_colours(better_direction(document)),
        "lettered": any(square and square.letters for sheet in sheets for grid in (*sheet.items, sheet.whole) if grid
                        for _, row in grid.rows for square in row),
        "sentences": reported,
        "plans": plans,
        "plans_of": plans_of,
        "differences": plan_differences(document),
        "note": _note(sheets, plans),
    }  # fmt: skip


def _note(sheets: Sequence[grids.Sheet], plans: Sequence[Mapping[str, Any]]) -> str:
    """What is inside, for who has not opened it."""
    kept = sum(row["distinct"] == 1 for row in plans)
    heatmaps = ["a heatmap for each"] if any(sheet.items for sheet in sheets) else []
    plan = [f"{kept} of {len(plans)} kept one plan"] if plans else []
    return "; ".join([*heatmaps, *plan]) or "what stands out"


def steps(document: Document) -> list[tuple[str, str]]:
    """The legend: the classes of the squares from the worst to the best, with the percentages they begin at."""
    better = better_direction(document)

    def word(bound: float, *, above: bool) -> str:
        return f"≥ {100 * bound:.0f} %" if above else f"≤ {100 / bound:.0f} %"

    count = len(grids.STEPS)
    worse = [(f"w{n}", word(grids.STEPS[n - 1], above=better == "lower")) for n in range(count, 0, -1)]
    good = [(f"b{n}", word(grids.STEPS[n - 1], above=better != "lower")) for n in range(1, count + 1)]
    return [*worse, ("e", "100 %"), *good]


def plan_table(document: Document) -> tuple[str, list[dict[str, Any]]]:
    """The condition in words, and by item the number of plans and the decisions with each kind of plan, for the primary
    metric in all cells except the controls; of the minima if there are any, else of the first condition with plans."""
    metric, best = document["run"]["primary_metric"], document.get("best_of")
    source = best or document
    plans: Sequence[Row] = source.get("plans", ())
    if not plans:
        return "", []
    condition = plans[0]["condition"]
    again = {cell["id"] for cell in document["cells"] if cell["control"]}
    rows: list[dict[str, Any]] = []
    for row in plans:
        if row["condition"] == condition:
            mine = [
                effect
                for effect in source["effects"]
                if (effect["condition"], effect["metric"], effect["item"]) == (condition, metric, row["item"])
                and not effect["negative_control"]
                and effect["cell"] not in again
            ]
            rows.append({"item": row["item"], "distinct": row["distinct"], "counts": _counts(mine)})
    return condition_text(condition), rows


def plan_differences(document: Document) -> list[tuple[str, str, list[str]]]:
    """Item, letter and differences from plan A in words, of every other plan whose shape is known, once each."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in document.get("plans", ()):
        for name, shape in row.get("shapes", {}).items():
            if shape["differences"]:
                found[row["item"], name] = shape["differences"]
    return [(item, name, reported) for (item, name), reported in found.items()]


def _counts(effects: Sequence[Row]) -> list[int]:
    """Faster with the same plan, with another; slower likewise; decided where loads differ in plan; the rest. Without
    what was decided where a plan is not known."""
    counts = [0] * 6
    for effect in effects:
        kind, plan = tone(effect), effect.get("plan")
        if kind in ("better", "worse") and plan is None:
            continue
        if kind in ("better", "worse"):
            counts[4 if plan == "some" else 2 * (kind == "worse") + (plan == "other")] += 1
        else:
            counts[5] += 1
    return counts


def item_sentences(document: Document) -> list[str]:
    """Notable results of the items, for every kind of report."""
    return [
        *_bottleneck_sentences(document), *_plan_sentences(document), *_capture_sentences(document),
        *_noise_sentences(document), *_group_sentences(document),
    ]  # fmt: skip


def _bottleneck_sentences(document: Document) -> list[str]:
    """Of each condition's baseline what its items were short of, and the items that other cells are short of others
    for."""
    rows: Sequence[Row] = document.get("item_bottlenecks", ())
    sentences: list[str] = []
    for baseline in (cell for cell in document["cells"] if cell["baseline"]):
        mine = {row["item"]: row["bottleneck"] for row in rows if row["cell"] == baseline["id"]}
        if not mine:
            continue
        by_name: dict[str, list[str]] = {}
        for item, name in mine.items():
            by_name.setdefault(name, []).append(clean(item))
        where = f" ({condition_text(baseline['condition'])})" if baseline["condition"] else ""
        named = "; ".join(
            f"{name}: {'all ' + str(len(items)) if len(items) == len(mine) > 1 else ', '.join(items)}"
            for name, items in by_name.items()
        )
        labels = {cell["id"]: cell["label"] for cell in document["cells"]
                  if cell["condition"] == baseline["condition"] and not cell["control"]}  # fmt: skip
        other = [
            f"{clean(row['item'])} at {spaced(labels[row['cell']])}: {row['bottleneck']}"
            for row in rows
            if row["cell"] in labels and mine.get(row["item"], row["bottleneck"]) != row["bottleneck"]
        ]
        text = f"Bottleneck of each item at {spaced(baseline['label'])}{where}: {named}."
        sentences.append(text + (f" Elsewhere: {'; '.join(other)}." if other else ""))
    return sentences


def _plan_sentences(document: Document) -> list[str]:
    condition, rows = plan_table(document)
    if not rows:
        return []
    total = [sum(column) for column in zip(*(row["counts"] for row in rows), strict=True)]
    decided, one = sum(total[:5]), sum(row["distinct"] == 1 for row in rows)
    where = f" ({condition})" if condition else ""
    return [
        f"{one} of {human_count(len(rows), 'item')} kept one plan in every cell. Of {sum(total)} differences of an "
        f"item from the baseline{where}, {decided} are decided: {total[0] + total[2]} with the baseline's plan, "
        f"{total[1] + total[3]} with another plan on every load, {total[4]} with another plan on some loads. "
        "Where the plan changes, the difference includes the planner's choice in that cell."
    ]


def _capture_sentences(document: Document) -> list[str]:
    """What capturing the plans cost, where a workload measured it (`plan_capture_ratio`)."""
    rows = [row for row in document["summary"] if row["metric"] == "plan_capture_ratio" and row["value"]]
    whole = [row["value"] for row in rows if row["item"] is None]
    if not whole:
        return []
    by_item: dict[str, list[float]] = {}
    for row in rows:
        if row["item"] is not None:
            by_item.setdefault(clean(row["item"]), []).append(row["value"])
    each = ", ".join(f"{item} {numbers.ratio(statistics.geometric_mean(mine), 3)}" for item, mine in by_item.items())
    return [
        f"Capturing plans multiplies time by {numbers.ratio(statistics.geometric_mean(whole), 3)} "
        f"(geometric mean over {len(whole)} {'cell' if len(whole) == 1 else 'cells'}; {each})."
    ]


def _noise_sentences(document: Document) -> list[str]:
    """How much single items scatter where nothing can matter."""
    source, metric = document.get("best_of") or document, document["run"]["primary_metric"]
    again = {cell["id"] for cell in document["cells"] if cell["control"]}
    floors: dict[str, list[tuple[float, str]]] = {}
    for row in source["noise_floor"]:
        if row["item"] is not None and row["floor"] is not None and row["metric"] == metric:
            floors.setdefault(row["condition"], []).append((row["floor"], row["item"]))
    sentences: list[str] = []
    for condition, found in floors.items():
        idle = [
            effect
            for effect in source["effects"]
            if (effect["condition"], effect["metric"]) == (condition, metric)
            and effect["item"] is not None
            and (effect["negative_control"] or effect["cell"] in again)
            and effect["low"] is not None
        ]
        outside = sum(not effect["low"] <= 1 <= effect["high"] for effect in idle)
        sentences.append(
            f"Noise floor of single items{f' ({condition_text(condition)})' if condition else ''}, from the controls: "
            f"{numbers.noise_floor(statistics.median(floor for floor, _ in found))} in the median of "
            f"{len(found)} items, {numbers.noise_floor(min(found)[0])} ({clean(min(found)[1])}) to "
            f"{numbers.noise_floor(max(found)[0])} ({clean(max(found)[1])}). {outside} of their "
            f"{len(idle)} intervals exclude 1 nevertheless."
        )
    return sentences


def _group_sentences(document: Document) -> list[str]:
    """The numbers that fall into two groups: those of one item together where the same thing tells them apart."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in document.get("two_groups", ()):
        found.setdefault((row["condition"], row["item"], _apart(row["goes_with"])), []).append(row)
    sentences: list[str] = []
    several = len(conditions(document)) > 1
    for (condition, item, apart), rows in found.items():
        first, unit = rows[0], document["metrics"].get(rows[0]["metric"], {}).get("unit")
        where = f"{words(first['factor'])} {', '.join(spaced(row['level']) for row in rows)}"
        low, high = (f"{first[side]['trials']} {_range(first[side], unit)}" for side in ("low", "high"))
        example = f" (at {spaced(first['level'])})" if len(rows) > 1 else ""
        which = f" ({condition_text(condition)})" if several and condition else ""
        sentences.append(
            f"{clean(item)}{which} falls into two groups at {where}: "
            f"{low}, {high}{example}, × {numbers.ratio(first['ratio'])} apart. {apart}"
        )
    return sentences


def _range(group: Row, unit: str | None) -> str:
    """The values of a group, whose ends may be the same as they are shown."""
    low, high = numbers.amount(group["from"], unit), numbers.amount(group["to"], unit)
    return f"at {low}" if low == high else f"from {low} to {high}"


def _apart(goes_with: Mapping[str, Any] | None) -> str:
    if goes_with is None:
        return "Nothing recorded distinguishes the groups; the mean describes neither."
    if goes_with["factor"] == "plan":
        return "The two groups have different plans."
    return f"The slower group has {words(goes_with['factor'])} {', '.join(map(spaced, goes_with['high']))}."
