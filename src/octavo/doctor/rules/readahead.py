"""The kernel's readahead against what reads here: sequential scans that need it, random reads that it makes larger."""

from octavo.doctor.amounts import least_read, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok, Severity
from octavo.doctor.facts import RuleFacts
from octavo.units import human_size

_DEFAULT, _SCAN = 128 * 1024, 100 * 1024**2
_ITSELF, _ASYNCHRONOUS = 170000, 180000  # io_combine_limit; io_method
_FEWEST, _MOST, _SCANS = 50.0, 2.0, 0.20


def _judge(asked: RuleFacts) -> Ok | Finding:
    ahead, version = asked.whole("host.device.readahead_bytes"), asked.whole("server.version_number")
    too_much = _spoils(asked, ahead)
    if too_much is not None:
        return too_much
    block = asked.whole("setting.block_size")
    request = asked.whole("setting.io_combine_limit") if version >= _ITSELF else block
    if ahead >= 2 * request:
        return Ok(f"readahead {human_size(ahead)}")
    if version >= _ASYNCHRONOUS and asked.text("setting.io_method") != "sync":
        return Ok(f"readahead {human_size(ahead)}; io_method = {asked.text('setting.io_method')} reads ahead itself")
    return _finding(
        asked,
        "warning" if version < _ITSELF else "note",
        f"readahead is {human_size(ahead)}, and a sequential scan waits for each request of {human_size(request)}",
        f"a scan of 100 MB/s makes {_SCAN // max(request, ahead):,} requests/s, one after the other; with 128 kB read "
        "ahead "
        f"{_SCAN // max(request, _DEFAULT):,}, while the backend works on what came before",
        2 * max(request, _DEFAULT // 2),
    )


def _spoils(asked: RuleFacts, ahead: int) -> Finding | None:
    """Much more is fetched than is asked for, by reads that are no large scans, where pages are not the reason."""
    reads, wanted = (asked.number_or_none(f"live.server.{name}_per_second") for name in ("reads", "read_bytes"))
    fetched, scans = (
        asked.number_or_none(f"live.server.{name}_per_second") for name in ("fetched_bytes", "scan_bytes")
    )
    if reads is None or wanted is None or fetched is None or scans is None or reads < _FEWEST or ahead <= _DEFAULT:
        return None
    others = (
        asked.whole_or_none("live.server.base_backups"),
        asked.number_or_none("live.server.temporary_bytes_per_second"),
    )
    # What a transaction has read is reported when it ends: until then it was fetched and not asked for.
    if (
        others != (0, 0.0)
        or not asked.has("live.server.long_transactions")
        or asked.flag("live.server.long_transactions")
    ):
        return None
    if fetched < _MOST * wanted or scans > _SCANS * wanted or least_read(asked) > asked.whole("setting.block_size"):
        return None
    return _finding(
        asked,
        "note",
        f"readahead is {human_size(ahead)}; {human_size(wanted)}/s of blocks were asked for "
        f"({percent(scans / wanted)} by "
        f"large scans), {human_size(fetched)}/s were fetched",
        f"{human_size(fetched - wanted)}/s of the disk's throughput are read ahead and not used: "
        f"{fetched / wanted:.1f} bytes "
        "for each useful one, and as much page cache",
        _DEFAULT,
    )


def _finding(asked: RuleFacts, severity: Severity, seen: str, cost: str, better: int) -> Finding:
    name = asked.text("host.device.name")
    file = f"/sys/block/{name}/queue/read_ahead_kb"
    return Finding(
        severity,
        seen,
        cost,
        (
            f"echo {better // 1024} > {file}",
            "# to keep it, in /etc/udev/rules.d/60-readahead.rules:",
            f'ACTION=="add|change", KERNEL=="{name}", ATTR{{queue/read_ahead_kb}}="{better // 1024}"',
        ),
        "now",
        f"cat {file}",
    )


RULE = DoctorRule(
    "readahead",
    "Does the kernel's readahead fit what reads here?",
    "it is less than two requests of a sequential scan, which waits for each of them (before 18, or io_method = sync); "
    "or it "
    "is more than 128 kB, and twice as much was fetched as was asked for, little of that by large scans",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): 100 MB/s are 12,500 IOPS of 8 kB, 781 of 128 kB; "
    "PostgreSQL src/backend/storage/aio/read_stream.c (sequential reads are left to the kernel's readahead); kernel "
    "mm/readahead.c",
    _judge,
    ("readahead",),
)
