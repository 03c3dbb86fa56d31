"""Data checksums."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import service_of
from octavo.units import human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.flag("setting.data_checksums"):
        return Ok("data_checksums = on")
    if service_of(asked):
        raise NotApplicableError("data_checksums = off, and the files of a managed service are out of reach")
    size = asked.whole_or_none("server.databases_bytes")
    much = f"; databases: {human_size(size)}" if size is not None else ""
    block = human_size(asked.whole("setting.block_size"))
    return Finding(
        "note",
        "data_checksums = off",
        f"a block of {block} that the storage has corrupted is not detected when it is read{much}",
        (
            "# standbys too, all stopped at once: pg_rewind copies blocks from one to another",
            "pg_ctl stop",
            "pg_checksums --enable --progress -D DATA_DIRECTORY   # reads and writes every block",
        ),
        "restart",
        "SHOW data_checksums;",
    )


RULE = DoctorRule(
    "checksums",
    "Are corrupted blocks detected when they are read?",
    "data_checksums is off (on by default from 18 on)",
    "PostgreSQL's manual, Data Checksums and pg_checksums",
    _judge,
)
