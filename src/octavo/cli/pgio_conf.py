"""`octavo run --pgio-conf`: the levels that the original's pgio.conf asks for, and its result line at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.workloads.pgio.conf import Conf

_WORKLOAD = "pgio"


def read(path: str, plan: str) -> "tuple[Conf, Mapping[str, list[str]]]":
    """The file, and its levels as changes of the plan. Raises UsageError, also for a plan that has another workload."""
    from octavo.errors import UsageError
    from octavo.plan.presets import find_plan
    from octavo.workloads.pgio.conf import read_conf

    conf = read_conf(Path(path))
    found, _ = find_plan(plan)
    if found.workload != _WORKLOAD:
        raise UsageError(
            f"--pgio-conf is for plans with the workload {_WORKLOAD}, such as pgio-lio; that of {plan} is "
            f"{found.workload}"
        )
    if conf.unused:
        have = "has" if len(conf.unused) == 1 else "have"
        print(f"{path}: {', '.join(conf.unused)} {have} no effect: servers, databases and loads are Octavo's own")
    return conf, {name: [level] for name, level in conf.levels.items()}


def print_result(conf: "Conf", run: str) -> None:
    """The original's result line for each cell of the run."""
    from contextlib import closing

    from octavo.analysis.trials import used_trials
    from octavo.store.address import store_address
    from octavo.store.store import Store
    from octavo.workloads.pgio.original import FIGURES, result_lines

    with closing(Store.open(store_address())) as store:
        lines = result_lines(store.cells(run), list(used_trials(store.trials(run, FIGURES)).values()), conf.database)
    print("\nin PGIO's output format (medians of the trials):")
    print("\n".join(lines) or "no trial counts")
