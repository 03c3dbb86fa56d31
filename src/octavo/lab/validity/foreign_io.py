"""Storage traffic that was not the trial's own.

Reads at the device are compared with what our processes fetched, because a read is counted when it is requested.
Foreign writes are the bytes that foreign processes dirtied. Bytes written at the device come late and from the kernel,
so they are not compared.
"""

from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.possible_change import left_by_device
from octavo.units import human_size, parse_size


def judge(evidence: Evidence) -> str | None:
    """Invalid when foreign reads at the device and foreign writes exceed `most_foreign_io` per second, unless the
    trial's own limited device was fully used: then it could not have served more without them."""
    seen = evidence.surroundings
    if seen is None or seen.seconds <= 0:
        return None
    read, written = seen.foreign_read_bytes or 0, seen.foreign_written_bytes or 0
    most = evidence.thresholds.most_foreign_io
    if read + written <= parse_size(most) * seen.seconds or left_by_device(evidence) <= evidence.threshold:
        return None
    whom = f", most of all {seen.busiest_with_storage}" if seen.busiest_with_storage else ""
    return (
        f"foreign processes read {human_size(read)} and wrote {human_size(written)} (more than {most} a second){whom}"
    )
