"""Whether the kernel kills the whole server when one backend exceeds the group's memory."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import EDIT_UNIT
from octavo.units import human_size

_NEVER_KILLED = -1000


def _judge(asked: RuleFacts) -> Ok | Finding:
    if not asked.flag("host.process.oom_group"):
        return Ok("memory.oom.group = 0: one process is killed, and the postmaster recovers")
    if asked.whole("host.process.postmaster_oom_adj") == _NEVER_KILLED:
        return Ok("memory.oom.group = 1, and the postmaster (oom_score_adj -1000) is exempt")
    limit, count = asked.whole_or_none("host.memory.group_limit_bytes"), asked.whole("host.process.count")
    when = f"at the group's limit of {human_size(limit)}" if limit else "when the host's memory runs out"
    return Finding(
        "note",
        "memory.oom.group = 1 for the postmaster's control group",
        f"{when} one backend that takes too much memory gets all {count:,} processes killed, including the "
        "postmaster: there is no recovery until the service manager restarts it",
        ("# in the kubelet's configuration, Kubernetes 1.32 and later:", "singleProcessOOMKill: true")
        if asked.text_or_none("host.container") == "Kubernetes"
        else (EDIT_UNIT, "[Service]", "OOMPolicy=continue"),
        "restart",
        "cat /sys/fs/cgroup$(cut -d: -f3 /proc/$(head -1 $PGDATA/postmaster.pid)/cgroup)/memory.oom.group",
    )


RULE = DoctorRule(
    "oom-group",
    "Does the OOM killer kill the postmaster together with a backend?",
    "memory.oom.group is set for the postmaster's group, and the postmaster is not exempt",
    "kernel Documentation/admin-guide/cgroup-v2.rst (memory.oom.group); systemd.service(5), OOMPolicy=; "
    "Kubernetes, KubeletConfiguration (singleProcessOOMKill)",
    _judge,
)
