"""The page stack of a server and its host, from facts: a row for each layer, and the findings that concern it."""

from collections.abc import Iterable, Sequence
from typing import Any

from octavo.doctor.engine import DoctorRule, Result
from octavo.doctor.facts import Fact, Facts
from octavo.units import format_size

_COMBINED = "setting.io_combine_limit"
# Layer, the fact that has its size, and facts that say more of it.
_LAYERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("CPU memory page", "host.memory.page_bytes", ()),
    ("huge page", "host.huge.default_page_bytes", ("setting.huge_pages", "setting.huge_pages_status")),
    ("transparent huge page", "", ("host.thp.enabled", "host.thp.defrag", "host.thp.shmem")),
    ("shared_buffers", "setting.shared_buffers", ()),
    ("data block", "setting.block_size", ()),
    ("WAL block", "setting.wal_block_size", ()),
    ("WAL segment", "setting.wal_segment_size", ()),
    ("I/O request", _COMBINED, ("setting.io_method",)),
    ("readahead", "host.device.readahead_bytes", ()),
    ("page-cache folio", "host.fs.least_folio_bytes", ("host.fs.large_folios",)),
    ("filesystem block", "host.fs.block_bytes", ("host.fs.type",)),
    ("largest device request", "host.device.largest_request_bytes", ()),
    ("device physical sector", "host.device.physical_sector_bytes", ("host.device.name", "host.device.model")),
    ("atomic write unit", "host.device.atomic_write_bytes", ()),
    ("RAID stripe", "host.raid.stripe_bytes", ("host.raid.name", "host.raid.level")),
)


def page_stack(facts: Facts, results: Sequence[Result], rules: Iterable[DoctorRule]) -> list[dict[str, Any]]:
    """`layer`, `size_bytes` (null where it is not known), `detail`, and `findings`: the rules that mark it."""
    layers = {rule.name: rule.layers for rule in rules}
    found = [result for result in results if result.status == "finding"]
    rows: list[dict[str, Any]] = []
    for layer, name, more in _LAYERS:
        fact = facts[name]
        if fact.absent and name == _COMBINED and facts["setting.block_size"].is_known:
            fact = Fact(name, facts["setting.block_size"].value, "a block, before PostgreSQL 17")
        size = fact.value if name and fact.is_known else None
        words = [f"{one.rpartition('.')[2]} {facts[one].value}" for one in more if facts[one].value is not None]
        if name and size is None:
            words.append(fact.unknown or fact.absent or "none")
        rows.append(
            {
                "layer": layer,
                "size_bytes": size,
                "value": format_size(size) if isinstance(size, int) and size else "–",
                "detail": ", ".join(words) or fact.source,
                "findings": [one.rule for one in found if layer in layers.get(one.rule, ())],
            }
        )
    return rows
