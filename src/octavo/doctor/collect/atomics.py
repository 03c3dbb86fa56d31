"""The atomic instructions of a program for AArch64: LSE, or only load-exclusive and store-exclusive."""

from typing import Any

from octavo.binary.core_types import ElfReport
from octavo.binary.machines import AARCH64
from octavo.binary.verdict import tally, verdict


def atomics_of(report: ElfReport) -> dict[str, Any] | None:
    """The value of `host.process.atomics`; None when the program is not for AArch64."""
    if report["machine"] != AARCH64:
        return None
    found, said = tally(report), verdict(report)
    return {
        "lse": found.lse + found.helped_lse,
        "exclusive": found.exclusive + found.helped_exclusive,
        "calls_of_helpers": found.calls,
        "verdict": said.word,
        "text": said.line,
        "advice": said.advice,
    }
