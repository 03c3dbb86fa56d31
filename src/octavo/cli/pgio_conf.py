"""`octavo run --pgio-conf`: the levels in the original's pgio.conf, and its result line at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.plan.model import Plan
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
    return conf, {name: [level] for name, level in conf.levels.items()}


def check_data(conf: "Conf", plan: "Plan") -> None:
    """With CREATE_BASE_TABLE other than TRUE: raises HostError unless all the data of the plan are there already."""
    if conf.makes_data:
        return
    from octavo import workloads
    from octavo.errors import HostError
    from octavo.lab.estimate import estimate
    from octavo.lab.runnable import left_out
    from octavo.plan.cells import make_cells

    cells = make_cells(plan)
    skipped = left_out(cells)
    needed = estimate(plan, [cell for cell in cells if cell.id not in skipped], workloads.find(plan.workload)).loads
    if needed:
        raise HostError(
            f"CREATE_BASE_TABLE is not TRUE and {needed} load{' is' if needed == 1 else 's are'} not there yet; set it "
            "to TRUE, or run without the file first"
        )


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
