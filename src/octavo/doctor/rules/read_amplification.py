"""Bytes that the server's processes fetched from storage, compared with the blocks that PostgreSQL requested, over a
few seconds."""

from octavo.doctor.amounts import least_read
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.kernel_page_lines import lines_for_smaller_pages
from octavo.units import human_size

_FEWEST = 50.0  # requests per second, below which the ratio is not meaningful
_MOST = 2.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    reads = asked.number("live.server.reads_per_second")
    if reads < _FEWEST:
        raise NotApplicableError(f"the server read almost nothing while it was observed ({reads:.0f} requests/s)")
    wanted = asked.number("live.server.read_bytes_per_second")
    fetched = asked.number("live.server.fetched_bytes_per_second")
    block, unit = asked.whole("setting.block_size"), least_read(asked)
    if fetched < _MOST * wanted:
        return Ok(f"{human_size(wanted)}/s requested, {human_size(fetched)}/s fetched from storage")
    # A transaction reports its reads when it ends: until then they are fetched but not counted as requested.
    if asked.flag("live.server.long_transactions"):
        raise UnknownError(
            f"a transaction runs longer than the {asked.number('live.seconds'):.0f} s observed, and PostgreSQL counts "
            "its reads only when it ends; try --interval 30s"
        )
    if unit <= block:  # base backups and temporary files are fetched, but not requested as blocks
        return Ok(
            f"{human_size(wanted)}/s of blocks requested, {human_size(fetched)}/s fetched; pages are not larger than "
            "blocks, so this is a base backup, temporary files or readahead: octavo iotop shows which process"
        )
    if asked.whole_or_none("live.server.base_backups"):
        raise UnknownError("a base backup runs: its reads are fetched, but not requested as blocks")
    files = asked.number_or_none("live.server.temporary_bytes_per_second") or 0.0
    for_blocks = fetched - files
    if for_blocks < _MOST * wanted:
        return Ok(
            f"{human_size(wanted)}/s of blocks requested, {human_size(fetched)}/s fetched, of which "
            f"{human_size(files)}/s may be temporary files"
        )
    fix, takes, _ = lines_for_smaller_pages(asked)
    # The server counts for all volumes, a disk only for itself.
    requests = None if asked.is_spread else asked.number_or_none("live.device.reads_per_second")
    served = asked.number_or_none("live.device.read_bytes_per_second")
    size = f"; the disk served {human_size(served / requests)} a request" if requests and served else ""
    return Finding(
        "warning",
        f"{human_size(wanted)}/s of blocks requested, {human_size(fetched)}/s fetched from storage{size}",
        f"{for_blocks / wanted:.1f} bytes are read for each useful one; with pages of {human_size(block)} or less "
        f"{human_size(for_blocks - wanted)}/s of the volume's throughput would be free",
        fix,
        takes,
        "octavo doctor --interval 10s",
    )


RULE = DoctorRule(
    "read-amplification",
    "How many bytes are read from storage for each that PostgreSQL requests?",
    "the server's processes fetched at least twice as much as PostgreSQL requested, beside temporary files and without "
    "a base backup, and pages are larger than blocks",
    "Franck Pachot, PostgreSQL on ARM (2022): 64 kB a request (rareq-sz) for reads of 8 kB; proc_pid_io(5), pg_stat_io",
    _judge,
    ("I/O request",),
    volumes=("tables",),
)
