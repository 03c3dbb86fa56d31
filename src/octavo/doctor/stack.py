"""The page stack of a server and its host, from facts: one row per layer, with the findings that concern it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from octavo.doctor.engine import DoctorRule, Result
from octavo.doctor.facts import Fact, Facts
from octavo.doctor.storage_volumes import OF_A_VOLUME, ServerVolume, volumes_of
from octavo.units import format_size

_COMBINED = "setting.io_combine_limit"
# The layer, the fact with its size, and facts with details.
_Layer = tuple[str, str, tuple[str, ...]]
_LAYERS: tuple[_Layer, ...] = (
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
    """`layer`, `size_bytes` (null where it is not known), `detail`, and `findings`: the rules that mark it.

    Then the layers of other volumes whose size differs there from the data directory's, or which are marked.
    """
    layers = {rule.name: rule.layers for rule in rules}
    found = [result for result in results if result.status == "finding"]
    rows = _rows(facts, layers, found)
    sizes = {row["layer"]: row["size_bytes"] for row in rows}
    storage = [one for one in _LAYERS if one[1].startswith(OF_A_VOLUME)]
    for volume in volumes_of(facts["host.volumes"].value):
        if volume.number:
            rows += [
                {**row, "layer": f"{row['layer']}, {volume}"}
                for row in _rows(_Seen(facts, volume), layers, found, storage, volume.number)
                if row["findings"] or row["size_bytes"] not in (None, sizes[row["layer"]])
            ]
    return rows


class _Seen(Facts):
    """The facts, with those of one volume by their plain names."""

    def __init__(self, facts: Facts, volume: ServerVolume) -> None:
        super().__init__(facts.values())
        self._prefix = f"volume.{volume.number}."

    def __getitem__(self, name: str) -> Fact:
        return super().__getitem__(f"{self._prefix}{name}" if name.startswith(OF_A_VOLUME) else name)


def _rows(
    facts: Facts,
    layers: Mapping[str, tuple[str, ...]],
    found: Sequence[Result],
    of: Sequence[_Layer] = _LAYERS,
    number: int = 0,
) -> list[dict[str, Any]]:
    """The rows of the layers. Findings of this volume mark layers of storage, all findings mark the others."""

    def marks(result: Result, layer: str, name: str) -> bool:
        here = not result.volumes or any(volume.number == number for volume in result.volumes)
        return layer in layers.get(result.rule, ()) and (here or not name.startswith(OF_A_VOLUME))

    rows: list[dict[str, Any]] = []
    for layer, name, more in of:
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
                "findings": list(dict.fromkeys(one.rule for one in found if marks(one, layer, name))),
            }
        )
    return rows
