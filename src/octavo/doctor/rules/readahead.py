"""The kernel's readahead against the reads here: sequential scans that need it, random reads that it enlarges."""

from octavo.doctor.amounts import least_read, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok, Severity
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.units import human_size

_DEFAULT, _SCAN = 128 * 1024, 100 * 1024**2
_ITSELF, _ASYNCHRONOUS = 170000, 180000  # io_combine_limit; io_method
_FEWEST, _MOST, _SCANS = 50.0, 2.0, 0.20


def _judge(asked: RuleFacts) -> Ok | Finding:
    if "data" in (asked.text_or_none("setting.debug_io_direct") or ""):
        raise NotApplicableError("debug_io_direct = data: no page cache is used")
    ahead, version = asked.whole("host.device.readahead_bytes"), asked.whole("server.version_number")
    block, page = asked.whole("setting.block_size"), asked.whole("host.memory.page_bytes")
    request = asked.whole("setting.io_combine_limit") if version >= _ITSELF else block
    if ahead < page:
        # Without readahead a read fetches its pages one by one (page_cache_sync_ra), whichever process makes it.
        return _finding(
            asked,
            "warning",
            f"readahead is {human_size(ahead)}, less than a memory page: the kernel reads {human_size(page)} at a time",
            f"a read of {human_size(max(request, page))} is {max(1, request // page)} requests, one after the other; a "
            f"scan of 100 MB/s makes {_SCAN // page:,} requests/s, with 128 kB read ahead {_SCAN // _DEFAULT:,}",
            _DEFAULT,
        )
    too_much = _spoils(asked, ahead)
    if too_much is not None:
        return too_much
    # With large requests a window of one request is enough: its first page makes the kernel fetch the next window.
    if ahead >= (request if version >= _ITSELF else 2 * request):
        return Ok(f"readahead {human_size(ahead)}")
    if version >= _ASYNCHRONOUS and asked.text("setting.io_method") != "sync":
        return Ok(f"readahead {human_size(ahead)}; io_method = {asked.text('setting.io_method')} reads ahead itself")
    return _finding(
        asked,
        "warning" if version < _ITSELF else "note",
        f"readahead is {human_size(ahead)}, and a sequential scan waits for each request of {human_size(request)}",
        f"a scan of 100 MB/s makes {_SCAN // max(request, ahead):,} requests/s, one after the other; with 128 kB read "
        f"ahead {_SCAN // max(request, _DEFAULT):,}, while the backend works on what came before",
        max(request, _DEFAULT),
    )


def _spoils(asked: RuleFacts, ahead: int) -> Finding | None:
    """The finding if reads other than large scans fetch much more than they request, not because of the page size."""
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
    # A transaction reports its reads when it ends: until then they are fetched but not counted as requested.
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
        f"readahead is {human_size(ahead)}; {human_size(wanted)}/s of blocks were requested "
        f"({percent(scans / wanted)} by large scans), {human_size(fetched)}/s were fetched",
        f"{human_size(fetched - wanted)}/s of the disk's throughput are read ahead and not used: "
        f"{fetched / wanted:.1f} bytes for each useful one, and as much page cache",
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
            *on_the_host(asked),
            f"echo {better // 1024} > {file}",
            "# to keep it, in /etc/udev/rules.d/60-readahead.rules:",
            f'ACTION=="add|change", KERNEL=="{name}", ATTR{{queue/read_ahead_kb}}="{better // 1024}"',
        ),
        "now, for files that are opened from then on: new connections",
        f"cat {file}",
    )


RULE = DoctorRule(
    "readahead",
    "Does the kernel's readahead fit this server's reads?",
    "it is less than a memory page; or so small that a sequential scan waits for each request (less than two blocks "
    "before 17, less than io_combine_limit in 17 and with io_method = sync); or more than 128 kB, and twice as much "
    "was fetched as was requested, little of that by large scans",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): 100 MB/s are 12,500 IOPS of 8 kB, 781 of 128 kB; "
    "PostgreSQL src/backend/storage/aio/read_stream.c (sequential reads are left to the kernel's readahead); kernel "
    "mm/readahead.c (without readahead one page at a time; when the next window is read)",
    _judge,
    ("readahead",),
    volumes=("tables",),
)
