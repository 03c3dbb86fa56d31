"""The I/O scheduler of the data's device: queue/scheduler.

Source: kernel Documentation/block/switching-sched.rst. A loop device has its own scheduler, above that of the disk
below. A scheduler starts with its defaults whenever it is selected, so its tuned settings are restored too.
"""

from collections.abc import Generator
from contextlib import contextmanager

from octavo.factor import Factor, one_of
from octavo.host.block_devices import device_under
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable, set_values

_WORDS = ("none", "mq-deadline", "kyber", "bfq")


class IoScheduler:
    """The scheduler's name."""

    factor = Factor("io_scheduler", "run", "I/O scheduler of the data's device", AS_FOUND, one_of(AS_FOUND, *_WORDS))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """The device has to offer the scheduler."""
        device = device_under(place.directory, place.sys)
        if device is None:
            return "the filesystem of the data has no block device of its own"
        file = device / "queue/scheduler"
        if reason := not_writable(file):
            return reason
        offered = KernelValue(file, "choice").choices()
        return None if level in offered else f"{device.name} offers {', '.join(offered)}, not {level}"

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Sets the scheduler of that device."""
        device = device_under(place.directory, place.sys)
        assert device is not None  # checked by `cannot`
        queue = device / "queue"
        scheduler = KernelValue(queue / "scheduler", "choice")
        tuned = [queue / "nr_requests", queue / "wbt_lat_usec", *sorted((queue / "iosched").glob("*"))]
        with set_values(
            level, [(scheduler, level)], journal, moves=lambda _: [KernelValue(file) for file in tuned]
        ) as achieved:
            yield achieved


KNOB = IoScheduler()
