"""Workloads that run against a server. To add one, write a file here and add a line to the table."""

from importlib import import_module

from octavo.errors import UsageError, choices
from octavo.workloads.base import Workload

WORKLOADS = {
    "pgbench": "octavo.workloads.pgbench",
    "custom": "octavo.workloads.custom",
    "pgbench-tail": "octavo.workloads.pgbench_tail",
    "tpcc-like": "octavo.workloads.tpcc_like",
    "coalescing": "octavo.workloads.coalescing",
    "kernel-page": "octavo.workloads.kernel_page",
    "kernel-page-real": "octavo.workloads.kernel_page_real",
    "scan": "octavo.workloads.scan",
    "tpch": "octavo.workloads.tpch",
    "pooled": "octavo.workloads.pooled",
    "oom": "octavo.workloads.oom",
    "pgio": "octavo.workloads.pgio",
}


def find(name: str) -> Workload:
    """The workload of that name: its module's WORKLOAD. Raises UsageError with the existing names, or with what is
    missing."""
    if name not in WORKLOADS:
        raise UsageError(f"workload: unknown workload {name!r}; {choices(name, WORKLOADS)}")
    path = WORKLOADS[name]
    try:
        workload: Workload = import_module(path).WORKLOAD
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise UsageError(f"workload {name}: there is no module {path}; see the table WORKLOADS") from None
    except AttributeError:
        raise UsageError(f"workload {name}: {path} has no WORKLOAD") from None
    return workload
