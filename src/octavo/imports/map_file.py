"""The TOML file that says what the columns of a table of results mean; docs/report.md describes it."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from octavo.errors import UsageError
from octavo.imports.rows import Parse, moment, name, not_negative, seconds, whole
from octavo.plan.thresholds import Percentage
from octavo.toml import parse_toml, read_toml
from octavo.units import format_size, parse_size

_WAY_OUT = "docs/report.md has an example"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FactorColumn(_Strict):
    """A factor: a column, with the unit that its figures lack, or the one level that all trials had."""

    column: str | None = None
    unit: Literal["B", "kB", "MB", "GB", "TB"] | None = None
    level: Annotated[str, BeforeValidator(lambda value: str(value))] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.column is None) == (self.level is None):
            raise PydanticCustomError("factor", "give either a column, or the level that all trials had")
        if self.unit is not None and self.column is None:
            raise PydanticCustomError("factor", "a unit belongs to a column; write it into the level")
        return self


class MetricColumn(_Strict):
    """A number that was measured: zero or more, as cells are compared by their ratio."""

    column: str
    title: str | None = None
    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    total: bool = False


class File(_Strict):
    """How lines are split; `columns` where the first line has no names."""

    delimiter: Annotated[str, Field(pattern=r'^[^"\r\n]$')] = ","
    columns: list[str] | None = None


class TrialColumns(_Strict):
    """The columns that say which trial a line belongs to, and how long it was."""

    load: str | None = None
    round: str | None = None
    item: str | None = None
    repetition: str | None = None
    started: str | None = None
    seconds: str | None = None
    seconds_asked: str | float | None = None


class Map(_Strict):
    """The whole file."""

    name: str | None = None
    question: str = "What do these results show?"
    workload: str = "imported"
    threshold: Percentage = "3%"
    negative: list[str] = Field(default_factory=list)
    baseline: Annotated[dict[str, str], Field(min_length=1)]
    file: File = File()
    factors: Annotated[
        dict[
            str, Annotated[FactorColumn, BeforeValidator(lambda its: {"column": its} if isinstance(its, str) else its)]
        ],
        Field(min_length=1),
    ]
    metrics: Annotated[dict[str, MetricColumn], Field(min_length=1)]
    trial: TrialColumns = TrialColumns()


def read_map(path: Path) -> Map:
    """The checked map. Raises UsageError, one line that names the key."""
    content = parse_toml(read_toml(path, way_out=_WAY_OUT), path)
    try:
        return Map.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise UsageError(f"{path}: {key}: {problem['msg'].lower()}") from None


def columns_of(described: Map) -> list[tuple[str, str, Parse]]:
    """What is read: a key of ours, the file's column, and how its text is read."""
    trial = described.trial
    found: list[tuple[str, str, Parse]] = [
        (f"factor {factor}", one.column, _level(one.unit)) for factor, one in described.factors.items() if one.column
    ]
    found += [(f"metric {key}", one.column, not_negative) for key, one in described.metrics.items()]
    asked = trial.seconds_asked if isinstance(trial.seconds_asked, str) else None
    readers: tuple[tuple[str, str | None, Parse], ...] = (
        ("load", trial.load, name),
        ("round", trial.round, name),
        ("item", trial.item, name),
        ("repetition", trial.repetition, whole(1, 1_000_000)),
        ("started", trial.started, moment),
        ("seconds", trial.seconds, seconds),
        ("seconds_asked", asked, seconds),
    )
    return found + [(key, column, parse) for key, column, parse in readers if column is not None]


def _level(unit: str | None) -> Parse:
    def parse(text: str) -> str:
        if not text:
            raise ValueError("and a level needs a name")
        return name(text) if unit is None else format_size(parse_size(f"{text}{unit}"))

    return parse
