"""Full-page images per transaction at a size: their number, how full their pages are, and the bytes of records."""

import math

from octavo.predict.assumptions import LARGER_IMAGES, SMALLER_IMAGES, Assumptions
from octavo.predict.conditions import Conditions
from octavo.predict.image_correction import fill_of
from octavo.predict.image_growth import total
from octavo.predict.rates import Rates
from octavo.predict.size import Size
from octavo.predict.wal import record_bytes


def images_of(size: Size, one: Rates, assumed: Assumptions, given: Conditions, tps: float | None) -> float | None:
    """Full-page images per transaction: as simulated, corrected by the number counted at the recorded size; none for a
    server with full_page_writes off."""
    trace = given.trace
    if trace.writes_wal is False:
        return 0.0
    if not trace.has_changes:
        return None
    simulated = one.each["full_page_images"]
    if size.is_as_recorded and trace.images_each is not None:
        return trace.images_each
    if not trace.logs_images:
        return 0.0
    since = given.since_checkpoint(tps)
    if since is not None:
        since /= size.data_factor
        found = _simulated_images(size, one, since, given, assumed.images_beyond)
        simulated = simulated if found is None else found
    simulated *= max(0.0, 1 + assumed.sample * one.errors.get("full_page_images", 0.0))
    doubt = math.hypot(given.correction.doubt, one.images_spread)
    elsewhere = 1 + assumed.elsewhere_images * _more_images(size, given, since)
    return simulated * given.correction.factor * elsewhere * max(0.0, 1 + assumed.images * doubt)


def _more_images(size: Size, given: Conditions, since: float | None) -> float:
    """The part by which a size has more images because fewer updates are HOT, among so many transactions since a
    checkpoint.

    In a full page of a new table an update finds room after an earlier one has moved its row away: with u updates of
    each page, 1 - exp(-u) of them are HOT, and on pages of a k-th of the size 1 - exp(-u/k). An update changes a page
    of the table, and one of an index if it is not HOT. Where few are HOT there are few to lose.
    """
    calibrated = (SMALLER_IMAGES if size.data_block < given.trace.data_block else LARGER_IMAGES) * given.octaves(size)
    found = given.trace.updates_each(since or given.trace.transactions)
    if calibrated <= 0 or found is None:
        return calibrated
    not_hot, hot = found
    updates = not_hot + hot
    if updates <= 0:
        return calibrated
    there = updates * (not_hot / updates) ** (size.data_block / given.trace.data_block)
    return min(calibrated, (there - not_hot) / (updates + not_hot))


def _simulated_images(size: Size, one: Rates, transactions: float, given: Conditions, beyond: float) -> float | None:
    """Simulated images per transaction, among so many since a checkpoint. A changed page has at most one image for each
    of its parts; the limit matters beyond the end of the trace, where smaller blocks might seem to have more."""

    def of(rates: Rates) -> float | None:
        if not one.since_checkpoint or len(rates.images_by_length) < 2:
            return rates.images(transactions)
        return total(rates, transactions, rates.images_by_length[-1][0], beyond) / transactions

    found, own, parts = of(one), of(given.base_rates[0]), given.trace.data_block / size.data_block
    return found if found is None or own is None or parts <= 1 else min(found, own * parts)


def fill_of_cycle(assumed: Assumptions, given: Conditions, since: float | None) -> float:
    """How full pages of the recorded size are in the images of a cycle of so many transactions."""
    if since is not None:
        since /= given.base.data_factor
    return fill_of(given.correction, given.own_rates[0], given.trace.transactions, assumed.image_fill, since)


def records_of(assumed: Assumptions, given: Conditions) -> float:
    """Bytes of a transaction's WAL records as recorded, without full-page images and page headers."""
    trace = given.trace
    images = images_of(given.own, given.own_rates[0], assumed, given, None) or 0.0
    assert trace.wal_bytes_each is not None
    return record_bytes(trace.wal_bytes_each, trace.wal_block, images, trace.data_block, assumed.image_fill,
                        trace.wal_records_each or 0.0)  # fmt: skip
