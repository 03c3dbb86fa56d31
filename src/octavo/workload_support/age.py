"""The age of a table: freshly loaded with every page packed, or churned by a declared amount before the load is
closed."""

import re

from octavo.errors import UsageError
from octavo.factor import Factor

PACKED = "packed"


def age_factor(meaning: str, unit: str, most: int) -> Factor:
    """The factor `age` of a workload that counts its churn in this unit, `churned 100%` or `churned 5 transactions`."""
    spaced = unit if unit == "%" else f" {unit}"

    def check(text: str) -> str:
        if text == PACKED:
            return text
        match = re.fullmatch(rf"churned\s+(\d{{1,12}})\s*{unit}", text.strip())
        if match is None or not 1 <= int(match[1]) <= most:
            raise UsageError(f"allowed: {PACKED}, or churned by 1 to {most}{spaced}, such as churned 100{spaced}")
        return f"churned {int(match[1])}{spaced}"

    return Factor("age", "cluster", meaning, PACKED, check)


def churn_of(level: str) -> int:
    """The amount of churn in the level's own unit; 0 for a packed table.

    >>> churn_of("churned 100%"), churn_of("packed")
    (100, 0)
    """
    match = re.search(r"\d+", level)
    return int(match[0]) if match else 0
