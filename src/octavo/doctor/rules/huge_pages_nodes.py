"""Huge pages that exist on only some NUMA nodes."""

from octavo.doctor.amounts import huge_pages, on_huge_pages
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.hugepages.pool import PoolState
from octavo.units import human_size

_UNEVEN = 2


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.whole("host.numa.nodes") < 2:
        raise NotApplicableError("one NUMA node")
    if not on_huge_pages(asked):
        raise NotApplicableError("the server does not use huge pages")
    pool = huge_pages(asked).pool
    totals = [one.total for one in pool.nodes]
    if len(totals) < 2:
        raise NotApplicableError("the kernel does not count the pool by NUMA node")
    spread = ", ".join(f"node {one.node}: {one.total:,}" for one in pool.nodes)
    if max(totals) <= _UNEVEN * max(1, min(totals)):
        return Ok(f"pages of {human_size(pool.page)} by node: {spread}")
    return Finding(
        "note",
        f"pages of {human_size(pool.page)} by node: {spread}",
        f"{human_size(max(totals) * pool.page)} of shared memory are on one node: backends on the others reach all of "
        "it over the interconnect",
        (*on_the_host(asked), *_spread_evenly(pool)),
        "restart",
        "grep HugePages /sys/devices/system/node/node*/meminfo",
    )


def _spread_evenly(pool: PoolState) -> tuple[str, ...]:
    """First more pages on the nodes that have few: if a node has no room for them, fewer on the others would leave the
    next start without its pages."""
    each = -(-sum(one.total for one in pool.nodes) // len(pool.nodes))
    lines: list[str] = []
    for one in sorted(pool.nodes, key=lambda node: node.total):
        file = f"/sys/devices/system/node/node{one.node}/hugepages/hugepages-{pool.page // 1024}kB/nr_hugepages"
        lines.append(f"echo {each} > {file}")
        if one.total < each:
            lines.append(f"cat {file}   # go on only when it prints {each}: else the next start lacks pages")
    return tuple(lines)


RULE = DoctorRule(
    "huge-pages-nodes",
    "Are huge pages spread evenly over the NUMA nodes?",
    "one node has more than twice the huge pages of another, and the server uses them",
    "kernel Documentation/admin-guide/mm/hugetlbpage.rst (per-node pools)",
    _judge,
    ("huge page",),
)
