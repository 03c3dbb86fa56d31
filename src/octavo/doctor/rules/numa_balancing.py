"""The kernel's migration of pages between NUMA nodes."""

from octavo.doctor.amounts import is_on_huge_pages
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.units import human_size

# Bit 0 of numa_balancing. Bit 1 (Linux 5.18) only moves pages between fast and slow memory.
_MOVES = 1


def _judge(asked: RuleFacts) -> Ok | Finding:
    nodes = asked.whole("host.numa.nodes")
    if nodes < 2:
        raise NotApplicableError("one NUMA node")
    reclaim = asked.whole_or_none("host.numa.zone_reclaim") or 0
    if reclaim:
        return Finding(
            "warning",
            f"vm.zone_reclaim_mode = {reclaim} on {nodes} NUMA nodes",
            "a full node drops page cache instead of using the memory of the others: about "
            f"{human_size(asked.whole('host.memory.total_bytes') / nodes)} of page cache are used",
            _sysctl(asked, "vm.zone_reclaim_mode", "zone-reclaim"),
            "now",
            "sysctl vm.zone_reclaim_mode",
        )
    mode = asked.whole("host.numa.balancing")
    if not mode & _MOVES:
        return Ok(f"kernel.numa_balancing = {mode}, {nodes} nodes")
    if is_on_huge_pages(asked):
        return Ok(f"kernel.numa_balancing = {mode}, {nodes} nodes; the server's huge pages are left where they are")
    buffers = human_size(asked.whole("setting.shared_buffers"))
    return Finding(
        "note",
        f"kernel.numa_balancing = {mode}, {nodes} NUMA nodes",
        f"pages of {buffers} of shared_buffers are unmapped and moved, although processes of every node use them",
        _sysctl(asked, "kernel.numa_balancing", "numa-balancing"),
        "now",
        "sysctl kernel.numa_balancing",
    )


def _sysctl(asked: RuleFacts, name: str, file: str) -> tuple[str, ...]:
    """The lines that set it to 0 now and at the next boot."""
    path = f"/etc/sysctl.d/60-postgresql-{file}.conf"
    return (*on_the_host(asked), f"echo '{name} = 0' > {path} && sysctl -p {path}")


RULE = DoctorRule(
    "numa",
    "Does the kernel move or drop pages because of NUMA nodes?",
    "there are several NUMA nodes, and zone_reclaim_mode is set, or numa_balancing is on and shared memory is in small "
    "pages",
    "kernel Documentation/admin-guide/sysctl/kernel.rst (numa_balancing) and vm.rst (zone_reclaim_mode), "
    "kernel/sched/fair.c (task_numa_work passes over huge pages)",
    _judge,
)
