"""The control file's counters from pg_controldata, and the arguments by which pg_resetwal continues from them."""

import re
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.units import parse_size

# The largest WAL segment. A position that is a multiple of it begins a segment of any size.
_LARGEST_SEGMENT = parse_size("1GB")


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a cluster, from which a new control file and WAL must continue (pg_control.h, CheckPoint).

    `position` is the byte position (LSN) of the last checkpoint; no page has a later one after a clean shutdown.
    `next_xid` has no epoch.
    """

    timeline: int
    position: int
    epoch: int
    next_xid: int
    next_oid: int
    next_multixact: int
    next_offset: int
    oldest_xid: int
    oldest_multixact: int
    oldest_commit_timestamp: int
    newest_commit_timestamp: int


def read(build: Build, directory: Path, journal: Journal, account: Account) -> Counters:
    """Reads the counters of a cleanly shut down data directory with the build's own pg_controldata.

    Raises OctavoError when they cannot be read or the cluster was not shut down.
    """
    finished = children.run(
        [build.program("pg_controldata"), directory], journal, role="pg_controldata", account=account
    )
    return parse(children.check(finished, "pg_controldata").stdout)


def parse(text: str) -> Counters:
    """Parses pg_controldata's output. Raises OctavoError when a counter is missing.

    The output is in the C locale, which children use.
    """
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}

    def value(key: str, pattern: str = r"\d{1,19}") -> str:
        found = values.get(key, "")
        if not re.fullmatch(pattern, found):
            raise OctavoError(f"pg_controldata: cannot read {key!r}: {found[:40] or 'no such line'}")
        return found

    def checkpoint(name: str) -> int:
        return int(value(f"Latest checkpoint's {name}"))

    if (state := values.get("Database cluster state")) != "shut down":
        raise OctavoError(f"the cluster was not shut down cleanly; its state is {state or 'unknown'}")
    high, low = value("Latest checkpoint location", r"[0-9A-F]{1,8}/[0-9A-F]{1,8}").split("/")
    epoch, next_xid = value("Latest checkpoint's NextXID", r"\d{1,10}:\d{1,10}").split(":")
    return Counters(
        timeline=checkpoint("TimeLineID"),
        position=int(high, 16) << 32 | int(low, 16),
        epoch=int(epoch),
        next_xid=int(next_xid),
        next_oid=checkpoint("NextOID"),
        next_multixact=checkpoint("NextMultiXactId"),
        next_offset=checkpoint("NextMultiOffset"),
        oldest_xid=checkpoint("oldestXID"),
        oldest_multixact=checkpoint("oldestMultiXid"),
        oldest_commit_timestamp=checkpoint("oldestCommitTsXid"),
        newest_commit_timestamp=checkpoint("newestCommitTsXid"),
    )


def position_after(counters: Counters) -> int:
    """The begin of the new WAL: beyond every page, and at a segment boundary of every segment size.

    One segment of the largest size is skipped, because it has the WAL of a new cluster, which pg_resetwal skips as
    well.
    """
    return (counters.position // _LARGEST_SEGMENT + 2) * _LARGEST_SEGMENT


def wal_file(timeline: int, position: int, segment: int) -> str:
    """The name of the WAL file that holds a position (xlog_internal.h, XLogFileName). Sizes in bytes.

    >>> wal_file(1, 0x40000000, 16 * 1024**2), wal_file(1, 5 * 1024**3, 1024**3)
    ('000000010000000000000040', '000000010000000100000001')
    """
    number = position // segment
    in_one_id = 2**32 // segment
    return f"{timeline:08X}{number // in_one_id:08X}{number % in_one_id:08X}"


def reset_arguments(counters: Counters, segment: int) -> list[str]:
    """The arguments with which pg_resetwal makes a control file that continues from the load's. `segment` in bytes."""
    arguments = [
        f"--epoch={counters.epoch}",
        f"--next-transaction-id={counters.next_xid}",
        f"--oldest-transaction-id={counters.oldest_xid}",
        f"--next-oid={counters.next_oid}",
        f"--multixact-ids={counters.next_multixact},{counters.oldest_multixact}",
        f"--multixact-offset={counters.next_offset}",
        f"--next-wal-file={wal_file(counters.timeline, position_after(counters), segment)}",
    ]
    if counters.oldest_commit_timestamp:
        stamps = f"{counters.oldest_commit_timestamp},{counters.newest_commit_timestamp}"
        arguments.append(f"--commit-timestamp-ids={stamps}")
    return arguments


def check_continues(after: Counters, before: Counters, segment: int) -> None:
    """Raises OctavoError when the counters of a graft do not continue from its load's. `segment` in bytes."""
    kept = (
        "epoch", "next_xid", "next_oid", "next_multixact", "next_offset", "oldest_xid", "oldest_multixact",
        "oldest_commit_timestamp", "newest_commit_timestamp",
    )  # fmt: skip
    for name in kept:
        if getattr(after, name) != getattr(before, name):
            raise OctavoError(
                f"grafting lost the load's {name.replace('_', ' ')}: "
                f"{getattr(before, name)} before, {getattr(after, name)} after"
            )
    wanted = position_after(before)
    if not wanted < after.position < wanted + segment:
        raise OctavoError(f"grafting put the WAL at byte {after.position}, not into the segment from {wanted} on")
