"""Huge pages that exist on only some NUMA nodes."""

from octavo.doctor.amounts import huge_pages, on_huge_pages
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import on_the_host
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
        (
            *on_the_host(asked),
            *(
                f"echo {-(-sum(totals) // len(totals))} > /sys/devices/system/node/node{one.node}/hugepages/"
                f"hugepages-{pool.page // 1024}kB/nr_hugepages"
                for one in pool.nodes
            ),
        ),
        "restart",
        "grep HugePages /sys/devices/system/node/node*/meminfo",
    )


RULE = DoctorRule(
    "huge-pages-nodes",
    "Are huge pages spread evenly over the NUMA nodes?",
    "one node has more than twice the huge pages of another, and the server uses them",
    "kernel Documentation/admin-guide/mm/hugetlbpage.rst (per-node pools)",
    _judge,
    ("huge page",),
)
