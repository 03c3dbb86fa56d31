"""The WAL written during a recording, from its trace."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.trace.core_types import Summary


@dataclass(frozen=True, slots=True)
class Kind:
    """Records of one resource manager and type, such as `Heap/HOT_UPDATE`. Bytes include the images. `images` is also 0
    if they were not counted."""

    name: str
    records: int
    bytes: int
    image_bytes: int
    images: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """All WAL of so many seconds, including the pauses between slices.

    `bytes` are those of the records with their full-page images; `growth_bytes` also includes alignment and the headers
    of WAL pages. `kinds` (most bytes first) and `image_bytes` need pg_walinspect; without it they are empty and None.
    Images are those of the kinds if they were counted there, else the server's counter, which is up to a second late.
    """

    seconds: float
    records: int
    images: int
    bytes: int
    image_bytes: int | None
    growth_bytes: int
    kinds: tuple[Kind, ...]


def is_commit(kind: str) -> bool:
    """Whether records of this kind end a transaction that wrote something.

    >>> is_commit("Transaction/COMMIT"), is_commit("Transaction/ABORT")
    (True, False)
    """
    return kind.startswith("Transaction/COMMIT")


def commits(summary: Summary) -> list[tuple[int, int]]:
    """Microseconds of the trace, and the number of commits of writing transactions up to then, since the first of these
    times. Empty if unknown; two entries if only the total is known."""
    return until(summary, is_commit)


def until(summary: Summary, is_counted: Callable[[str], bool]) -> list[tuple[int, int]]:
    """The same for all records whose kind is counted."""
    stretches: dict[tuple[int, int], int] = {}
    for one in summary["wal"]:
        if is_counted(one["kind"]):
            stretch = one["start"], one["end"]
            stretches[stretch] = stretches.get(stretch, 0) + one["records"]
    found: list[tuple[int, int]] = []
    for (start, end), records in sorted(stretches.items()):
        if not found:
            found.append((start, 0))
        if end > found[-1][0]:
            found.append((end, found[-1][1] + records))
    return found


def written(summary: Summary) -> Written | None:
    """The sum of the trace's stretches of WAL; None without any, as in traces from before Octavo recorded them. If
    kinds are known of only some stretches, as at the ends of a part of a long trace, it is the sum of these."""
    whole = [one for one in summary["wal"] if not one["kind"]]
    if known := [one for one in summary["wal"] if one["kind"]]:
        start, end = min(one["start"] for one in known), max(one["end"] for one in known)
        whole = [one for one in whole if start <= one["start"] and one["end"] <= end] or whole
    if not whole:
        return None
    sums: dict[str, list[int]] = {}
    for one in summary["wal"]:
        if one["kind"]:
            values = one["records"], one["bytes"], one["full_page_image_bytes"], one["full_page_images"]
            known = sums.setdefault(one["kind"], [0, 0, 0, 0])
            sums[one["kind"]] = [before + more for before, more in zip(known, values, strict=True)]
    kinds = sorted((Kind(name, *values) for name, values in sums.items()), key=lambda kind: (-kind.bytes, kind.name))
    return Written(
        seconds=sum(one["end"] - one["start"] for one in whole) / 1e6,
        records=sum(one["records"] for one in whole),
        images=sum(kind.images for kind in kinds) or sum(one["full_page_images"] for one in whole),
        bytes=sum(one["bytes"] for one in whole),
        image_bytes=sum(kind.image_bytes for kind in kinds) if kinds else None,
        growth_bytes=sum(one["growth_bytes"] for one in whole),
        kinds=tuple(kinds),
    )
