"""A host of a fleet that measures PostgreSQL, as in `octavo run`: it makes its own builds and loads."""

from functools import partial

from octavo import workloads
from octavo.fleet.orders import Ready, RunOrder
from octavo.home import make_directory, octavo_home
from octavo.host.checks import check_host, disturbing
from octavo.host.journal import Journal
from octavo.lab.bench import WallClock
from octavo.lab.events import Notice, Notify
from octavo.lab.loads import room_for_loads
from octavo.lab.postgres_bench import PostgresBench
from octavo.lab.run_record import environment_of
from octavo.lab.runnable import left_out
from octavo.plan.model import Plan


def on_postgres(order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready:
    """Makes the builds that this host lacks and reserves its huge pages. Raises OctavoError."""
    workload = workloads.find(plan.workload)
    cells = list(order.cells)
    found = check_host(make_directory(octavo_home()))
    for one in disturbing(found):
        notify(Notice(f"warning: this host may disturb the run: {one}"))
    bench = PostgresBench(order.run, plan, workload, journal, notify, order.host_class)
    try:
        bench.prepare_builds(cells)
        bench.prepare_host(cells)
        cannot = left_out(cells, bench.cannot_run)  # also of huge pages and builds, which are known by now
        bench.room = room_for_loads(workload, cells) if order.room is None else order.room
    except BaseException:
        bench.close()
        raise
    environment = environment_of(plan, cells, bench.builds, found)
    loads = partial(bench.loads_there, [cell for cell in cells if cell.id not in cannot])
    return Ready(bench, WallClock(), environment, bench.close, cannot, bench.room, loads)
