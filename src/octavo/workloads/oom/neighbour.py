"""Another program in the server's memory group, with its own memory: does the kernel kill it, or PostgreSQL?"""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.procfs import number_after
from octavo.postgres.cluster import Server
from octavo.workload_support.server_memory import ProcessMemory

ROLE = "neighbour"
_KB = 1024
# Touches every page of so many bytes, reports that, and stays until its input ends. The bytes are random, so that
# compressed swap does not shrink them.
_PROGRAM = (
    "import os, signal, sys\n"
    "held = [os.urandom(min(1 << 20, int(sys.argv[1]) - at)) for at in range(0, int(sys.argv[1]), 1 << 20)]\n"
    "print('ready', flush=True)\n"
    "signal.pause()\n"
)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The running program."""

    process: subprocess.Popen[str]

    @property
    def killed(self) -> bool:
        """Whether it has ended, which it never does by itself."""
        return self.process.poll() is not None

    def memory(self) -> list[ProcessMemory]:
        """Its present memory, as the kernel weighs it; empty once it has ended."""
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_bytes()
            rss, swap, tables, private = (
                number_after(status, name) * _KB for name in (b"\nVmRSS:", b"\nVmSwap:", b"\nVmPTE:", b"\nRssAnon:")
            )
            if rss:
                return [ProcessMemory(self.process.pid, ROLE, rss, swap, tables, private)]
        return []


@contextmanager
def neighbour(server: Server, size: int) -> Generator[Neighbour | None, None, None]:
    """Runs a program that holds `size` bytes in the server's memory group; None for 0.

    It has the oom_score_adj of the server's processes, so that size alone decides. Raises OctavoError when it does not
    start.
    """
    if not size:
        yield None
        return
    groups = [] if server.group is None else [server.group]
    process, entry = children.start(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(size)], server.journal,
        role=ROLE, groups=groups, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        score = Path(f"/proc/{server.process.pid}/oom_score_adj").read_text()
        Path(f"/proc/{process.pid}/oom_score_adj").write_text(score)
        assert process.stdout is not None
        if process.stdout.readline(16) != "ready\n":
            raise OctavoError(f"the neighbour of {size} bytes did not start: the memory limit is too small for it")
        yield Neighbour(process)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, 9)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        children.ended(server.journal, entry)
