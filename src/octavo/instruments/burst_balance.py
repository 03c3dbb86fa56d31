"""The remaining I/O credits of a volume. Amazon's BurstBalance is their share of a full bucket, 5.4 million.

Source: Octavo's own accounting of the volume that it enforces (`knobs/credits.py`); a cloud volume reports its balance
elsewhere. Empty on a device without credits.
"""

from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Reading
from octavo.instruments.target import Target
from octavo.knobs.burst_balance import credits_under
from octavo.observation import Metric


class BurstBalance:
    """The credits in the bucket."""

    period = 0.5
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(
            Metric("burst_credits", "I/O credits that the volume has left (BurstBalance)", "1"), "credits", whole="min",
        ),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError when the directory is not visible."""
        directory = target.directory
        if directory is None:
            raise UnavailableError(target.no_directory)

        def read() -> Reading:
            left = credits_under(directory)
            return {} if left is None else {None: {"credits": left}}

        return Reader(read)


INSTRUMENT = BurstBalance()
