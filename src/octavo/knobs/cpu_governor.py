"""The CPU's frequency governor: /sys/devices/system/cpu/cpufreq/policy*/scaling_governor, the same for all policies.

Source: kernel Documentation/admin-guide/pm/cpufreq.rst. Virtual machines rarely have it. A governor that no policy has
any more loses its settings (drivers/cpufreq/cpufreq_governor.c), and `performance` sets the energy preference of
drivers with governors of their own, which amd_pstate keeps afterwards (drivers/cpufreq/amd-pstate.c): both are restored
too.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from octavo.factor import Factor, one_of
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable, set_values

_GOVERNORS = ("performance", "powersave", "ondemand", "conservative", "schedutil")


class CpuGovernor:
    """One governor for all policies."""

    factor = Factor("cpu_governor", "run", "CPU frequency governor", AS_FOUND, one_of(AS_FOUND, *_GOVERNORS))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """Every policy has to offer the governor."""
        policies = self._policies(place)
        if not policies:
            return "this host does not set its CPU's frequency (no cpufreq)"
        for policy in policies:
            if reason := not_writable(policy / "scaling_governor"):
                return reason
            offered = (policy / "scaling_available_governors").read_text().split()
            if level not in offered:
                return f"this CPU's driver offers {', '.join(offered)}, not {level}"
        return None

    def applied(self, level: str, journal: Journal, place: KnobTarget) -> AbstractContextManager[Achieved]:
        """Sets the governor of every policy."""
        files = [KernelValue(policy / "scaling_governor") for policy in self._policies(place)]
        return set_values(level, [(file, level) for file in files], journal, moves=_settings_of)

    def _policies(self, place: KnobTarget) -> list[Path]:
        found = (place.sys / "devices/system/cpu/cpufreq").glob("policy[0-9]*")
        return sorted(policy for policy in found if _has_a_cpu(policy))


def _has_a_cpu(policy: Path) -> bool:
    """Whether a CPU of the policy is online: the files of others cannot be read (EBUSY; drivers/cpufreq/cpufreq.c,
    show)."""
    try:
        (policy / "scaling_governor").read_bytes()
    except OSError:
        return False
    return True


def _settings_of(governor: KernelValue) -> Sequence[KernelValue]:
    """The policy's energy preference, and the settings of its governor: one for all policies, or for each its own."""
    policy, name = governor.path.parent, governor.read()
    own = [*(policy / name).glob("*"), *(policy.parent / name).glob("*")]
    return [KernelValue(file) for file in (policy / "energy_performance_preference", *sorted(own))]


KNOB = CpuGovernor()
