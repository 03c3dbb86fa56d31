"""The plan: one experiment as data, checked key by key and level by level."""

import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from octavo import workloads
from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.plan.factors import COMMON
from octavo.plan.thresholds import Percentage, Thresholds
from octavo.units import parse_percentage


def _spell(value: object) -> object:
    """TOML's scalars as the text of a level, so that `scale = 20` and `scale = "20"` are one."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | float) else value


def _spell_list(value: object) -> object:
    return [_spell(entry) for entry in cast(list[object], value)] if isinstance(value, list) else [_spell(value)]


_Level = Annotated[str, BeforeValidator(_spell)]
_Levels = Annotated[list[_Level], BeforeValidator(_spell_list), Field(min_length=1)]


class Plan(BaseModel):
    """An experiment. A factor that `baseline` does not name, but that has several levels, is a condition:
    each of its levels is answered apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    question: str
    workload: str
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 5
    loads: Annotated[int, Field(ge=1, le=100)] = 2
    control: bool = True
    threshold: Percentage = "3%"
    baseline: Annotated[dict[str, _Level], Field(min_length=1)]
    factors: dict[str, _Levels]
    settings: dict[str, _Level] = Field(default_factory=dict)
    validity: Thresholds = Thresholds()

    @property
    def threshold_fraction(self) -> float:
        """The smallest difference of practical interest, as a fraction."""
        return parse_percentage(self.threshold)


def known_factors(workload: str) -> dict[str, Factor]:
    """The factors that a plan with this workload may name. Raises UsageError for an unknown workload."""
    return {factor.name: factor for factor in (*COMMON, *workloads.find(workload).factors)}


def parse_plan(
    text: str, *, origin: str, changes: Mapping[str, list[str]] | None = None, rounds: int | None = None
) -> Plan:
    """The checked plan of a TOML text, with levels replaced by `changes`.

    Raises UsageError, one line that names the key and what is allowed.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: not TOML: {error}") from None
    if rounds is not None:
        content["rounds"] = rounds
    try:
        plan = Plan.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{origin}: {_first_problem(error)}") from None
    return _check_levels(plan, changes or {}, origin)


def restore_plan(content: Mapping[str, Any]) -> Plan:
    """The plan as a run stored it."""
    return Plan.model_validate(content)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        table = Thresholds if problem["loc"][0] == "validity" else Plan
        return f"unknown key {key!r}; allowed: {', '.join(table.model_fields)}"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower()}{message[1:]}"


def _check_levels(plan: Plan, changes: Mapping[str, list[str]], origin: str) -> Plan:
    known = known_factors(plan.workload)
    wanted = {**plan.factors, **changes}
    for name in (*wanted, *plan.baseline):
        if name not in known:
            raise UsageError(f"{origin}: unknown factor {name!r}; allowed: {', '.join(sorted(known))}")
    try:
        factors = {name: [known[name].level(level) for level in levels] for name, levels in wanted.items()}
        baseline = {name: known[name].level(level) for name, level in plan.baseline.items()}
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    for name, levels in factors.items():
        if len(set(levels)) < len(levels):
            raise UsageError(f"{origin}: {name}: a level stands twice in {', '.join(levels)}")
    for name, level in baseline.items():
        if level not in factors.get(name, [known[name].default]):
            raise UsageError(
                f"{origin}: baseline.{name}: {level} is not among the levels {', '.join(factors.get(name, []))}"
            )
    return plan.model_copy(update={"factors": factors, "baseline": baseline})
