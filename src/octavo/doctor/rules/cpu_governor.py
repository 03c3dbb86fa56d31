"""A CPU frequency that follows the load."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.host.checks.cpu import GOVERNOR_FIX

# These drivers choose the frequency in hardware; their `powersave` is not slow unless the preference says so.
_HARDWARE = ("intel_pstate", "amd-pstate-epp")
_SAVING = ("power", "balance_power")


def _judge(asked: RuleFacts) -> Ok | Finding:
    governors, drivers = asked.words("host.cpu.governors"), asked.words_or_none("host.cpu.drivers") or []
    seen = f"governor {', '.join(governors)}, driver {', '.join(drivers) or 'unknown'}"
    if governors == ["performance"]:
        return Ok(seen)
    if drivers and set(drivers) <= set(_HARDWARE):
        wants = asked.words_or_none("host.cpu.preferences") or []
        if not set(wants) & set(_SAVING):
            return Ok(f"{seen}, preference {', '.join(wants) or 'unknown'}")
        seen += f", preference {', '.join(wants)}"
    lowest, highest = (asked.whole_or_none(f"host.cpu.{name}_kilohertz") for name in ("lowest", "highest"))
    span = f" ({lowest // 1000:,} of {highest // 1000:,} MHz)" if lowest and highest else ""
    return Finding(
        "note",
        seen,
        f"the frequency of {asked.whole('host.cores'):,} CPUs follows the load: the first queries after an idle period "
        f"run at a low frequency{span}",
        (
            *on_the_host(asked),
            GOVERNOR_FIX,
            "# at each boot: tuned-adm profile throughput-performance, or cpupower.service",
        ),
        "now",
        "cpupower frequency-info",
    )


RULE = DoctorRule(
    "cpu-governor",
    "Does the CPU keep its frequency at low load?",
    "the governor is not performance, and the hardware is not set to prefer performance either",
    "kernel Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst and amd-pstate.rst",
    _judge,
)
