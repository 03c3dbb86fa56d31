"""The pages of the server's program and libraries in the page cache, and the cgroup to which they are charged."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from octavo.host import children
from octavo.host.journal import Journal
from octavo.host.owner import owner_of

# `libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007fe2e2a42000)`; the loader itself has no arrow.
_LIBRARY = re.compile(r"\s*(?:\S+ => )?(/\S+) \(0x")
_CHUNK_BYTES = 1024**2
_MOST_BYTES = 1024**3  # no program or library is larger
_MOST_LIBRARIES = 1000


def libraries(ldd_says: str) -> list[Path]:
    """The files in the output of ldd.

    >>> libraries("\\tlinux-vdso.so.1 (0x00007f)\\n\\tlibz.so.1 => /lib/libz.so.1 (0x0f)\\n\\t/lib64/ld.so.2 (0x02)\\n")
    [PosixPath('/lib/libz.so.1'), PosixPath('/lib64/ld.so.2')]
    """
    found = [Path(match[1]) for match in map(_LIBRARY.match, ldd_says.splitlines()) if match]
    return found[:_MOST_LIBRARIES]


def read_first(program: Path, modules: Path, journal: Journal) -> None:
    """Reads the program, its libraries and the server's modules, so that they are charged to us and not to the memory
    group of the next server: a page is charged to the group that touches it first (admin-guide/cgroup-v1/memory.rst,
    2.3).

    The kernel can always reclaim a program's pages: a group full of memory that cannot be reclaimed drops them and
    reads them again, for minutes, instead of running out of memory.
    """
    # ldd runs the program's own loader (ldd(1)) and trusts its output.
    message = children.run(["ldd", program], journal, role="ldd", account=children.server_account()).stdout
    for path in (program, *libraries(message), *modules.glob("*.so")):
        _read(path)


def _read(path: Path) -> None:
    """Reads a regular file of root's or ours up to its initial size, within a limit.

    Skips anything else. It is checked before it is opened (O_PATH), because opening a device may have an effect.
    """
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        facts = os.fstat(place)
        if not stat.S_ISREG(facts.st_mode) or owner_of(facts) not in (0, os.geteuid()):
            return
        with suppress(OSError), Path(f"/proc/self/fd/{place}").open("rb", buffering=0) as file:  # proc(5)
            for offset in range(0, min(facts.st_size, _MOST_BYTES), _CHUNK_BYTES):
                os.pread(file.fileno(), _CHUNK_BYTES, offset)
    finally:
        os.close(place)
