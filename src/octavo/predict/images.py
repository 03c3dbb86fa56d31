"""Full-page images: what the recorded server counted over what the simulation of it has.

The simulated server logs an image of each page at its first change in the trace. The recorded one had logged some of
them before the trace began, as its last checkpoint lies before that: how much WAL it had written since then
(`checkpoint_wal_bytes`, of pg_control_checkpoint) tells how many transactions that were. What is left of the difference
are hint bits, which change pages without an image where neither checksums nor wal_log_hints are on.
"""

import math
from dataclasses import dataclass

from octavo.predict.recorded import Recorded
from octavo.predict.simulation import Rates
from octavo.predict.wal import image_bytes, record_bytes

# Simulated images were 0.6 to 2.9 % above the counted ones, where both began with a checkpoint
# (benchmarks/trace_equality.py; docs/trace.md).
_LEAST_DOUBT = 0.03
_LEAST, _MOST = 0.8, 1.25
_STEPS = 50
# A trace that begins so many of its lengths behind a checkpoint has hardly an image of it.
_LONGEST = 8.0


@dataclass(frozen=True, slots=True)
class Correction:
    """By what simulated images are multiplied, and by what part that may be off."""

    factor: float = 1.0
    doubt: float = _LEAST_DOUBT


def correction(trace: Recorded, own: Rates, fill: float) -> Correction:
    """Of the recorded size. Where nobody knows how long before the trace the last checkpoint was, it is between what
    the whole trace has and none."""
    simulated = own.each.get("full_page_images", 0.0)
    if not simulated or not trace.images_each:
        return Correction()
    raw = _bounded(trace.images_each / simulated)
    if trace.checkpoints:
        return Correction(raw, max(_LEAST_DOUBT, abs(1 - raw)))
    before = transactions_before(trace, own, fill)
    if before is None:
        middle = (raw + 1) / 2
        return Correction(middle, (abs(1 - middle) + _LEAST_DOUBT) / middle)
    whole = trace.transactions
    expected = (_total(own, before + whole, whole) - _total(own, before, whole)) / whole
    found = _bounded(trace.images_each / expected) if expected > 0 else 1.0
    return Correction(found, max(_LEAST_DOUBT, abs(1 - found)))


def transactions_before(trace: Recorded, own: Rates, fill: float) -> float | None:
    """How many there were from the last checkpoint until the trace began; None where it is not known."""
    if trace.logged_before is None or trace.wal_bytes_each is None or own.images(trace.transactions) is None:
        return None
    records = record_bytes(trace.wal_bytes_each, trace.wal_block, trace.images_each or 0.0, trace.data_block, fill,
                           trace.wal_records_each or 0.0)  # fmt: skip

    def logged(transactions: float) -> float:
        images = _total(own, transactions, trace.transactions)
        return records * transactions + images * image_bytes(trace.data_block, fill)

    low, high = 0.0, _LONGEST * trace.transactions
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if logged(middle) < trace.logged_before else (low, middle)
    return high


def _total(own: Rates, transactions: float, recorded: float) -> float:
    """Images of so many transactions since a checkpoint. Behind the recorded ones they become fewer as they did from
    the second third to the last."""

    def inside(count: float) -> float:
        return (own.images(count) or 0.0) * count

    if transactions <= recorded:
        return inside(transactions)
    third = recorded / 3
    first, second, whole = inside(third), inside(2 * third), inside(recorded)
    middle, last = second - first, whole - second
    if last <= 0 or middle <= last:
        return whole + max(0.0, last) / third * (transactions - recorded)
    decay = math.log(middle / last) / third
    ending = last / third * math.exp(-decay * third / 2)
    return whole + ending * -math.expm1(-decay * (transactions - recorded)) / decay


def _bounded(factor: float) -> float:
    return min(_MOST, max(_LEAST, factor))
