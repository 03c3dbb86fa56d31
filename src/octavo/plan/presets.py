"""The experiments that come with Octavo, as TOML in `octavo/presets`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from octavo.errors import UsageError, choices
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.plan.sizes import sizes_of
from octavo.toml import read_toml
from octavo.workload_support.files import authors_of, relative_to

_WAY_OUT = "octavo presets show NAME > FILE.toml makes one to start from"


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset by name, the question it answers, and its plan in each size."""

    name: str
    question: str
    plans: Mapping[str, Plan]


def preset_names() -> list[str]:
    """The names of the presets."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in resources.files("octavo.presets").iterdir()
        if entry.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The TOML of a preset. Raises UsageError naming those that exist."""
    if name not in preset_names():
        raise UsageError(f"no preset {name!r}; {choices(name, preset_names())}; a plan of your own is a .toml file")
    return resources.files("octavo.presets").joinpath(f"{name}.toml").read_text()


def all_presets() -> list[Preset]:
    """The presets, each in the sizes that it has."""
    found: list[Preset] = []
    for name in preset_names():
        text = preset_text(name)
        content = tomllib.loads(text)
        plans = {size: parse_plan(text, origin=name, size=size) for size in sizes_of(content)}
        found.append(Preset(name, str(content["question"]), plans))
    return found


def find_plan(
    wanted: str,
    *,
    changes: Mapping[str, list[str]] | None = None,
    rounds: int | None = None,
    loads: int | None = None,
    size: str | None = None,
    budget: str | None = None,
) -> tuple[Plan, str]:
    """The checked plan behind a preset's name or a .toml file, in a size, and its text. Raises UsageError.

    Levels that are relative paths start from the directory of the plan's file.
    """
    own = wanted.endswith(".toml")
    authors = authors_of(Path(wanted)) if own else ()  # before it is read: what only root can change by then stays so
    text = read_toml(Path(wanted), way_out=_WAY_OUT) if own else preset_text(wanted)
    with relative_to(Path(wanted).parent, authors):
        plan = parse_plan(text, origin=wanted, changes=changes, rounds=rounds, loads=loads, size=size, budget=budget)
        return plan, text
