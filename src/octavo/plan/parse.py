"""A plan from its TOML text: a size chosen, every key known, every level checked."""

from collections.abc import Mapping

from pydantic import ValidationError

from octavo.errors import UsageError
from octavo.plan.checks import checked
from octavo.plan.model import Plan, first_problem, known_factors
from octavo.plan.sizes import choose_size
from octavo.toml import parse_toml


def parse_plan(
    text: str,
    *,
    origin: str,
    changes: Mapping[str, list[str]] | None = None,
    rounds: int | None = None,
    loads: int | None = None,
    size: str | None = None,
    budget: str | None = None,
) -> Plan:
    """The checked plan of a TOML text in a size, with levels replaced by `changes`, and `rounds`, `loads` and
    `budget` if given.

    `rounds` given here are an upper limit even if the plan has a budget.

    Raises UsageError, one line that names the key and what is allowed.
    """
    content = parse_toml(text, origin)
    try:
        content = choose_size(content, size)
        content |= {
            key: value
            for key, value in (("rounds", rounds), ("most_rounds", rounds), ("loads", loads), ("budget", budget))
            if value is not None
        }
        plan = Plan.model_validate(content)
        return checked(plan, known_factors(plan.workload), changes or {})
    except ValidationError as error:
        raise UsageError(f"{origin}: {first_problem(error)}") from None
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
