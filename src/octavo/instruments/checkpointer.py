"""Checkpoints and the background writer: which process wrote the dirty buffers, and how long it took.

Source: pg_stat_bgwriter, from 17 on also pg_stat_checkpointer ("The Cumulative Statistics System"). Before 18, skipped
checkpoints count, too.
"""

from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, Rate, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric


class Checkpointer:
    """The counters of both."""

    period = 1.0
    asks_server = True
    figures: tuple[Figure, ...] = (
        Total(Metric("checkpoints", "checkpoints during the trial", "1"), "checkpoints"),
        Rate(Metric("checkpointer_blocks_per_second", "blocks written by the checkpointer a second", "1/s"),
             "buffers_checkpoint"),
        Rate(Metric("bgwriter_blocks_per_second", "blocks written by the background writer a second", "1/s"),
             "buffers_clean"),
        Total(Metric("checkpoint_write_seconds", "time that checkpoints spent writing", "seconds"),
              "write_milliseconds", 1e-3),
        Total(Metric("checkpoint_sync_seconds", "time that checkpoints spent syncing files", "seconds"),
              "sync_milliseconds", 1e-3),
        Total(Metric("bgwriter_stops", "times that the background writer stopped at bgwriter_lru_maxpages", "1"),
              "maxwritten_clean"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Available on every version."""

        def read() -> Reading:
            return {None: target.query("checkpointer")[0]}

        return Reader(read)


INSTRUMENT = Checkpointer()
