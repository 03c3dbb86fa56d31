"""The wait events of the sessions, by name, from samples of pg_stat_activity.

Source: `wait_event_type` and `wait_event` of active sessions and parallel workers (PostgreSQL's documentation, "The
Cumulative Statistics System"). A session without a wait event runs, or waits for a CPU. Ten samples a second: short and
rare waits are missed. Optional, because each sample is a query.
"""

from collections import Counter

from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric


class WaitEvents:
    """An item is a wait event, such as LWLock:BufferMapping, or `running`."""

    period = 0.1
    asks_server = True
    figures: tuple[Figure, ...] = (
        Ratio(Metric("wait_event_share", "share of the samples of active sessions in this wait event", "fraction"),
              "seen", "sessions"),
        Total(Metric("wait_event_samples", "samples of active sessions in this wait event", "1"), "seen"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Available on every version."""
        seen: Counter[str] = Counter()

        def read() -> Reading:
            seen.update({str(row["event"]): int(row["sessions"]) for row in target.query("wait_events")})
            sessions = seen.total()
            return {event: {"seen": float(count), "sessions": float(sessions)} for event, count in seen.items()}

        return Reader(read)


INSTRUMENT = WaitEvents()
