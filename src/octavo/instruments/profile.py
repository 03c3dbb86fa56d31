"""CPU profile: the functions in which PostgreSQL's processes were sampled.

Source: `perf record -a -G` at 99 Hz while the trial runs, of the server's control group, then `perf report` of the
processes named postgres. Where perf cannot be restricted to that group it samples the whole machine, other servers on
it included. The event is the CPU's cycle counter if it has one, else a timer (cpu-clock). The profile is kept next to
the server's log. Optional, because it costs CPU time.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
from pathlib import Path

from octavo.errors import HostError
from octavo.host import cgroup, child_group, children, trees
from octavo.host.journal import Journal
from octavo.host.mounts import Mount, mounts
from octavo.instruments import perf_events
from octavo.instruments.base import Stop, UnavailableError
from octavo.instruments.tlb import EVENTS
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_SHARE = Metric("profile_share", "samples in this function, of all of PostgreSQL's", "fraction")
_CLOCK = perf_events.Event(perf_events.SOFTWARE, 0)
_HERTZ = 99
_MOST = 30
_SECONDS_TO_END = 30.0
_KALLSYMS = Path("/proc/kallsyms")
_LONGEST_LINE = 200
_LINE = re.compile(r"^\s*([\d.]+)%\s+(\S+)\s+\[[.k]\]\s+(.+?)\s*$", re.MULTILINE)


class Profile:
    """perf record during the trial; an item is a program or library and one of its functions."""

    metrics = (_SHARE,)

    def start(self, server: Server) -> Stop:
        """Raises UnavailableError without a perf that may observe the whole machine."""
        try:
            perf_events.close(perf_events.open_event(_CLOCK, cpu=min(os.sched_getaffinity(0))))
            found = children.run(["perf", "version"], server.journal, role="perf version")
        except HostError as error:
            raise UnavailableError(f"{error}; install linux-perf or linux-tools") from error
        except OSError as error:
            raise UnavailableError("a profile needs root or a lower kernel.perf_event_paranoid") from error
        if found.returncode != 0:
            why = error_line(found.stderr or found.stdout)
            raise UnavailableError(f"perf does not work here, it must match the kernel: {why}")
        data = server.log.with_suffix(".perf.data")
        recorder, entry = children.start(
            ["perf", "record", "-a", "-e", _event(), *_restricted(server), "-F", str(_HERTZ), "-B", "-N",
             "--output", data],
            server.journal, role="perf record", stdout=subprocess.DEVNULL, end_signal=signal.SIGINT,
        )  # fmt: skip

        def stop(result: WorkloadResult) -> list[Observation]:
            recorder.send_signal(signal.SIGINT)
            try:
                _, words = recorder.communicate(timeout=_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                recorder.kill()
                recorder.communicate()
                raise UnavailableError("perf record did not end") from None
            finally:
                children.ended(server.journal, entry)
            if recorder.returncode > 0:  # our own signal gives a negative code
                raise UnavailableError(f"perf record failed: {error_line(words)}")
            if not data.exists():
                raise UnavailableError(f"perf recorded nothing: {error_line(words)}")
            report = _report(data, server.journal)
            shares = parse_report(report.stdout)
            if not shares:
                why = error_line(report.stderr) if report.returncode else error_line(words)
                raise UnavailableError(f"perf found nothing: {why}")
            return [observe(_SHARE, share, item=item) for item, share in shares[:_MOST]]

        return stop


def error_line(text: str) -> str:
    """perf's message in one line: the text after "Error:", else its first line, without progress output.

    >>> error_line("WARNING: maps are restricted\\n\\nError:\\nAccess to monitoring is limited.\\nAdjust it\\n")
    'Access to monitoring is limited.'
    >>> error_line("[ perf record: Woken up 1 times ]\\nE: linux-perf-6.1 is not installed.\\n"), error_line("")
    ('E: linux-perf-6.1 is not installed.', 'no output')
    """
    found = [line for line in (one.strip() for one in text.splitlines()) if line and not line.startswith("[ perf")]
    after = found[found.index("Error:") + 1 :] if "Error:" in found else found
    return next(iter(after or found), "no output")[:_LONGEST_LINE]


def cannot_restrict(proc: Path = Path("/proc"), root: Path = cgroup.ROOT) -> str | None:
    """Why perf cannot be restricted to one server's control group, or None."""
    place = child_group.hierarchy(root)
    if place is None or not child_group.is_version_2(place):
        return "there are no control groups of version 2"
    if not _hierarchy(proc):
        return "perf looks at the groups of version 1, and servers are in those of version 2"
    return None


def _hierarchy(proc: Path) -> Mount | None:
    """The hierarchy in which perf looks for groups, if it is version 2: perf uses that if version 1 has no perf_event
    controller (tools/lib/api/fs/cgroup.c)."""
    table = mounts(proc / "self" / "mountinfo")
    if any(mount.kind == "cgroup" and "perf_event" in mount.options.split(",") for mount in table):
        return None
    return next((mount for mount in table if mount.kind == "cgroup2"), None)


def _restricted(server: Server, proc: Path = Path("/proc")) -> list[str]:
    """perf record's options for one server only; empty if that is impossible. They name the group of all processes of
    the server, so that the server may be restarted in it."""
    try:
        mount = _hierarchy(proc)
        text = (proc / str(server.process.pid) / "cgroup").read_text()
    except OSError:
        return []
    inside = Path(next((line.removeprefix("0::") for line in text.splitlines() if line.startswith("0::")), "/"))
    if mount is None or not inside.is_relative_to(mount.root):
        return []
    where = mount.target / inside.relative_to(mount.root)
    groups = (server.below, server.journal.children, server.group)
    chosen = next((group for group in groups if group is not None and where.is_relative_to(group)), None)
    return [] if chosen is None else ["-G", str(chosen.relative_to(mount.target))]


def _report(data: Path, journal: Journal) -> children.Finished:
    """Runs perf report on the data. It parses the symbol tables of every program that ran, which anybody may have made.

    So it runs as nobody, or as the current user if that is not root. It gets copies of the data and of the kernel's
    symbols, which are zeros for users without permission (kernel.kptr_restrict).
    """
    account = _nobody()
    with trees.readable_scratch("profile", journal, account) as place:
        for original, name in ((data, "perf.data"), (_KALLSYMS, "kallsyms")):
            with original.open("rb") as source, os.fdopen(trees.new_readable(place / name, account), "wb") as copy:
                shutil.copyfileobj(source, copy)
        return children.run(
            ["perf", "report", "--stdio", "--input", place / "perf.data", "--kallsyms", place / "kallsyms",
             "--comms", "postgres", "--percentage", "relative", "--fields", "overhead,dso,sym", "--no-demangle",
             "--no-inline"],
            journal, role="perf report", account=account,
        )  # fmt: skip


def _nobody() -> children.Account:
    if os.geteuid() != 0:
        return children.server_account()
    entry = pwd.getpwnam("nobody")
    return children.Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _event() -> str:
    try:
        perf_events.close(perf_events.open_event(EVENTS["cycles"], pid=0))
    except OSError:
        return "cpu-clock"
    return "cycles"


def parse_report(text: str) -> list[tuple[str, float]]:
    """Functions and their shares, largest first.

    >>> parse_report("    12.50%  postgres  [.] hash_search\\n     1.00%  [kernel]  [k] clear_page\\n")
    [('postgres hash_search', 0.125), ('[kernel] clear_page', 0.01)]
    """
    return [(f"{binary} {symbol}", float(percent) / 100) for percent, binary, symbol in _LINE.findall(text)]


INSTRUMENT = Profile()
