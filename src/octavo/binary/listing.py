"""Counts as `objdump -d | awk … | sort | uniq -c | sort -n` lists them, and as JSON."""

from typing import Any

from octavo.binary.machines import AARCH64, name_of
from octavo.binary.read import Program
from octavo.binary.verdict import gcc_version, tally, verdict
from octavo.text import one_line

# Loads and stores with an order are no updates; published listings leave them out.
_LEFT_OUT = "ordered loads and stores"


def lines(program: Program) -> list[str]:
    """The listing of a program; empty when it has no atomic instructions."""
    if program.report is None:
        return []
    counts = [(count, f"{name}\t({group})") for name, group, count, _ in program.report["counts"] if group != _LEFT_OUT]
    return [f"{count:7d} {text}" for count, text in sorted(counts)]


def document(programs: list[Program]) -> dict[str, Any]:
    """All of it, for programs."""
    return {"schema_version": 1, "programs": [_as_json(one) for one in programs]}


def _as_json(program: Program) -> dict[str, Any]:
    report = program.report
    if report is None:
        return {"path": program.name, "problem": program.problem}
    message, gcc = verdict(report), gcc_version(report)
    found: dict[str, Any] = {
        "path": program.name,
        "problem": None,
        "verdict": message.word,
        "text": message.line,
        "advice": message.advice or None,
        "architecture": name_of(report["machine"]),
        "bits": report["bits"],
        "kind": report["kind"],
        "is_stripped": report["is_stripped"],
        "is_debug_file": report["is_debug_file"],
        "code_bytes": report["code_bytes"],
        "counts": [
            {"mnemonic": name, "group": group, "count": count, "in_helpers": helped}
            for name, group, count, helped in report["counts"]
        ],
        "helpers": [{"name": name, "calls": calls} for name, calls in report["helpers"]],
        "levels": [
            {"name": name, "instructions": count, "stretches": stretches, "functions": functions}
            for name, count, stretches, functions in report["levels"]
        ],
        "stretches": report["stretches"],
        "detects_cpu": report["detects_cpu"],
        "gcc": None if gcc is None else ".".join(map(str, gcc)),
        "compilers": [one_line(text) for text in report["compilers"]],
        "producers": [{"text": one_line(text), "units": units} for text, units in report["producers"]],
        "notes": report["notes"],
    }
    if report["machine"] == AARCH64:
        sums = tally(report)
        found["sums"] = {"lse": sums.lse, "exclusive": sums.exclusive, "calls_of_helpers": sums.calls}
    return found
