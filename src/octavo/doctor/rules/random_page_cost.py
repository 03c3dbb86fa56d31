"""random_page_cost and seq_page_cost against the device."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.planner_lines import planner_lines, server_lines

_ROTATING = 3.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    random, sequential = asked.number("setting.random_page_cost"), asked.number("setting.seq_page_cost")
    better = "random_page_cost", f"{sequential * 1.1:g}"
    seen = f"random_page_cost = {random:g}, seq_page_cost = {sequential:g}"
    if random < sequential:
        own = any(asked.is_of_volume(f"setting.{name}") for name in ("random_page_cost", "seq_page_cost"))
        return Finding(
            "warning",
            seen,
            f"a random read is costed {random / sequential:.2g} times a sequential one: the planner prefers index "
            "scans of whole tables",
            *(planner_lines(asked, *better) if own else server_lines(*better)),
        )
    if sequential <= 0 or random / sequential < _ROTATING:
        return Ok(seen)
    if asked.flag("host.device.rotational"):
        raise NotApplicableError(f"{seen}, and the device is reported as rotational")
    name = asked.text("host.device.name")
    size = asked.whole_or_none("server.databases_bytes")
    # Data in shared_buffers is not read from the device, and plans on little data are cheap.
    small = size is not None and size <= asked.whole("setting.shared_buffers")
    return Finding(
        "note" if small else "warning",
        f"{seen}, and {name} is solid state",
        f"an index scan of 1,000 scattered blocks is costed as {1000 * random / sequential:,.0f} sequential ones; on "
        "this device they differ by little, so sequential scans are chosen too early",
        *planner_lines(asked, *better),
    )


RULE = DoctorRule(
    "random-page-cost",
    "Do the planner's page costs fit the device?",
    "random_page_cost is three times seq_page_cost or more on a device reported as non-rotational (a note where the "
    "databases fit in shared_buffers), or is below seq_page_cost",
    "PostgreSQL's manual, random_page_cost (4.0 is for rotating disks with caching)",
    _judge,
    volumes=("tables",),
)
