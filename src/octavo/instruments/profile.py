"""Where the CPU's time went: the functions in which PostgreSQL's processes were found running.

Source: `perf record -a` at 99 Hz while the trial runs, then `perf report` of the processes named postgres, those of
other servers on this host included. The event is the CPU's cycle counter where there is one, else a timer
(cpu-clock). The profile stays beside the server's log. Optional: a plan asks for it, because it costs.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
from pathlib import Path

from octavo.errors import HostError
from octavo.host import children, trees
from octavo.host.journal import Journal
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
_LINE = re.compile(r"^\s*([\d.]+)%\s+(\S+)\s+\[[.k]\]\s+(.+?)\s*$", re.MULTILINE)


class Profile:
    """perf record while the trial runs; an item is a program or library and a function of it."""

    metrics = (_SHARE,)

    def start(self, server: Server) -> Stop:
        """Raises UnavailableError without a perf that may look at the whole machine."""
        try:
            perf_events.close(perf_events.open_event(_CLOCK, cpu=min(os.sched_getaffinity(0))))
            found = children.run(["perf", "version"], server.journal, role="perf version")
        except HostError as error:
            raise UnavailableError(f"{error}; install linux-perf or linux-tools") from error
        except OSError as error:
            raise UnavailableError("a profile needs root or a lower kernel.perf_event_paranoid") from error
        if found.returncode != 0:
            raise UnavailableError("perf does not work here; it must match the kernel")
        data = server.log.with_suffix(".perf.data")
        recorder, entry = children.start(
            ["perf", "record", "-a", "-e", _event(), "-F", str(_HERTZ), "-B", "-N", "--output", data],
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
            report = _report(data, server.journal)
            shares = parse_report(report.stdout)
            if not shares:
                raise UnavailableError(f"perf found nothing: {' '.join((words or report.stderr).split())[-200:]}")
            return [observe(_SHARE, share, item=item) for item, share in shares[:_MOST]]

        return stop


def _report(data: Path, journal: Journal) -> children.Finished:
    """What perf report makes of the data, and of the symbol tables of every program that ran, whoever made that.

    So it runs as nobody, or as ourselves where we are not root. It gets copies of the data and of the kernel's symbols,
    which are zeros for whoever has no right to them (kernel.kptr_restrict).
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
