"""Which process is killed first when memory runs out."""

from octavo.doctor.amounts import MB, server_cores, shared_memory
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.lines import EDIT_UNIT
from octavo.text import one_line
from octavo.units import human_size

_STRICT = 2
_FIRST = 900  # a pod without requests and limits has 1000 (Kubernetes, "Node-pressure Eviction")
_SCARCE = 0.10
_CHILDREN = (
    "Environment=PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj",
    "Environment=PG_OOM_ADJUST_VALUE=0",
)


def _judge(asked: RuleFacts) -> Ok | Finding:
    own = asked.whole("host.process.postmaster_oom_adj")
    limit = asked.whole_or_none("host.memory.group_limit_bytes")
    # The kernel kills in a group that reaches its limit, however strict the machine's overcommit accounting is.
    if asked.whole("host.memory.overcommit") == _STRICT and limit is None:
        return Ok("vm.overcommit_memory = 2: allocations fail before the OOM killer is invoked")
    check = "cat /proc/$(head -1 $PGDATA/postmaster.pid)/oom_score_adj"
    if container := asked.text_or_none("host.container"):
        if own < _FIRST:
            raise NotApplicableError(f"in a container ({container}) its oom_score_adj is the runtime's: {own}")
        return Finding(
            "warning",
            f"the postmaster's oom_score_adj is {own} in a container ({container})",
            f"with oom_score_adj {own} of at most 1000 its processes are among the first that are killed when the "
            "node's memory runs out",
            _guaranteed(asked, limit),
            "restart",
            check,
        )
    if own < 0:
        children = asked.whole("host.process.children_oom_adj")
        if children > own:
            return Ok(f"oom_score_adj: postmaster {own}, its children {children} and more")
        return Finding(
            "note",
            f"backends have the postmaster's oom_score_adj ({own})",
            f"a backend that takes all memory is protected, like all {asked.whole('host.process.count'):,} processes "
            "of the server, and another program of this machine is killed instead",
            (EDIT_UNIT, "[Service]", *_CHILDREN),
            "restart",
            check,
        )
    total, available = asked.whole("host.memory.total_bytes"), asked.whole("host.memory.available_bytes")
    return Finding(
        "warning" if available < _SCARCE * total else "note",
        f"the postmaster's oom_score_adj is {own}, "
        + ("vm.overcommit_memory is not 2" if limit is None else f"its control group's limit is {human_size(limit)}"),
        f"{human_size(available)} of {human_size(total)} are available. {_when(asked, limit)}. If a backend is killed, "
        "all connections end and the server recovers; a killed postmaster is restarted only if its service does so",
        (EDIT_UNIT, "[Service]", "OOMScoreAdjust=-1000", *_CHILDREN),
        "restart",
        check,
    )


def _guaranteed(asked: RuleFacts, limit: int | None) -> tuple[str, ...]:
    """Requests equal to limits: the pod's present limits, for CPUs also its cpuset; without a memory limit four times
    shared memory. At most three quarters of this node, because no node gives all that it has."""
    memory = limit or min(asked.whole("host.memory.total_bytes") * 3 // 4, 4 * shared_memory(asked))
    every, mine = asked.whole("host.cores"), server_cores(asked)
    cores = mine if mine and mine < every else max(1, every * 3 // 4)
    each = f"{{memory: {memory // MB}Mi, cpu: {cores}}}"
    return (
        "# in the pod: requests equal to limits (QoS class Guaranteed), at most what a node can give",
        f"resources: {{requests: {each}, limits: {each}}}",
    )


def _when(asked: RuleFacts, limit: int | None) -> str:
    if limit is None:
        return f"When memory runs out, {_first(asked)}"
    return "When the group reaches its limit, one of its processes is killed, which may be the postmaster"


def _first(asked: RuleFacts) -> str:
    """The process that the kernel kills first, as far as it can be determined."""
    try:
        found = asked.value("host.oom.first")
        score, own, name = int(found["score"]), int(found["postmaster_score"]), str(found["name"])
    except (UnknownError, NotApplicableError, KeyError, TypeError, ValueError):
        return "the kernel kills the process with the largest oom_score, which may be the postmaster"
    if found.get("whose") == "postmaster":
        return f"the postmaster is killed first (oom_score {score})"
    whose = "one of the server's processes" if found.get("whose") == "server" else one_line(name)
    return f"{whose} is killed first (oom_score {score}; the postmaster has {own})"


RULE = DoctorRule(
    "oom",
    "Is the postmaster protected from the OOM killer?",
    "memory is overcommitted, or the control group has a limit; and the postmaster's oom_score_adj is not negative (a "
    "warning if less than 10 % of the memory is available), or its backends share its protection, or its pod is among "
    "the first to be killed",
    "PostgreSQL's manual, Linux Memory Overcommit; proc_pid_oom_score(5) and proc_pid_oom_score_adj(5)",
    _judge,
)
