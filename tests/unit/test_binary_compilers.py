"""One C program compiled by Debian's cross-compiler for 64-bit Arm, with the flags of three builds: counts equal
objdump's."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.tools import needs

from octavo.binary.listing import lines
from octavo.binary.read import Program, read_one
from octavo.binary.verdict import gcc_version, verdict

_GCC, _OBJDUMP, _STRIP = (f"aarch64-linux-gnu-{one}" for one in ("gcc", "objdump", "strip"))
_SOURCE = r"""
#define EACH(type, order) \
    void change_##type##order(type *at, type by, type *old) { \
        *old = __atomic_fetch_add(at, by, order); \
        __atomic_fetch_and(at, by, order); \
        __atomic_fetch_xor(at, by, order); \
        *old += __atomic_fetch_or(at, by, order); \
        *old += __atomic_exchange_n(at, by, order); \
        __atomic_compare_exchange_n(at, old, by, 0, order, __ATOMIC_RELAXED); \
    }
#define ALL(type) EACH(type, __ATOMIC_RELAXED) EACH(type, __ATOMIC_ACQUIRE) EACH(type, __ATOMIC_RELEASE) \
    EACH(type, __ATOMIC_ACQ_REL) EACH(type, __ATOMIC_SEQ_CST)
ALL(char) ALL(short) ALL(int) ALL(long)
int main(void) { return 0; }
"""
# As the seed's awk program, with the pairs that it leaves out.
_COUNTED = re.compile(
    r"\t(ldxr|ldaxr|stxr|stlxr|ldxp|ldaxp|stxp|stlxp|casp?|swp|(?:ld|st)(?:add|clr|eor|set|smax|smin|umax|umin))"
    r"((?:a|l|al)?[bh]?)\t"
)

pytestmark = needs(_GCC)


def compiled(place: Path, *flags: str) -> Path:
    source, program = place / "x.c", place / "x"
    source.write_text(_SOURCE)
    subprocess.run([_GCC, "-O2", "-g", *flags, source, "-o", program], check=True, timeout=60)
    return program


def by_objdump(program: Path) -> Counter[str]:
    said = subprocess.run([_OBJDUMP, "-d", program], capture_output=True, text=True, check=True, timeout=60).stdout
    return Counter("".join(found.groups()) for line in said.splitlines() if (found := _COUNTED.search(line)))


def ours(program: Path) -> Counter[str]:
    counts = (line.split("\t")[0].split() for line in lines(Program("x", read_one(program))))
    return Counter({name: int(count) for count, name in counts})


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("-march=armv8.2-a+fp16",), "lse"),
        (("-march=armv8-a", "-moutline-atomics"), "outlined"),
        (("-march=armv8-a", "-mno-outline-atomics"), "no-lse"),
        (("-march=armv8-a", "-mno-outline-atomics", "-static"), "outlined"),
    ],
    ids=" ".join,
)
def test_counts_are_objdumps(tmp_path: Path, flags: tuple[str, ...], word: str) -> None:
    program = compiled(tmp_path, *flags)
    report = read_one(program)
    assert ours(program) == by_objdump(program)
    said = verdict(report).word
    # A linked C library contains helpers of its own that it calls.
    assert said == word or "-static" in flags
    version = gcc_version(report)
    assert version is not None and version >= (10, 1)
    assert any(all(flag in producer for flag in flags[:2]) for producer, _ in report["producers"])
    subprocess.run([_STRIP, program], check=True, timeout=60)
    stripped = read_one(program)
    assert stripped["is_stripped"] and not stripped["producers"]
    assert ours(program) == by_objdump(program)
    assert verdict(stripped).word == said
    assert sum(calls for _, calls in stripped["helpers"]) == sum(calls for _, calls in report["helpers"])


def test_an_object_calls_helpers_that_the_linker_has_still_to_find(tmp_path: Path) -> None:
    report = read_one(compiled(tmp_path, "-c", "-march=armv8-a", "-moutline-atomics"))
    assert verdict(report).word == "outlined" and report["kind"] == "object"
    assert dict(report["helpers"])["__aarch64_ldadd4_relax"] == 1
