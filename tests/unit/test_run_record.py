"""The record of a run that begins."""

import pytest
from tests.unit.plans import small_plan

from octavo.lab.run_record import new_run


@pytest.mark.parametrize(("metric", "first"), [(None, "tps"), ("latency_p99_ms", "latency_p99_ms")])
def test_verdicts_are_about_the_first_metric(metric: str | None, first: str) -> None:
    plan = small_plan().model_copy(update={"metric": metric})
    names = list(new_run(plan, "", "octavo run small", 1, "token", {}).metrics)
    assert names[0] == first
    assert len(set(names)) == len(names) and "tps" in names
