"""The plan: one experiment as data, checked key by key and level by level."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from octavo import workloads
from octavo.errors import OctavoError, choices
from octavo.factor import Factor
from octavo.plan.factors import COMMON
from octavo.plan.server_settings import setting_factors, settings_of
from octavo.plan.sizes import Size, flat, flat_settings
from octavo.plan.thresholds import Duration, Percentage, Thresholds
from octavo.units import parse_duration, parse_percentage

# Seconds: below, waking up is most of a slice; above, what is slow on a shared machine no longer cancels.
SHORTEST_SLICE, LONGEST_SLICE = 0.05, 10.0


def _spell(value: object) -> object:
    """TOML's scalars as the text of a level, so that `scale = 20` and `scale = "20"` are one."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | float) else value


def _spell_list(value: object) -> object:
    return [_spell(entry) for entry in cast(list[object], value)] if isinstance(value, list) else [_spell(value)]


def _flat(value: object) -> object:
    return flat(cast(dict[str, Any], value)) if isinstance(value, dict) else value


def _flat_settings(value: object) -> object:
    return flat_settings(cast(dict[str, Any], value)) if isinstance(value, dict) else value


def _check_budget(text: str) -> str:
    if parse_duration(text) <= 0:
        raise ValueError(f"{text!r} leaves no time to measure")
    return text


def _check_slice(text: str) -> str:
    if not SHORTEST_SLICE <= parse_duration(text) <= LONGEST_SLICE:
        raise ValueError(f"invalid slice {text!r}; allowed: 50ms to 10s")
    return text


_Level = Annotated[str, BeforeValidator(_spell)]
_Levels = Annotated[list[_Level], BeforeValidator(_spell_list), Field(min_length=1)]
# One level for each factor named, and one or several.
_Combination = Annotated[dict[str, _Level], BeforeValidator(_flat), Field(min_length=1)]
_Match = Annotated[dict[str, _Levels], BeforeValidator(_flat), Field(min_length=1)]


class Plan(BaseModel):
    """An experiment. A factor with several levels that `baseline` does not name is a condition: each of its levels is
    analysed separately. `loads` are an upper limit; without a budget so are `rounds`. `metric` is what verdicts and the
    end of a run are about: None is the workload's first one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    question: str
    workload: str
    metric: str | None = None
    size: Size | None = None
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 5
    most_rounds: Annotated[int, Field(ge=1, le=10_000)] | None = None
    loads: Annotated[int, Field(ge=1, le=100)] = 2
    control: bool = True
    threshold: Percentage = "3%"
    stopping: Literal["decided", "fixed"] = "decided"
    precision: Percentage | None = None
    first_look: Annotated[int, Field(ge=2, le=10_000)] = 2
    budget: Annotated[Duration, AfterValidator(_check_budget)] | None = None
    negative: list[str] = Field(default_factory=list)
    outcomes: list[str] = Field(default_factory=list)
    instruments: list[str] = Field(default_factory=list)
    interleave: Literal["auto", "slices", "trials"] = "auto"
    slice: Annotated[Duration, AfterValidator(_check_slice)] | None = None
    design: Literal["grid", "one-at-a-time"] = "grid"
    baseline: _Combination
    factors: Annotated[dict[str, _Levels], BeforeValidator(_flat)] = Field(default_factory=dict)
    settings: Annotated[dict[str, _Level], BeforeValidator(_flat_settings)] = Field(default_factory=dict)
    cells: list[_Combination] = Field(default_factory=list)
    include: list[_Match] = Field(default_factory=list)
    exclude: list[_Match] = Field(default_factory=list)
    validity: Thresholds = Thresholds()

    @property
    def threshold_fraction(self) -> float:
        """The smallest difference of practical interest, as a fraction."""
        return parse_percentage(self.threshold)

    @property
    def precision_fraction(self) -> float:
        """The half-width of an interval that is narrow enough, as a fraction; half the threshold if not given."""
        return self.threshold_fraction / 2 if self.precision is None else parse_percentage(self.precision)

    def settings_at(self, levels: Mapping[str, str]) -> dict[str, str]:
        """The plan's server settings for a cell with these levels: its settings, and those that are levels. Names are
        in lower case."""
        return {**{name.lower(): value for name, value in self.settings.items()}, **settings_of(levels)}

    @property
    def last_round(self) -> int | None:
        """The last round that there can be; None where the budget alone ends the run."""
        if self.budget is None or self.stopping == "fixed":
            return self.rounds
        return self.most_rounds

    @property
    def first_analysis(self) -> int:
        """The first round after which cells may be decided: `first_look`, or the last round if that comes before."""
        return self.first_look if self.last_round is None else min(self.first_look, max(2, self.last_round))

    @property
    def slice_seconds(self) -> float | None:
        """The length of a slice in seconds; None if a pilot determines it."""
        return None if self.slice is None else parse_duration(self.slice)

    @property
    def budget_seconds(self) -> float | None:
        """How long the run may measure, in seconds; None is no limit."""
        return None if self.budget is None else parse_duration(self.budget)


def known_factors(workload: str) -> dict[str, Factor]:
    """The factors that every plan with this workload has. Raises UsageError for an unknown workload."""
    return {factor.name: factor for factor in (*COMMON, *workloads.find(workload).factors)}


def factors_of(plan: Plan) -> dict[str, Factor]:
    """The factors of a plan: those of its workload, and the server's settings that it makes factors."""
    return {**known_factors(plan.workload), **setting_factors((*plan.factors, *plan.baseline))}


def restore_plan(content: Mapping[str, Any]) -> Plan:
    """The plan as a run stored it. Runs of before `stopping` measured every round of every cell, those of before
    `interleave` trial by trial. Raises OctavoError for one of another Octavo, which a team's store may have."""
    try:
        return Plan.model_validate({"stopping": "fixed", "interleave": "trials", **content})
    except ValidationError as error:
        raise OctavoError(
            f"the run's plan is from another version of Octavo: {first_problem(error)}; use the Octavo that stored it"
        ) from None


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a plan's content, with its key."""
    problem = error.errors()[0]
    # Tables in an array are counted from 1, as people do.
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        allowed = Thresholds.model_fields if problem["loc"][0] == "validity" else [*Plan.model_fields, "sizes"]
        return f"unknown key {key!r}; {choices(str(problem['loc'][-1]), allowed)}"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing"
    if problem["type"] == "string_pattern_mismatch":
        allowed = "up to 100 letters, digits, dots, dashes and underscores"
        return f"{key}: invalid name {str(problem['input'])[:40]!r}; allowed: {allowed}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower()}{message[1:]}"
