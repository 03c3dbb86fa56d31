"""Atomic instructions of the running program on AArch64."""

from octavo.doctor.amounts import server_cores
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.text import one_line


def _judge(asked: RuleFacts) -> Ok | Finding:
    machine = asked.text("host.machine")
    if machine != "aarch64":
        raise NotApplicableError(f"this machine is {machine}")
    if not asked.flag("host.cpu.lse"):
        raise NotApplicableError("this CPU has no LSE instructions (Armv8.0)")
    counted = asked.value("host.process.atomics")
    try:
        lse, exclusive = int(counted["lse"]), int(counted["exclusive"])
        calls = int(counted.get("calls_of_helpers", 0))
        # Earlier facts had only sums.
        has_none = str(counted["verdict"]) == "no-lse" if "verdict" in counted else not lse and exclusive > 0
    except (AttributeError, TypeError, KeyError, ValueError):
        raise UnknownError("host.process.atomics has an unknown form") from None
    if not has_none:
        outlined = f"LSE when the CPU has it: {calls} calls of outlined atomics; " if calls else ""
        return Ok(f"{outlined}the program has {lse} LSE instructions and {exclusive} exclusive ones")
    # The compiler that the program names, if any.
    why = one_line(counted.get("advice") or "GCC 10.1 and later outline by default")
    cores = server_cores(asked)
    many = f"that {cores} cores want at once" if cores else "that several cores want at once"
    return Finding(
        "warning",
        f"the program has {exclusive} load- and store-exclusive instructions and no LSE instructions; the CPU has LSE",
        f"a lock {many} is retried in a loop of load- and store-exclusive, where LSE takes it in 1 instruction",
        (f"# {why}", "CFLAGS='-moutline-atomics'"),
        "a new build, and a restart",
        "octavo binary $(which postgres)",
    )


RULE = DoctorRule(
    "lse",
    "Does the running program use the CPU's atomic instructions?",
    "an AArch64 CPU has LSE and the program has only load-exclusive and store-exclusive instructions",
    "Franck Pachot, PostgreSQL on Oracle's Arm shape with GCC and LSE (2021); Arm Architecture Reference Manual",
    _judge,
)
