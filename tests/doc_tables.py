"""The generated tables of the docs: factors, figures of instruments, rules of validity, workloads in slices.

script/doc-tables            lists the pages that differ from the code; exit code 1 if there is one
script/doc-tables --write    writes them
"""

import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from octavo import knobs
from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.instruments import OPTIONAL, instruments
from octavo.instruments.base import Instrument, Sampled
from octavo.instruments.figures import ClientShare, Figure, Gauge, PerTransaction, Rate, Ratio, Total
from octavo.lab.slices.eligibility import why_never
from octavo.plan.factors import COMMON
from octavo.plan.thresholds import RULE_NAMES, Thresholds
from octavo.workloads import WORKLOADS, find

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH = 120
_COSTS = {"build": "a build", "cluster": "a load", "run": "a server start"}
_WHOLE = {"max": "highest", "min": "lowest", "mean": "mean"}
# A text that no factor has as a level.
_NO_LEVEL = "\x7f"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def levels_of(factor: Factor) -> str:
    """The levels that the error of a factor's check lists; nothing if the error is about a file.

    >>> levels_of(next(factor for factor in COMMON if factor.name == "checksums"))
    'on, off'
    """
    try:
        factor.check(_NO_LEVEL)
    except UsageError as error:
        allowed, words, levels = str(error).partition("allowed: ")
        return levels if words and not allowed else ""
    raise AssertionError(f"{factor.name} takes any level")


def factors() -> str:
    """The factors that every workload has, except those of the host."""
    of_host = {factor.name for factor in knobs.factors()}
    return table(
        ("factor", "what", "levels", "a change costs", "default"),
        [
            (f"`{one.name}`", one.meaning, levels_of(one), _COSTS[one.kind], one.default)
            for one in COMMON
            if one.name not in of_host
        ],
    )


def host_factors() -> str:
    """The factors of knobs."""
    rows = [(f"`{one.name}`", one.meaning, levels_of(one), one.default) for one in knobs.factors()]
    return table(("factor", "what it sets", "levels", "default"), rows)


def workload_factors() -> str:
    """The factors of workloads; those with the same meaning share a row."""
    alike: dict[tuple[str, str, str], dict[str, Factor]] = {}
    for workload in WORKLOADS:
        for one in find(workload).factors:
            alike.setdefault((one.name, one.kind, one.meaning), {})[workload] = one
    return table(
        ("factor", "workloads", "what", "levels", "a change costs", "default"),
        [
            (
                f"`{name}`", ", ".join(of), meaning, _each({key: levels_of(one) for key, one in of.items()}),
                _COSTS[kind], _each({key: one.default for key, one in of.items()}),
            )
            for (name, kind, meaning), of in alike.items()
        ],
    )  # fmt: skip


def _each(of: dict[str, str]) -> str:
    """The first workload's text, and by name those of workloads that differ from it."""
    first, *_ = of.values()
    return "; ".join([first, *(f"{name}: {text}" for name, text in of.items() if text != first)])


def thresholds() -> str:
    """The keys of `[validity]`."""
    rows = [(f"`{name}`", str(field.default)) for name, field in Thresholds.model_fields.items()]
    return table(("key", "default"), rows)


def rules() -> str:
    """The rules whose outcomes a plan may declare."""
    names = ", ".join(f"`{name}`" for name in RULE_NAMES)
    return textwrap.fill(f"Rules that `outcomes` may name: {names}.", _WIDTH) + "\n"


def in_slices() -> str:
    """The workloads that can be measured in slices."""
    names = ", ".join(f"`{name}`" for name in WORKLOADS if why_never(name, find(name)) is None)
    return textwrap.fill(f"Workloads that can be measured in slices: {names}.", _WIDTH) + "\n"


def heading(name: str, instrument: Sampled | Instrument) -> str:
    """The heading of an instrument's section."""
    period = instrument.period if isinstance(instrument, Sampled) else math.inf
    when = "before and after" if math.isinf(period) else f"every {period:g} s"
    return f"### {name} ({when}{', only where a plan asks for it' if name in OPTIONAL else ''})\n"


def figures(instrument: Sampled) -> str:
    """The figures of a sampled instrument."""
    rows = [(f"`{one.metric.name}`", one.metric.unit, one.metric.title, source_of(one)) for one in instrument.figures]
    return table(("metric", "unit", "what", "from"), rows)


def source_of(figure: Figure) -> str:
    """How a figure is computed from readings."""
    match figure:
        case Gauge():
            return f"`{figure.key}`; {_WHOLE[figure.whole]}"
        case Rate():
            return f"Δ `{figure.key}` / s"
        case Ratio():
            return f"Δ `{figure.above}` / Δ `{figure.below}`"
        case Total():
            return f"Δ `{figure.key}`, trial"
        case PerTransaction():
            return f"Δ `{figure.key}` / transactions, trial"
        case ClientShare():
            return f"client's seconds / Δ `{figure.key}`, trial"


_MARKED: dict[str, Callable[[], str]] = {
    "factors": factors,
    "host factors": host_factors,
    "workload factors": workload_factors,
    "thresholds": thresholds,
    "rules": rules,
    "in slices": in_slices,
}


def between_marks(text: str) -> str:
    """The page with newly generated text between `<!-- NAME -->` and `<!-- end -->`."""

    def made(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{_MARKED[match[1]]()}<!-- end -->\n"

    return re.sub(r"^<!-- (.+) -->\n(?:.*\n)*?<!-- end -->\n", made, text, flags=re.MULTILINE)


def with_figures(text: str) -> str:
    """The page with a new heading for each instrument's section, and a new table for the sampled ones."""
    for name, instrument in instruments(optional=OPTIONAL).items():
        found = re.search(rf"^### {name} \(.*\n(?P<prose>(?:(?!#|\|).*\n)*)(?P<table>(?:\|.*\n)*)", text, re.MULTILINE)
        assert found is not None, f"docs/instruments.md has no section '### {name} (every N s)'; add it with its source"
        made = figures(instrument) if isinstance(instrument, Sampled) else found["table"]
        prose = found["prose"].rstrip("\n") + "\n\n"
        after = "" if found["table"] else "\n"
        text = text[: found.start()] + heading(name, instrument) + prose + made + after + text[found.end() :]
    return text


def pages() -> dict[Path, str]:
    """The contents that each page should have."""
    plan, watched = DOCS / "plan.md", DOCS / "instruments.md"
    return {plan: between_marks(plan.read_text()), watched: with_figures(watched.read_text())}


def main() -> int:
    """Compares, or writes."""
    different = [path for path, text in pages().items() if path.read_text() != text]
    if "--write" in sys.argv[1:]:
        for path in different:
            path.write_text(pages()[path])
        return 0
    for path in different:
        print(f"docs/{path.name} is not what the code says; script/doc-tables --write makes it so")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
