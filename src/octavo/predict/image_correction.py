"""The correction of full-page images: the ratio of the number that the recorded server counted to the simulated number.

The simulated server logs an image of each page at its first change in the trace. The recorded server had logged some of
these before the trace began, because its last checkpoint was earlier. The number of transactions since then is counted
from the commits in the WAL (pg_walinspect), or computed from the time of the checkpoint, or, in traces of earlier
versions, from the amount of WAL (`checkpoint_wal_bytes`). The rest of the difference comes from hint bits, which change
pages without an image if neither checksums nor wal_log_hints are on.

The pages changed first after a checkpoint are those that are changed most. They may be fuller than later ones, so the
size of their images is taken from the time before the trace.
"""

import math
from dataclasses import dataclass

from octavo.predict.image_growth import total
from octavo.predict.rates import Rates
from octavo.predict.recorded import Recorded
from octavo.predict.wal import image_bytes, image_fill, record_bytes, without_headers

# Simulated images were 0.6 to 2.9 % above the counted ones, where both began with a checkpoint
# (benchmarks/trace_equality.py; docs/trace.md).
_LEAST_DOUBT = 0.03
_LEAST, _MOST = 0.8, 1.25
_STEPS = 50
# A trace that begins this many of its lengths after a checkpoint has hardly any of its images.
_LONGEST = 8.0
# With fewer images than this no mean is computed.
_FEWEST = 20.0


@dataclass(frozen=True, slots=True)
class Correction:
    """The factor by which simulated images are multiplied. `doubt` is its relative error."""

    factor: float = 1.0
    doubt: float = _LEAST_DOUBT
    before: float = 0.0
    """Transactions from the last checkpoint until the trace began."""
    fill_before: float | None = None
    """How full the pages are in the images of these transactions; None where the trace does not contain it."""


def correction(trace: Recorded, own: Rates, fill: float) -> Correction:
    """The correction at the recorded size. Where the time from the last checkpoint to the trace is unknown, the factor
    lies between the ratio over the whole trace and 1."""
    simulated = own.each.get("full_page_images", 0.0)
    if not simulated or not trace.images_each:
        return Correction()
    raw = _bounded(trace.images_each / simulated)
    if trace.checkpoints:
        return Correction(raw, max(_LEAST_DOUBT, abs(1 - raw)))
    since = transactions_before(trace, own, fill)
    if since is None:
        middle = (raw + 1) / 2
        return Correction(middle, (abs(1 - middle) + _LEAST_DOUBT) / middle)
    before, doubt = since
    factor, *ends = (_factor(trace, own, before * part) for part in (1.0, 1 - doubt, 1 + doubt))
    wide = max(_LEAST_DOUBT, abs(1 - factor), *(abs(end / factor - 1) for end in ends))
    return Correction(factor, wide, before, _fill_before(trace, own, before, fill, factor))


def fill_of(found: Correction, own: Rates, recorded: float, fill: float, transactions: float | None) -> float:
    """How full pages are in the images of so many transactions since a checkpoint. `fill` is the fill within the
    trace."""
    if found.fill_before is None or transactions is None:
        return fill
    whole = total(own, transactions, recorded)
    early = total(own, min(transactions, found.before), recorded)
    return fill if whole <= 0 else (early * found.fill_before + (whole - early) * fill) / whole


def transactions_before(trace: Recorded, own: Rates, fill: float) -> tuple[float, float] | None:
    """The number of transactions from the last checkpoint until the trace began, and its relative error; None where the
    number is unknown."""
    before = trace.before
    if before is None or trace.wal_bytes_each is None or own.images(trace.transactions) is None:
        return None
    if before.transactions is not None:
        # The rate may differ from the mean by as much as a sixth of the trace may.
        return before.transactions, min(1.0, math.hypot(before.doubt, 0.0 if before.is_counted else own.pace))
    records = _record_bytes(trace, fill)

    def logged(transactions: float) -> float:
        images = total(own, transactions, trace.transactions)
        return records * transactions + images * image_bytes(trace.data_block, fill)

    low, high = 0.0, _LONGEST * trace.transactions
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if logged(middle) < before.wal_bytes else (low, middle)
    return high, 0.0


def _factor(trace: Recorded, own: Rates, before: float) -> float:
    """The counted images over those expected this many transactions after a checkpoint: since that checkpoint where
    they were counted from there, otherwise within the trace."""
    whole = trace.transactions
    counted = (trace.images_each or 0.0) * whole
    expected = total(own, before + whole, whole)
    if trace.before is not None and trace.before.images is not None:
        counted += trace.before.images
    else:
        expected -= total(own, before, whole)
    return _bounded(counted / expected) if expected > 0 else 1.0


def _fill_before(trace: Recorded, own: Rates, before: float, fill: float, factor: float) -> float | None:
    """How full pages are in the images between the checkpoint and the trace: as counted there, or computed from the WAL
    of that time without its records."""
    assert trace.before is not None
    images, found = trace.before.images, trace.before.image_bytes
    if images is None:
        images = factor * total(own, before, trace.transactions)
    if trace.before.transactions is None or images < _FEWEST:
        return None
    if found is not None:
        return min(1.0, found / images / trace.data_block)
    amount = without_headers(trace.before.wal_bytes, trace.wal_block) - before * _record_bytes(trace, fill)
    return min(1.0, max(0.0, image_fill(trace.data_block, amount / images)))


def _record_bytes(trace: Recorded, fill: float) -> float:
    return record_bytes(trace.wal_bytes_each or 0.0, trace.wal_block, trace.images_each or 0.0, trace.data_block, fill,
                        trace.wal_records_each or 0.0)  # fmt: skip


def _bounded(factor: float) -> float:
    return min(_MOST, max(_LEAST, factor))
