"""From where on a trial is not believed: the plan's `[validity]` table."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from octavo.errors import UsageError
from octavo.units import parse_percentage


def check_percentage(text: str) -> str:
    """The text as it is. Raises ValueError, to which pydantic adds the key, when it is no percentage."""
    try:
        parse_percentage(text)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return text


Percentage = Annotated[str, AfterValidator(check_percentage)]


class Thresholds(BaseModel):
    """From where on a trial is not believed; each is read by the rule of its name in `lab.validity`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shortest_duration: Percentage = "95%"
    fewest_transactions: Annotated[int, Field(ge=1)] = 100
    most_steal: Percentage = "2%"
