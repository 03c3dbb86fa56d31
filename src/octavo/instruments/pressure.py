"""Pressure: the share of the time in which tasks waited for CPU, memory or I/O.

Source: /proc/pressure/* (kernel Documentation/accounting/psi.rst): `total`, in microseconds. `some`: at least one task
waited; `full`: all non-idle tasks waited, which is undefined for the machine's CPU: kernels from 5.13 on report a zero.
"""

from octavo.host.procfs import ProcFile, number_after
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Item, Rate, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric

_RESOURCES = ("cpu", "memory", "io")


class Pressure:
    """The machine's pressure stall information, by resource."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Rate(
            Metric("pressure_some", "share of the time in which at least one task waited for it", "fraction"),
            "some",
            1e-6,
        ),
        Rate(Metric("pressure_full", "share of the time in which all tasks waited for it", "fraction"), "full", 1e-6),
    )

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError on a kernel without PSI, or with PSI off."""
        files: dict[str, ProcFile] = {}
        try:
            for resource in _RESOURCES:
                files[resource] = ProcFile(target.proc / "pressure" / resource)
                files[resource].read()
        except OSError as error:
            for file in files.values():
                file.close()
            raise UnavailableError(f"this kernel has no pressure stall information (PSI): {error.strerror}") from error

        def read() -> Reading:
            found: dict[Item, dict[str, float]] = {resource: _totals(file.read()) for resource, file in files.items()}
            found["cpu"].pop("full", None)
            return found

        def close() -> None:
            for file in files.values():
                file.close()

        return Reader(read, close)


def _totals(text: bytes) -> dict[str, float]:
    """The totals by name.

    >>> _totals(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\\n")
    {'some': 12.0}
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, numbers = line.partition(b" ")
        found[name.decode(errors="replace")] = float(number_after(numbers + b"\n", b"total="))
    return found


INSTRUMENT = Pressure()
