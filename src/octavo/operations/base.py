"""The interface of an operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from octavo.operations.sandbox import Sandbox

Result = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class OperationEvidence:
    """The evidence in words, and its figures, whose names end in their unit."""

    text: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a DBA does.

    `check` does it on real servers. It returns its evidence on success, raises Skip if it cannot be run, and
    OctavoError on failure.
    """

    name: str
    check: Callable[[Sandbox], OperationEvidence]


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """How an operation ended. `evidence` is the reason when it failed or was skipped."""

    name: str
    result: Result
    seconds: float
    evidence: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
