"""Presets as plans whose trials count on a busy machine too: for tests about the way, not about the numbers."""

from octavo.plan.presets import preset_text

_VALIDITY = """
[validity]
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
fewest_transactions = 1
shortest_duration = "50%"
"""


def tolerant_plan(preset: str) -> str:
    """The text of a preset with thresholds that no machine exceeds."""
    return preset_text(preset) + _VALIDITY
