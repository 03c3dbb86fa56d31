"""The part of Octavo that talks to the kernel, written in Rust (crates/octavo-core)."""

import os
from typing import final

@final
class DeviceStatistics:
    """The counters of one block device since boot or since the device was attached.

    All but `in_flight` only grow. The kernel writes the millisecond counters as 32-bit numbers,
    which wrap after 49.7 days of I/O time; on a 32-bit machine the others are no wider.
    Source: /proc/diskstats, described in the kernel's Documentation/admin-guide/iostats.rst.
    """

    @property
    def device(self) -> str:
        """The device's name below /dev, such as `nvme0n1p2` or `dm-0`."""
    @property
    def major(self) -> int:
        """The device number's first half: the driver."""
    @property
    def minor(self) -> int:
        """The device number's second half: which of the driver's devices or partitions."""
    @property
    def reads(self) -> int:
        """Completed read requests."""
    @property
    def reads_merged(self) -> int:
        """Read requests that were merged into a neighbouring one and are not in `reads`."""
    @property
    def read_bytes(self) -> int:
        """Bytes read."""
    @property
    def read_milliseconds(self) -> int:
        """Time that all reads took together, queueing included."""
    @property
    def writes(self) -> int:
        """Completed write requests."""
    @property
    def writes_merged(self) -> int:
        """Write requests that were merged into a neighbouring one and are not in `writes`."""
    @property
    def written_bytes(self) -> int:
        """Bytes written."""
    @property
    def write_milliseconds(self) -> int:
        """Time that all writes took together, queueing included."""
    @property
    def in_flight(self) -> int:
        """Requests begun and not completed yet: a gauge, not a counter."""
    @property
    def io_milliseconds(self) -> int:
        """Time during which at least one request was in flight, to the precision of a jiffy."""
    @property
    def weighted_io_milliseconds(self) -> int:
        """Time that all requests took together: grows by `in_flight` milliseconds every millisecond."""
    @property
    def discards(self) -> int | None:
        """Completed discard requests (TRIM, UNMAP, DEALLOCATE); None before Linux 4.18."""
    @property
    def discards_merged(self) -> int | None:
        """Discard requests that were merged into a neighbouring one and are not in `discards`."""
    @property
    def discarded_bytes(self) -> int | None:
        """Bytes discarded."""
    @property
    def discard_milliseconds(self) -> int | None:
        """Time that all discards took together."""
    @property
    def flushes(self) -> int | None:
        """Completed flushes of the device's write cache; None before Linux 5.5, 0 for partitions.

        The kernel merges concurrent flushes: there are fewer than fsync(2) calls.
        """
    @property
    def flush_milliseconds(self) -> int | None:
        """Time that all flushes took together."""

def device_statistics(path: str | os.PathLike[str]) -> DeviceStatistics:
    """The counters of the block device on which the filesystem of `path` lies.

    That is the partition, whole disk or device-mapper volume that is mounted there. Taken before
    and after a piece of work, the difference is that work's device I/O plus that of everything
    else that used the same device meanwhile.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        LookupError: the filesystem has no block device of its own (tmpfs, overlayfs, NFS, btrfs),
            or the kernel does not list that device here.
        OSError: `path` or /proc/diskstats is refused to this user.
        ValueError: /proc/diskstats is not as the kernel documents it.
    """

def markers_that_reach(text: bytes, markers: list[bytes]) -> list[bool]:
    """For each marker, whether it can reach the object code of this preprocessed C translation unit.

    `text` is what the preprocessor wrote; a marker is the exact spelling of a constant that occurs
    nowhere else, such as `0x00000002000`; at most 32. Releases the interpreter's lock while it reads.
    False is certain; where the text leaves room for doubt, the answer is True.
    """
