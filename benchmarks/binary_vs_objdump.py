"""Compares octavo binary with objdump piped to awk: the same program, alternately on one machine.

    .venv/bin/python benchmarks/binary_vs_objdump.py [PROGRAM] [--rounds 5]

PROGRAM is a postgres for x86-64 or, if aarch64-linux-gnu-objdump is installed, for 64-bit Arm; the default is the
newest build in Octavo's cache. Each round measures the CPU time of both with all their children, so that other work on
the machine is not included: ours as the whole command (`octavo binary --format objdump`, including the start of
Python), and as the reading of the program alone. Which of the two goes first alternates. It prints medians and ratios.
The counts must be equal.

Exit code 1: the counts differ, or the goal is missed: the whole command in a tenth of objdump's time, by the median.
"""

import argparse
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from octavo.binary.listing import lines
from octavo.binary.machines import AARCH64
from octavo.binary.read import Program, read_one
from octavo.errors import OctavoError
from octavo.home import octavo_home

_GOAL = 10.0
_ARM = (
    r"/\t(ldxr|ldaxr|stxr|stlxr|ldxp|ldaxp|stxp|stlxp)/{print $3}"
    r"/\t(cas|casp|swp|ldadd|stadd|ldclr|stclr|ldeor|steor|ldset|stset|ldsmax|stsmax|ldsmin|stsmin|ldumax|stumax|ldumin|"
    r"stumin)/{print $3}"
)
_X86 = r'BEGIN{FS="\t"} $3~/^lock /{split($3,word," "); print "lock " word[2]} $3~/^xchg .*\[/{print "xchg"}'


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="octavo binary against objdump")
    parser.add_argument("program", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = arguments.program or _newest()
    try:
        is_arm = read_one(program)["machine"] == AARCH64
    except OctavoError as error:
        sys.exit(str(error))
    objdump = "aarch64-linux-gnu-objdump" if is_arm else "objdump"
    if shutil.which(objdump) is None:
        sys.exit(f"there is no {objdump}; install binutils for this architecture")
    pipe = f"{objdump} -d {'' if is_arm else '-M intel '}\"$1\" | awk '{_ARM if is_arm else _X86}' | sort | uniq -c"
    ours = [sys.executable, "-m", "octavo", "binary", "--format", "objdump", str(program)]
    times: dict[str, list[float]] = {"objdump": [], "command": [], "reading": []}
    theirs = mine = ""
    for number in range(arguments.rounds):
        for name in ("objdump", "command") if number % 2 else ("command", "objdump"):
            command = ["bash", "-c", pipe, "-", str(program)] if name == "objdump" else ours
            start = _children()
            said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
            times[name].append(_children() - start)
            theirs, mine = (said, mine) if name == "objdump" else (theirs, said)
        start = time.process_time()
        lines(Program("", read_one(program)))
        times["reading"].append(time.process_time() - start)
    middle = {name: sorted(all_of_them)[len(all_of_them) // 2] for name, all_of_them in times.items()}
    ratio = middle["objdump"] / middle["command"]
    equal = _counts(theirs) == _counts(mine)
    print(f"{program}: {program.stat().st_size / 1024**2:.1f} MB, {arguments.rounds} rounds, medians of processor time")
    print(f"objdump | awk | sort | uniq -c   {middle['objdump']:8.3f} s")
    print(f"octavo binary, the command       {middle['command']:8.3f} s   {ratio:6.1f} times faster (goal {_GOAL:.0f})")
    print(f"octavo binary, reading alone     {middle['reading']:8.3f} s   {middle['objdump'] / middle['reading']:6.1f}")
    print("counts are equal" if equal else f"COUNTS DIFFER: {_counts(theirs)} against {_counts(mine)}")
    return int(not equal or ratio < _GOAL)


def _children() -> float:
    """Processor time of all children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _newest() -> Path:
    found = sorted(octavo_home().glob("builds/*/bin/postgres"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit("there is no build; name a program")
    return found[-1]


def _counts(text: str) -> Counter[str]:
    """The number of occurrences of each instruction in the output of `uniq -c` or of `octavo binary`."""
    found = (re.match(r"\s*(\d+) ([^\t]+)", line) for line in text.splitlines())
    return Counter({one[2].strip(): int(one[1]) for one in found if one})


if __name__ == "__main__":
    sys.exit(main())
