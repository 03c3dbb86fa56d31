"""A filesystem that writes a whole folio of the page cache after PostgreSQL has changed one block of it.

iomap, which xfs uses, tracks dirty data by filesystem block since Linux 6.6, and by folio before. A folio is one or
more memory pages: since Linux 5.18 xfs reads ahead into large ones. ext4 has always tracked blocks (buffer heads).
"""

import re

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.units import human_size

_BY_BLOCK, _LARGE_FOLIOS = (6, 6), (5, 18)
# Debian's names of machines, in those of its packages of kernels.
_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "powerpc64le", "s390x": "s390x"}
_FEWEST, _MOST = 512 * 1024.0, 2.0  # the least bytes per second for a result, and the ratio that is a finding


def _judge(asked: RuleFacts) -> Ok | Finding:
    kind, kernel = asked.text("host.fs.type"), asked.text("host.kernel")
    block, page = asked.whole("setting.block_size"), asked.whole("host.memory.page_bytes")
    if kind != "xfs":
        raise NotApplicableError(f"{kind} is not known to write its files through iomap")
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", kernel)
    if numbers is None or ".el" in kernel:
        raise UnknownError(f"it is not known which changes of Linux 6.6 Linux {kernel} contains")
    version = int(numbers[1]), int(numbers[2])
    if version >= _BY_BLOCK:
        return Ok(f"xfs of Linux {kernel} writes the filesystem's blocks that are dirty, however large the folio is")
    machine = asked.text_or_none("host.machine") or ""
    if page > block:
        return _finding(
            kernel, machine, block, page, f"memory pages of {human_size(page)}", f"{page // block} times the bytes"
        )
    if version < _LARGE_FOLIOS:
        return Ok(f"xfs of Linux {kernel} has folios of one page, {human_size(page)}")
    # Such a kernel accounts a dirtied folio as a whole to the writing process, and writes it as a whole.
    asked_for = asked.number("live.server.checkpoint_bytes_per_second")
    dirtied = asked.number("live.server.checkpoint_dirtied_bytes_per_second")
    if asked_for < _FEWEST:
        raise NotApplicableError(
            "no checkpoint wrote while the server was observed, so the cost of large folios is not known"
        )
    if dirtied < _MOST * asked_for:
        return Ok(f"the checkpointer wrote {human_size(asked_for)}/s and dirtied {human_size(dirtied)}/s of page cache")
    return _finding(
        kernel, machine, block, asked.whole_or_none("host.device.readahead_bytes") or page,
        f"the checkpointer wrote {human_size(asked_for)}/s and dirtied {human_size(dirtied)}/s of page cache",
        f"{dirtied / asked_for:.1f} times the bytes",
    )  # fmt: skip


def _finding(kernel: str, machine: str, block: int, folio: int, seen: str, times: str) -> Finding:
    package = f"linux-image-{_DEBIAN.get(machine, 'MACHINE')}"
    return Finding(
        "warning",
        f"{seen}, on xfs of Linux {kernel}, which writes whole folios",
        f"for a changed block of {human_size(block)} up to {human_size(folio)} are written: {times} at each checkpoint",
        ("# Linux 6.6 or later, for example on Debian 12:", f"apt install -t bookworm-backports {package}"),
        "reboot",
        "uname -r; octavo doctor --interval 10s   # while a checkpoint runs",
    )  # fmt: skip


RULE = DoctorRule(
    "folio-writes",
    "Does the filesystem write more than the changed blocks?",
    "xfs before Linux 6.6 with memory pages larger than a data block; or with large folios, and the checkpointer "
    "dirtied twice the bytes that it wrote while observed (16 and later)",
    'Linux commits "iomap: Add per-block dirty state tracking to improve performance" (6.6: 16 times the throughput of '
    'writes of 4 kB with pages of 64 kB) and "xfs: Support large folios"',
    _judge,
    ("page-cache folio", "filesystem block"),
    volumes=("tables",),
)
