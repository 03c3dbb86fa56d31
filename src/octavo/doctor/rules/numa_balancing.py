"""The kernel moving pages between memory nodes."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.host.checks.cpu import NUMA_BALANCING_FIX
from octavo.units import human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    nodes = asked.whole("host.numa.nodes")
    if nodes < 2:
        raise NotApplicableError("one memory node")
    reclaim = asked.whole_or_none("host.numa.zone_reclaim") or 0
    buffers = human_size(asked.whole("setting.shared_buffers"))
    if reclaim:
        return Finding(
            "warning",
            f"vm.zone_reclaim_mode = {reclaim} on {nodes} memory nodes",
            "a node that is full drops page cache instead of using the memory of the others: about "
            f"{human_size(asked.whole('host.memory.total_bytes') / nodes)} of cache are used",
            ("sysctl vm.zone_reclaim_mode=0",),
            "now",
            "sysctl vm.zone_reclaim_mode",
        )
    if asked.whole("host.numa.balancing") == 0:
        return Ok(f"off, {nodes} nodes")
    return Finding(
        "note",
        f"kernel.numa_balancing is on, {nodes} memory nodes",
        f"pages of {buffers} of shared_buffers are unmapped and moved, although processes of every node use them",
        (NUMA_BALANCING_FIX,),
        "now",
        "sysctl kernel.numa_balancing",
    )


RULE = DoctorRule(
    "numa",
    "Does the kernel move or drop pages because of NUMA nodes?",
    "there are several memory nodes, and zone_reclaim_mode is set or numa_balancing is on",
    "kernel Documentation/admin-guide/sysctl/kernel.rst (numa_balancing) and vm.rst (zone_reclaim_mode)",
    _judge,
)
