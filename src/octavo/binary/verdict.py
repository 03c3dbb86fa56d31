"""What the atomic instructions of a program mean for contended locks, and which CPU its code needs.

GCC outlines atomics by default since 10.1 (GCC 10 release notes, "AArch64": -moutline-atomics), clang since 12 where
libgcc 9.3.1 or later is found. Levels of x86-64: psABI, "Processor Architecture".
"""

import re
from dataclasses import dataclass

from octavo.binary.core_types import ElfReport
from octavo.binary.machines import AARCH64, X86_64, name_of

_EXCLUSIVE, _LSE = "load and store exclusives", "large-system extensions"
_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
# Shares of the stretches of 4 kB. A program that asks the CPU has the code of a level in few places (PostgreSQL 18 in
# 0.6 %, OpenSSL in 12 %); a compiler that was told to use it has it everywhere (PostgreSQL 18 for -v2 in 33 %, -v3 in
# 76 %, -v4 in 40 %).
_FEW, _MOST = 0.02, 0.25


@dataclass(frozen=True, slots=True)
class Verdict:
    """In a word for programs, in a line, and what follows from it."""

    word: str
    line: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class AtomicsCount:
    """Atomic instructions of AArch64, outside of helpers and inside."""

    lse: int
    exclusive: int
    helped_lse: int
    helped_exclusive: int
    calls: int


def tally(report: ElfReport) -> AtomicsCount:
    """Sums of a report's counts."""

    def total(group: str) -> tuple[int, int]:
        those = [(count, helped) for _, of, count, helped in report["counts"] if of == group]
        return sum(count - helped for count, helped in those), sum(helped for _, helped in those)

    (lse, helped_lse), (exclusive, helped_exclusive) = total(_LSE), total(_EXCLUSIVE)
    return AtomicsCount(lse, exclusive, helped_lse, helped_exclusive, sum(calls for _, calls in report["helpers"]))


def verdict(report: ElfReport) -> Verdict:
    """The verdict on a program."""
    if report["is_debug_file"]:
        return Verdict("debug", "debug information without instructions; name the program that it belongs to")
    if report["machine"] == AARCH64:
        return _of_aarch64(report)
    if report["machine"] == X86_64:
        return _of_x86_64(report)
    return Verdict("other", f"{name_of(report['machine'])}: its instructions are not counted")


def _of_aarch64(report: ElfReport) -> Verdict:
    found = tally(report)
    if found.calls and not found.lse:
        rest = f"; {found.exclusive} exclusives are outside of the helpers" if found.exclusive else ""
        return Verdict("outlined", f"LSE when the CPU has it (outlined){rest}")
    if found.lse and (found.exclusive or found.calls):
        others = [
            f"{count} {words}"
            for count, words in ((found.exclusive, "exclusives"), (found.calls, "calls of helpers of outlined atomics"))
            if count
        ]
        return Verdict(
            "mixed",
            f"{found.lse} LSE instructions beside {' and '.join(others)}",
            "it chooses at run time, or its parts were built with different flags: see which functions have them",
        )
    if found.lse:
        return Verdict("lse", "LSE always", "it does not run on a CPU without LSE (Armv8.0: Cortex-A53, A57, A72)")
    if found.exclusive:
        return Verdict("no-lse", "no LSE: contended locks will suffer on Graviton2, Ampere and later", why(report))
    return Verdict("none", "no atomic instructions")


def why(report: ElfReport) -> str:
    """Why a program has no LSE, as far as the file records it, and how to change that."""
    flags = report["producers"][0][0] if report["producers"] else ""
    for_these = "or for such CPUs alone with '-march=armv8.2-a'"
    rebuild = f"build it with CFLAGS='-moutline-atomics', {for_these}"
    if "-mno-outline-atomics" in flags:
        return f"it was built with -mno-outline-atomics; {rebuild}"
    version = gcc_version(report)
    if version is None:
        return f"GCC outlines by default since 10.1; {rebuild}"
    text = ".".join(map(str, version))
    if version < (10, 1):  # of which not every one has the option
        return f"GCC {text} does not outline by default, 10.1 and later do; build it with one of these, {for_these}"
    return f"GCC {text} outlines by default, so it was built with -mno-outline-atomics; {rebuild}"


def gcc_version(report: ElfReport) -> tuple[int, int] | None:
    """The GCC that most units were compiled with, else the oldest one that is named. None if clang is, too: GCC's name
    is then that of the start-up code.

    >>> gcc_version({"producers": [("GNU AS 2.40", 1)], "compilers": ["GCC: (GNU) 12.2.0"]})  # type: ignore
    (12, 2)
    """
    for producer, _ in report["producers"]:
        if found := re.match(r"GNU (?!AS )\S+ (\d{1,4})\.(\d{1,4})", producer):
            return int(found[1]), int(found[2])
    if any("clang" in text for text in report["compilers"]):
        return None
    named = [
        (int(found[1]), int(found[2]))
        for text in report["compilers"]
        if (found := re.match(r"GCC: \(.*?\) (\d{1,4})\.(\d{1,4})", text))
    ]
    return min(named, default=None)


def _of_x86_64(report: ElfReport) -> Verdict:
    level, doubt = level_of(report)
    atomics = sum(count for _, _, count, _ in report["counts"])
    return Verdict(
        level,
        f"needs {level}{doubt}; {atomics or 'no'} atomic instructions",
        "on x86-64 an atomic update is one instruction on every CPU" if atomics else "",
    )


def level_of(report: ElfReport) -> tuple[str, str]:
    """The level of x86-64 that the code needs, and its uncertainty.

    If a program queries the CPU, a level in few of its stretches is chosen at run time and not required.
    """
    needed, doubt = "x86-64", ""
    places = {name: stretches for name, _, stretches, _ in report["levels"]}
    for level in _LEVELS:
        share = places.get(level, 0) / max(report["stretches"], 1)
        if not share:
            continue
        if not report["detects_cpu"] or share >= _MOST:
            needed, doubt = level, ""
        elif share >= _FEW:
            doubt = f" ({level} is in {share:.0%} of the code, which may be chosen at run time)"
    return needed, doubt
