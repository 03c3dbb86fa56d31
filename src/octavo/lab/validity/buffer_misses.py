"""Blocks read into shared buffers although all data fit there: such a trial does not compare CPU alone."""

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_percentage, parse_size


def judge(evidence: Evidence) -> str | None:
    """Invalid when a warm cell whose database fits shared_buffers read more than `most_buffer_misses` of its blocks.

    It applies only to workloads that count nothing but blocks (`riops` and `liops`).
    """
    reads, looked = evidence.numbers.get("riops"), evidence.numbers.get("liops")
    database: int | None = evidence.facts.get("database_bytes")
    if not looked or reads is None or database is None or evidence.levels.get("cache") != "warm":
        return None
    # With equal memory there are fewer buffers than the level of that name.
    buffers = evidence.settings.get("shared_buffers") or evidence.levels.get("shared_buffers", "0B")
    if database > parse_size(buffers):
        return None
    most = evidence.thresholds.most_buffer_misses
    if reads <= parse_percentage(most) * looked:
        return None
    return (
        f"the whole database fits in shared_buffers, yet {reads:.0f} blocks a second were read, {reads / looked:.3%} "
        f"of those accessed (more than {most})"
    )
