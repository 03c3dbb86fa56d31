"""The settings that are pinned for a fair comparison of block sizes (data: pinned.toml)."""

import functools
import tomllib
from importlib import resources
from typing import Any

from octavo.postgres.versions import major_of
from octavo.units import format_size, parse_size


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("octavo.postgres").joinpath("pinned.toml").read_text())


def pinned_settings(version: str, data_block: str) -> dict[str, str]:
    """The settings for this version (`18` or `18.6`) and data block that keep sizes equal in bytes at every block
    size."""
    major = major_of(version)
    table = _table()
    block = parse_size(data_block)
    settings: dict[str, str] = {}
    for name, entry in table["bytes"].items():
        if major >= entry.get("since", 0):
            most: int | None = entry.get("most_blocks", {}).get(str(major))
            value: str = entry["value"]
            settings[name] = value if most is None else format_size(min(parse_size(value), most * block))
    for name, entry in table["pages"].items():
        settings[name] = str(max(1, parse_size(entry["value"]) // block))
    return settings


def not_pinned() -> list[dict[str, str]]:
    """The settings that count pages and are not pinned, each with its reason."""
    return [{"name": name, "reason": reason} for name, reason in _table()["not_pinned"].items()]
