"""Huge pages that the host has but the server's control group may not use: SIGBUS during initdb or at start."""

import shlex

from octavo.doctor.amounts import MB, HugePages, group_limits, huge_pages
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.hugepages.groups import GroupLimit, counted
from octavo.hugepages.limits import RESERVATIONS, judge_groups, kubernetes_resource
from octavo.units import format_size, human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    setting = asked.text("setting.huge_pages")
    if setting == "off":
        return Ok("huge_pages = off: none are mapped")
    wanted = huge_pages(asked)
    pool = wanted.pool
    limits = group_limits(asked, pool.page)
    # At least shared_buffers must fit in the pool; otherwise mmap fails first, and there is no SIGBUS.
    least = -(-asked.whole("setting.shared_buffers") // pool.page)
    mapped = pool.available + pool.overcommit + wanted.held >= least
    if not limits:
        return Ok(f"no limit of a hugetlb group on pages of {human_size(pool.page)}")
    found = judge_groups(limits, pool, wanted.needed, wanted.held, off=False)
    if not found:
        return Ok(f"the group allows the {wanted.needed:,} pages of {human_size(pool.page)} that are needed")
    if not mapped:
        return Ok(
            f"the group allows fewer pages than are needed, but only {pool.available:,} are free: "
            f"huge_pages = {setting} " + ("runs on small ones" if setting == "try" else "does not start")
        )
    worst = found[0]
    if worst.limit == RESERVATIONS and setting == "try":
        return Ok(f"{worst.found}: refused when they are mapped, so huge_pages = try runs on small ones")
    return Finding(
        worst.severity,
        worst.found,
        f"{wanted.needed:,} pages of {human_size(pool.page)} ({human_size(wanted.needed * pool.page)}) are needed: "
        + worst.consequence,
        (
            "initdb -c huge_pages=off -D $PGDATA   # PostgreSQL 16 and later",
            # The servers that initdb tries before it has a configuration die in any case: without these lines 15 chose
            # shared_buffers = 400kB (measured).
            "printf 'huge_pages = off\\nshared_buffers = %s\\nmax_connections = 100\\n' "
            f"{format_size(asked.whole('setting.shared_buffers'))} "
            ">> $(pg_config --sharedir)/postgresql.conf.sample   # before 16, before initdb",
            "echo 'huge_pages = off' >> $PGDATA/postgresql.conf   # for a server that is initialised",
            *_allow(asked, limits, wanted),
        ),
        "before the start",
        "octavo doctor --before-start",
    )


def _allow(asked: RuleFacts, limits: list[GroupLimit], wanted: HugePages) -> tuple[str, ...]:
    """The lines that raise the group's limit instead, in addition to what other processes in it use."""
    page, pages = wanted.pool.page, wanted.needed
    if asked.text_or_none("host.container") == "Kubernetes":
        limit = asked.whole_or_none("host.memory.group_limit_bytes")
        memory = "…" if limit is None else f"{limit // MB}Mi"
        return (f"# or, in the pod: resources: {{limits: {{{kubernetes_resource(page, pages)}, memory: {memory}}}}}",)
    own = {kind: counted(limits, wanted.held * page, reservations=kind) for kind in (False, True)}
    return tuple(
        f"echo {pages * page + one.used - own[one.reservations]} > {shlex.quote(str(one.group / one.name))}"
        "   # or allow them, on the host"
        for one in limits
        if one.room(own[one.reservations]) < pages * page
    )


RULE = DoctorRule(
    "huge-pages-group",
    "May the server use the huge pages that it can reserve?",
    "the pool has the pages, and the hugetlb group's limit does not allow them: mmap succeeds, and the first access "
    "fails with a Bus error (SIGBUS)",
    "docker-library/postgres 451 and 946, sclorg/postgresql-container 419, CrunchyData/postgres-operator 3477; kernel "
    "Documentation/admin-guide/cgroup-v2.rst (HugeTLB)",
    _judge,
    ("huge page",),
)
