"""Builds shared between hosts: each is made once per architecture, distribution and compiler, then sent to the others.

A build depends on its source, options and compiler: its name has the digest of these. Hosts that need the same name,
with the same distribution and processors, get it from the first of them. A host that cannot receive it makes its own,
and so does a host that joins later.
"""

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo import workloads
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.transfer import answers, send
from octavo.fleet.workshop import BENCH
from octavo.host.facts import cpu_model
from octavo.host.journal import Journal
from octavo.host.kernel_pages import distribution
from octavo.host.kernel_text import read
from octavo.lab.events import Notice, Notify, Preparing
from octavo.lab.runnable import cannot_run, class_here, left_out, missing_program, other_class
from octavo.plan.cells import Cell
from octavo.plan.factors import build_of
from octavo.postgres.builds.cache import read_build
from octavo.postgres.builds.flags import cpu_flags
from octavo.postgres.builds.make import ensure_builds, plan_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.units import human_count

# Compiler flags that tie a build to the CPU on which it is compiled.
_FOR_THIS_CPU = "=native"
# How long to wait for newly started workers to reach the scheduler.
_ARRIVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WantedBuild:
    """A build that a host needs. `place` identifies the hosts it runs on; `is_there` is true when it is in the host's
    cache."""

    name: str
    spec: BuildSpec
    place: str
    is_there: bool


def spread(
    hosts: DaskHosts,
    expected: Collection[str],
    workload: str,
    cells: Sequence[Cell],
    classes: Mapping[str, str],
    notify: Notify,
) -> None:
    """Makes every build that several hosts need on one of them and sends it to the others. Waits briefly for the
    `expected` hosts. Failures are reported; the hosts affected then make their own builds."""
    names = sorted(hosts.wait_for(expected, _ARRIVAL_SECONDS))
    wanted: dict[str, list[WantedBuild]] = answers(
        hosts, [(name, wanted_here, workload, tuple(cells), classes.get(name)) for name in names], notify
    )
    groups: dict[tuple[str, str], dict[str, WantedBuild]] = {}
    for host, builds in wanted.items():
        for build in builds:
            groups.setdefault((build.name, build.place), {})[host] = build
    makers: dict[str, list[BuildSpec]] = {}
    travelling: list[tuple[str, str, list[str]]] = []
    for (name, _), members in groups.items():
        lacking = [host for host, build in members.items() if not build.is_there]
        maker = next((host for host, build in members.items() if build.is_there), lacking[0] if lacking else "")
        takers = [host for host in lacking if host != maker]
        if not takers:
            continue
        travelling.append((name, maker, takers))
        if maker in lacking:
            makers.setdefault(maker, []).append(members[maker].spec)
    for maker, specs in makers.items():
        notify(Preparing(f"{human_count(len(specs), 'build')} on {maker}, for several hosts"))
    answers(hosts, [(maker, make_here, specs) for maker, specs in makers.items()], notify)
    for name, maker, takers in travelling:
        if took := send(hosts, name, maker, takers, notify):
            notify(Notice(f"{name}: made on {maker}, sent to {', '.join(took)}"))


def wanted_here(workload: str, cells: Sequence[Cell], of_class: str | None) -> list[WantedBuild]:
    """A task: returns the builds that these cells need on this host. Raises OctavoError without source or compiler."""

    def work() -> list[WantedBuild]:
        mine, of = of_class or class_here(), workloads.find(workload)
        skipped = left_out(cells, lambda cell: other_class(cell, mine) or missing_program(of, cell) or cannot_run(cell))
        specs = list(dict.fromkeys(build_of(cell.levels) for cell in cells if cell.id not in skipped))
        with Journal() as journal:
            planned = plan_builds(specs, journal)
        return [
            WantedBuild(build.name, spec, _place(spec), read_build(build.name) is not None)
            for spec, build in zip(specs, planned, strict=True)
        ]

    return BENCH.do(work)


def make_here(specs: Sequence[BuildSpec]) -> None:
    """A task: makes the builds here. Raises OctavoError."""

    def work() -> None:
        with Journal() as journal:
            ensure_builds(specs, journal)

    BENCH.do(work)


def _place(spec: BuildSpec, proc: Path = Path("/proc")) -> str:
    """Where a build made here also runs: same machine and distribution, and the same CPU if a flag targets it. CPUs of
    the same model are not the same if a hypervisor hides instruction sets of one of them."""
    place = f"{platform.machine()} {distribution()}"
    if any(flag.endswith(_FOR_THIS_CPU) for flag in spec.flags):
        place += f" {cpu_model(proc)} {' '.join(sorted(cpu_flags(read(proc / 'cpuinfo'))))}"
    return place
