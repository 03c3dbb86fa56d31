"""Where the CPU's time went: the functions in which PostgreSQL's processes were found running.

Source: `perf record -a` at 99 Hz while the trial runs, then `perf report` of the processes named postgres, those of
other servers on this host included. The event is the CPU's cycle counter where there is one, else a timer
(cpu-clock). The profile stays beside the server's log. Optional: a plan asks for it, because it costs.
"""

import os
import re
import signal
import subprocess

from octavo.errors import HostError
from octavo.host import children
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
            raise UnavailableError(f"{error}; it is in the package linux-perf or linux-tools") from error
        except OSError as error:
            raise UnavailableError("a profile needs root or a lower kernel.perf_event_paranoid") from error
        if found.returncode != 0:
            raise UnavailableError("perf does not work here; it must fit the kernel")
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
            report = children.run(
                ["perf", "report", "--stdio", "--input", data, "--comms", "postgres", "--percentage", "relative",
                 "--fields", "overhead,dso,sym", "--no-demangle", "--no-inline"],
                server.journal, role="perf report",
            )  # fmt: skip
            shares = parse_report(report.stdout)
            if not shares:
                raise UnavailableError(f"perf found nothing: {' '.join((words or report.stderr).split())[-200:]}")
            return [observe(_SHARE, share, item=item) for item, share in shares[:_MOST]]

        return stop


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
