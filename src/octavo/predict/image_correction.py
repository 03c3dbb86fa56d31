"""Full-page images: the ratio of those that the recorded server counted to those that its simulation has.

The simulated server logs an image of each page at its first change in the trace. The recorded one had logged some of
them before the trace began, as its last checkpoint lies before that. How many transactions there were since then is
counted by their commits in the WAL (pg_walinspect), or follows from the time of the checkpoint, or, in traces of
earlier versions, from how much WAL there was (`checkpoint_wal_bytes`). The rest of the difference comes from hint bits,
which change pages without an image if neither checksums nor wal_log_hints are on.

The pages that are changed first after a checkpoint are those that are changed most, and may be fuller than those that
follow: the size of their images is taken from the time before the trace.
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
# A trace that begins so many of its lengths behind a checkpoint has hardly an image of it.
_LONGEST = 8.0
# Fewer images than this have no mean.
_FEWEST = 20.0


@dataclass(frozen=True, slots=True)
class Correction:
    """By what simulated images are multiplied, and by what part that may be off."""

    factor: float = 1.0
    doubt: float = _LEAST_DOUBT
    before: float = 0.0
    """Transactions from the last checkpoint until the trace began."""
    fill_before: float | None = None
    """How full pages are in the images of those; None where the trace does not say it."""


def correction(trace: Recorded, own: Rates, fill: float) -> Correction:
    """Of the recorded size. Where nobody knows how long before the trace the last checkpoint was, it is between what
    the whole trace has and none."""
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
    """How full pages are in the images of so many transactions since a checkpoint: `fill` is that of the trace's."""
    if found.fill_before is None or transactions is None:
        return fill
    whole = total(own, transactions, recorded)
    early = total(own, min(transactions, found.before), recorded)
    return fill if whole <= 0 else (early * found.fill_before + (whole - early) * fill) / whole


def transactions_before(trace: Recorded, own: Rates, fill: float) -> tuple[float, float] | None:
    """How many there were from the last checkpoint until the trace began, and by what part that may be off; None where
    it is not known."""
    before = trace.before
    if before is None or trace.wal_bytes_each is None or own.images(trace.transactions) is None:
        return None
    if before.transactions is not None:
        # As many a second as a sixth of the trace may have.
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
    """Images that were counted over those that there should be so many transactions behind a checkpoint: since that
    where they were counted, else in the trace."""
    whole = trace.transactions
    counted = (trace.images_each or 0.0) * whole
    expected = total(own, before + whole, whole)
    if trace.before is not None and trace.before.images is not None:
        counted += trace.before.images
    else:
        expected -= total(own, before, whole)
    return _bounded(counted / expected) if expected > 0 else 1.0


def _fill_before(trace: Recorded, own: Rates, before: float, fill: float, factor: float) -> float | None:
    """How full pages are in the images between the checkpoint and the trace: what was counted there, or what its WAL
    has beside records."""
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
