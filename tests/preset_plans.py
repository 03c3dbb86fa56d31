"""Presets as plans whose trials also count on a busy machine: for tests of the procedure, not of the numbers."""

import re

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


def tolerant_plan(preset: str, *, loads: int | None = None) -> str:
    """The text of a preset with thresholds that no machine exceeds, and with this number of loads if given."""
    text = preset_text(preset)
    if loads is not None:
        text = re.sub(r"^loads = \d+$", f"loads = {loads}", text, flags=re.MULTILINE)
    return text + _VALIDITY
