"""How many atomic instructions a pgbench transaction executes on an emulated 64-bit Arm CPU, by qemu's plugin.

The machine has one processor, so there is no contention: a loop of exclusives runs once. The cost of connecting and
planning cancels: pgbench runs n and then 2 n transactions, and the difference of the two is divided by n.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host import children
from octavo.host.journal import Journal
from octavo.vm import job
from octavo.vm.images import Image
from octavo.vm.machine import Limits
from octavo.vm.run import run

EXCLUSIVE = ("ldxr", "stxr", "ldxp", "stxp")
LSE = ("cas", "casp", "swp", "ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin")
INSTRUCTIONS = "instructions"
# pgbench's transactions, and what is given to it for them.
TRANSACTIONS = {"select-only": "--select-only", "tpcb-like": "--builtin=tpcb-like"}
_MB = 1024**2
_LIMITS = Limits(memory=1024 * _MB, disk=2048 * _MB, cpus=1, seconds=3600)
_PLUGIN = "atomics.c"
_NEWEST_QEMU = 8  # the plugin's interface changed in 9.0
# Of a program with instructions that the CPU has not, among what initdb says when it ends.
_SIGNAL = re.compile(r"[^\n]{0,200}terminated by signal [^\n]{0,100}")
_LINE = re.compile(r"octavo-count ([0-9]{1,4}) (program|kernel) ([a-z]{3,12}) ([0-9]{1,19})$", re.MULTILINE)

# $1 transactions, $2 name of an installation below /scratch, or nothing.
_IN_THE_MACHINE = """
set -e
if [ -n "$2" ]; then
    export PATH="/scratch/$2/bin:$PATH" LD_LIBRARY_PATH="/scratch/$2/lib"
    for library in /scratch/"$2"/lib/*.so.*.*; do ln -s "$library" "${library%.*}"; done  # links are not copied
fi
start-postgres -c shared_buffers=64MB -c autovacuum=off -c checkpoint_timeout=1h -c max_wal_size=1GB
postgres --version
pgbench -i -q -s 1 postgres >/dev/null 2>&1
for transactions in --select-only --builtin=tpcb-like; do
    pgbench -n -c 1 $transactions -t "$1" postgres >/dev/null 2>&1
    ./mark
    pgbench -n -c 1 $transactions -t "$1" postgres >/dev/null 2>&1
    ./mark
    pgbench -n -c 1 $transactions -t $((2 * $1)) postgres >/dev/null 2>&1
    ./mark
done
"""


@dataclass(frozen=True, slots=True)
class Atomics:
    """Instructions that programs (server and client) executed, a transaction: all, and atomic ones by mnemonic."""

    cpu: str
    postgres: str
    transactions: str
    counts: Mapping[str, float]

    @property
    def lse(self) -> float:
        """LSE instructions."""
        return sum(self.counts[name] for name in LSE)

    @property
    def exclusive(self) -> float:
        """Load and store exclusives."""
        return sum(self.counts[name] for name in EXCLUSIVE)


def measure(
    image: Image, cpu: str, journal: Journal, transactions: int, installation: Path | None = None
) -> list[Atomics]:
    """The counts for each of pgbench's transactions, on a CPU model of qemu's.

    `installation`: a PostgreSQL for 64-bit Arm below one directory, in place of Debian's. Raises HostError without a
    compiler or with another qemu, OctavoError when the machine does not count.
    """
    check_qemu(journal)
    name = job.name_of(installation) if installation else ""
    found = run(
        image, ["sh", "-c", _IN_THE_MACHINE, "sh", str(transactions), name], journal, _LIMITS,
        files={name: installation} if installation else {}, programs={"mark": mark()}, cpu=cpu,
        plugin=resources.files("octavo.vm").joinpath("plugin", _PLUGIN).read_text(),
    )  # fmt: skip
    if found.returncode != 0:
        signal = _SIGNAL.search(found.text)
        last = signal[0].strip() if signal else found.text.strip().rpartition("\n")[2][:300]
        raise OctavoError(f"pgbench failed in the machine (exit {found.returncode}): {last or 'no output'}")
    return read(found.console, cpu, found.text.strip().rpartition("\n")[2][:80], transactions)


def read(console: str, cpu: str, postgres: str, transactions: int) -> list[Atomics]:
    """The counters that the plugin printed. Raises OctavoError unless there are three complete sets for each
    transaction type."""
    marks: dict[int, dict[str, int]] = {}
    for match in _LINE.finditer(console):
        if match[2] == "program":
            marks.setdefault(int(match[1]), {})[match[3]] = int(match[4])
    names = {*EXCLUSIVE, *LSE, INSTRUCTIONS}
    if sorted(marks) != list(range(3 * len(TRANSACTIONS))) or any(set(counts) != names for counts in marks.values()):
        raise OctavoError(
            f"the plugin printed {len(marks)} sets of counters instead of {3 * len(TRANSACTIONS)} whole ones"
        )
    found: list[Atomics] = []
    for number, kind in enumerate(TRANSACTIONS):
        first, second, third = (marks[3 * number + step] for step in range(3))
        counts = {name: (third[name] - 2 * second[name] + first[name]) / transactions for name in sorted(names)}
        found.append(Atomics(cpu, postgres, kind, counts))
    return found


def check_qemu(journal: Journal) -> None:
    """Raises HostError when the plugin cannot be compiled, or this qemu cannot load it."""
    from octavo.vm.kernels import MACHINES
    from octavo.vm.run import check_qemu as check_program

    check_program(MACHINES["aarch64"])
    message = children.run(
        [MACHINES["aarch64"].qemu, "--version"], journal, role="qemu", account=children.server_account()
    ).stdout
    match = re.search(r"version ([0-9]{1,3})\.", message)
    if match is None or int(match[1]) > _NEWEST_QEMU:
        raise HostError(
            f"counting needs qemu 5.2 to {_NEWEST_QEMU}, whose plugins have the interface's version 1; this is "
            f"{message.strip().partition(chr(10))[0][:80] or 'unknown'}"
        )


def mark() -> bytes:
    """A program for 64-bit Arm that executes `hint #96`, at which the plugin prints, and ends (System V ABI)."""
    code: Sequence[int] = (0xD503201F | 96 << 5, 0xD2800BA8, 0xD2800000, 0xD4000001)  # hint; mov x8, 93; mov x0, 0; svc
    start, header, segment = 0x400000, 64, 56
    size = header + segment + 4 * len(code)
    return (
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, start + header + segment, header, 0, 0, header, segment, 1, 64, 0, 0)
        + struct.pack("<IIQQQQQQ", 1, 5, 0, start, start, size, size, 0x10000)
        + struct.pack(f"<{len(code)}I", *code)
    )
