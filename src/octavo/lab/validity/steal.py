"""The hypervisor gave the CPU to somebody else: no factor can cause that."""

from octavo.lab.validity.evidence import Evidence

_MOST = 0.02


def judge(evidence: Evidence) -> str | None:
    """Invalid when more than 2 % of the machine's CPU time was stolen during the run."""
    stolen = evidence.numbers.get("cpu_steal_share", 0.0)
    if stolen <= _MOST:
        return None
    return f"the hypervisor took {stolen * 100:.2f} % of the CPU (more than {_MOST * 100:g} %)"
