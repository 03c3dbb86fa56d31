"""WAL per transaction at other data and WAL blocks: records, full-page images, headers, and the bytes written.

Records hardly depend on the data block. The first change of a page after the begin of a checkpoint writes the page into
the WAL without the hole in its middle (xloginsert.c); the simulation gives the number of these images. Each WAL page
has a header of 24 bytes (xlog_internal.h). A flush writes whole WAL pages, so on average one page more than the new WAL
(docs/experiments/oltp-blocks.md, "WAL written against generated").
"""

from dataclasses import dataclass

from octavo.trace.wal import Written

LIKELY_FILL = 0.95
"""The fill of pages whose images are in the WAL, where it was not counted."""
_PAGE_HEADER = 24
# Bytes of an image's headers: its own and compression's, the block reference, and the record header if it stands alone.
_IMAGE_HEADER = 32
# The length of the shortest record (SizeOfXLogRecord).
_RECORD_HEADER = 24
# Records begin at multiples of 8 bytes.
_MOST_PADDING = 7
# If the WAL grew by more than its records take, apart from a second of them and this part, segments were closed early.
_INEXACT = 0.1
# A smaller WAL page is a whole page of the page cache at the device, too (docs/experiments/oltp-blocks.md).
_DEVICE_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Wal:
    """WAL bytes per transaction."""

    records: float
    images: float
    headers: float
    written: float
    """Bytes that the server writes to the kernel."""
    device_written: float
    """Bytes that the kernel writes to the device."""

    @property
    def generated(self) -> float:
        """All bytes that enter the WAL stream."""
        return self.records + self.images + self.headers


def image_bytes(block: int, fill: float) -> float:
    """Bytes of the image of a page that is filled to `fill`.

    >>> round(image_bytes(8192, 0.5))
    4128
    """
    return block * fill + _IMAGE_HEADER


def image_fill(block: int, amount: float) -> float:
    """How full a page is whose image has so many bytes.

    >>> image_fill(8192, image_bytes(8192, 0.5))
    0.5
    """
    return (amount - _IMAGE_HEADER) / block


def logged_bytes(wal: Written, wal_block: int) -> float:
    """The bytes by which the WAL grew, without the unused rest of segments that were closed early (archive_timeout,
    pg_switch_wal). The counters of records are up to a second late.

    >>> wal = Written(seconds=60.0, records=10_000, images=0, bytes=1_000_000, image_bytes=None,
    ...               growth_bytes=1_050_000, kinds=())
    >>> round(logged_bytes(wal, 8192))
    1050000
    """
    most = (wal.bytes + _MOST_PADDING * wal.records) / (1 - _PAGE_HEADER / wal_block)
    late = most / max(1.0, wal.seconds)
    return wal.growth_bytes if not wal.bytes or wal.growth_bytes <= (1 + _INEXACT) * most + late else most


def without_headers(generated: float, wal_block: int) -> float:
    """The bytes of WAL without its page headers."""
    return generated * (1 - _PAGE_HEADER / wal_block)


def record_bytes(generated: float, wal_block: int, images: float, block: int, fill: float, records: float) -> float:
    """The part of a recorded server's WAL that is neither images nor headers; at least its records' own headers.

    >>> round(record_bytes(9000.0, 8192, 1.0, 8192, 0.95, 5.0))
    1159
    """
    stream = without_headers(generated, wal_block)
    return max(stream - images * image_bytes(block, fill), records * _RECORD_HEADER)


def wal_of(records: float, images: float, block: int, fill: float, wal_block: int, commits_a_sync: float | None) -> Wal:
    """The WAL of a transaction with so many images. Transactions that share a flush share its last page.

    0.8 kB of records, two commits a flush, pages of 64 kB: 32 times as much is written as generated.

    >>> found = wal_of(800.0, 0.0, 8192, 1.0, 65536, 2.5)
    >>> round(found.written / found.generated)
    34
    """
    stream = records + images * image_bytes(block, fill)
    generated = stream / (1 - _PAGE_HEADER / wal_block)
    flushes = 0.0 if commits_a_sync is None or stream <= 0 else 1 / commits_a_sync
    written, to_device = (generated + flushes * page for page in (wal_block, device_page(wal_block)))
    return Wal(records, stream - records, generated - stream, written, to_device)


def device_page(wal_block: int) -> int:
    """Bytes that are written to the device for a WAL page.

    >>> device_page(1024), device_page(8192)
    (4096, 8192)
    """
    return max(wal_block, _DEVICE_PAGE)
