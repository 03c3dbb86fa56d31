"""Thresholds beyond which a trial is invalid: the plan's `[validity]` table."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from octavo.errors import UsageError
from octavo.units import parse_duration, parse_percentage, parse_size


def _readable_by(parse: Callable[[str], float]) -> AfterValidator:
    """Keeps the text as it is. Raises ValueError, to which pydantic adds the key, when it cannot be parsed."""

    def check(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


Percentage = Annotated[str, _readable_by(parse_percentage)]
Duration = Annotated[str, _readable_by(parse_duration)]
Size = Annotated[str, _readable_by(parse_size)]

# The rules of `lab.validity` by their modules' names, in the order in which they are asked: causes before what follows
# from them. A plan may declare them outcomes, so that they do not censor what it asks about.
RULE_NAMES: tuple[str, ...] = (
    "no_space", "server_restart", "client_problems", "server_log", "consistency", "duration", "transactions", "clock",
    "steal", "foreign_cpu", "foreign_io", "knobs", "device_limit", "memory_limit", "cache_state",
    "buffer_misses",
)  # fmt: skip


class Thresholds(BaseModel):
    """Thresholds beyond which a trial is invalid; docs/validity.md has the rule that reads each, and the reason for its
    default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shortest_duration: Percentage = "95%"
    fewest_transactions: Annotated[int, Field(ge=1)] = 100
    most_steal: Percentage = "2%"
    most_log_errors: Annotated[int, Field(ge=0)] = 0
    most_clock_step: Duration = "100ms"
    most_foreign_cpu: Percentage = "5%"
    most_foreign_io: Size = "4MB"  # a second
    most_limit_error: Percentage = "10%"
    most_cached: Percentage = "110%"
    most_warm_reads: Percentage = "5%"
    fewest_device_reads: Percentage = "1%"
    most_buffer_misses: Percentage = "0.01%"
