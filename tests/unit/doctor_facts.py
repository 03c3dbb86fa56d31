"""Facts of the well-tuned host and what changes them, and a rule's result for them."""

import json
from pathlib import Path
from typing import Any

from octavo.doctor.engine import Result, examine
from octavo.doctor.facts import read_facts
from octavo.doctor.rules import RULES

kB, MB, GB = 1024, 1024**2, 1024**3
WELL_TUNED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "doctor_cases/well-tuned.json").read_text()
)["facts"]  # fmt: skip
SMALL_PAGES = {"setting.huge_pages": "try", "setting.huge_pages_status": "off", "host.process.huge_bytes": 0}
IDLE_LIVE: dict[str, Any] = {
    "live.device.reads_per_second": 100.0, "live.device.read_bytes_per_second": 1.0 * MB,
    "live.device.writes_per_second": 10.0, "live.device.written_bytes_per_second": 1.0 * MB,
    "live.server.reads_per_second": 100.0, "live.server.read_bytes_per_second": 800.0 * kB,
    "live.server.fetched_bytes_per_second": 800.0 * kB, "live.swapped_pages_per_second": 0.0,
    "live.server.long_transactions": False,
}  # fmt: skip
AMPLIFIED = IDLE_LIVE | {"live.server.fetched_bytes_per_second": 6.4 * MB, "host.memory.page_bytes": 64 * kB}
PREDICTED: dict[str, Any] = {
    "predict.is_settled": True, "predict.recorded_block_bytes": 8 * kB, "predict.block_bytes": 4 * kB,
    "predict.sentence": "4kB data blocks are predicted to give × 1.50.", "predict.cost": "dump and restore: 1 h",
    "predict.trace": "t.octrace",
}  # fmt: skip
KHUGEPAGED = {
    "host.thp.enabled": "madvise", "host.thp.khugepaged_pages_to_scan": 4096, "host.thp.khugepaged_pause_ms": 10_000,
}  # fmt: skip
BUSY: dict[str, Any] = IDLE_LIVE | {"live.device.busy_share": 0.99, "live.device.writes_per_second": 0.0}
EBS = {"host.device.model": "Amazon Elastic Block Store", "host.device.size_bytes": 200 * GB, **BUSY}
AZURE = {"host.device.vendor": "Msft", "host.device.model": "Virtual Disk", "host.device.size_bytes": 512 * GB,
         "host.platform": "azure", **BUSY}  # fmt: skip
GOOGLE = {"host.device.vendor": "Google", "host.device.model": "PersistentDisk", "host.device.size_bytes": 500 * GB,
          **BUSY}  # fmt: skip
RAID: dict[str, Any] = {
    "host.raid.name": "md0", "host.raid.level": "raid10", "host.raid.chunk_bytes": 512 * kB,
    "host.raid.stripe_bytes": 2 * MB, "host.fs.options": "rw,sunit=1024,swidth=4096",
}  # fmt: skip
SPOILT = IDLE_LIVE | {
    "host.device.readahead_bytes": 8 * MB, "live.server.fetched_bytes_per_second": 9.0 * MB,
    "live.server.scan_bytes_per_second": 0.0, "live.server.base_backups": 0,
    "live.server.temporary_bytes_per_second": 0.0,
}  # fmt: skip
CHECKPOINT = BUSY | {
    "setting.checkpoint_completion_target": 0.9, "live.server.checkpoint_bytes_per_second": 20.0 * MB,
    "live.server.checkpoint_dirtied_bytes_per_second": 21.0 * MB, "live.device.written_bytes_per_second": 22.0 * MB,
}  # fmt: skip
MANAGED: dict[str, Any] = {
    "server.managed": "Amazon RDS or Aurora: parameter group", "host.memory.page_bytes": {"unknown": "elsewhere"},
}  # fmt: skip
ELSEWHERE = {
    name: {"unknown": "the server runs on another host"} for name in ("host.process.count", "host.huge.pools")
}  # fmt: skip
STOPPED: dict[str, Any] = {
    "setting.huge_pages_status": {"unknown": "not read"},
    **{f"host.process.{name}": {"absent": "the server does not run"} for name in ("count", "huge_bytes")},
}  # fmt: skip
MUCH_WAL = {"server.wal.bytes": 200_000 * GB}
SMALL_READS = {"server.scans.read_bytes": 5 * 10**6 * 8 * kB, "setting.io_combine_limit": 8 * kB}
TWICE = {
    "setting.shared_buffers": 64 * GB, "server.buffers.used_bytes": 60 * GB, "server.buffers.in_page_cache_share": 0.8,
}  # fmt: skip


def pool(page: int = 2 * MB, total: int = 0, free: int = 0, reserved: int = 0, nodes: tuple[int, ...] = ()) -> Any:
    return {
        "page_bytes": page, "total": total, "free": free, "reserved": reserved, "surplus": 0, "overcommit": 0,
        "nodes": [{"node": at, "total": one, "free": 0, "surplus": 0} for at, one in enumerate(nodes)],
    }  # fmt: skip


def group(limit: int, used: int = 0, *, reservations: bool = False, page: int = 2 * MB, name: str = "x") -> Any:
    return {"page_bytes": page, "group": f"/sys/fs/cgroup/{name}", "name": "hugetlb.2MB.max", "limit_bytes": limit,
            "used_bytes": used, "reservations": reservations}  # fmt: skip


def result(rule: str, changes: dict[str, Any]) -> Result:
    (found,) = examine(read_facts(WELL_TUNED | changes), [RULES[rule]])
    return found


def fix(rule: str, changes: dict[str, Any]) -> list[str]:
    """The lines of a finding, for a running server."""
    lines: list[str] = result(rule, changes).as_dict()["fix"]
    return lines


def word(rule: str, changes: dict[str, Any]) -> str:
    found = result(rule, changes)
    return str(found.severity or found.status)
