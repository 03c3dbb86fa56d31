"""The volumes that a server's files are on, in the form of facts, and the rules that are evaluated for each.

`host.volumes` is a list of them. The data directory's is the first, with the number 0, and its facts of storage have
plain names (`host.fs.type`). Those of number 1 begin with `volume.1.` (`volume.1.host.fs.type`), as do its tablespaces'
own settings (`volume.1.setting.random_page_cost`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from octavo.text import one_line

Content = Literal["tables", "WAL"]
# The prefix of a volume's own facts.
OF_A_VOLUME = ("host.fs.", "host.device.", "host.raid.", "live.device.")
DATA, WAL = "data directory", "pg_wal"
MOST = 16
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ServerVolume:
    """A filesystem: its mount point, a description of the server's files on it, and its tablespaces by name.

    Tablespaces of one filesystem with their own planner settings form a volume of their own.
    """

    number: int
    mount: str
    holds: tuple[str, ...]
    contents: frozenset[Content]
    tablespaces: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The volume as text: `/wal (pg_wal)`."""
        named, more = self.holds[:_MOST_NAMED], len(self.holds) - _MOST_NAMED
        return one_line(f"{self.mount} ({', '.join(named)}{f' and {more} more' if more > 0 else ''})")

    def as_dict(self) -> dict[str, Any]:
        """The volume for JSON."""
        return {"mount": self.mount, "holds": list(self.holds)}


def as_row(volume: ServerVolume) -> dict[str, Any]:
    """An entry of `host.volumes`."""
    return {
        "number": volume.number, "mount": volume.mount, "holds": list(volume.holds),
        "contents": sorted(volume.contents), "tablespaces": list(volume.tablespaces),
    }  # fmt: skip


def volumes_of(value: Any) -> list[ServerVolume]:
    """Parses a value of `host.volumes`, which may be anything. Empty unless it includes the data directory's volume."""
    found: dict[int, ServerVolume] = {}
    for row in cast("list[Any]", value)[:MOST] if isinstance(value, list) else []:
        if isinstance(row, dict) and (one := _volume(cast("dict[str, Any]", row))) is not None:
            found.setdefault(one.number, one)
    return list(found.values()) if 0 in found else []


def _volume(row: Mapping[str, Any]) -> ServerVolume | None:
    number, mount = row.get("number"), row.get("mount")
    holds, contents, spaces = (_words(row.get(name, [])) for name in ("holds", "contents", "tablespaces"))
    if isinstance(number, bool) or not isinstance(number, int) or not isinstance(mount, str) or not holds:
        return None
    kinds: tuple[Content, ...] = ("tables", "WAL")
    return ServerVolume(number, mount, holds, frozenset(kind for kind in kinds if kind in contents), spaces)


def _words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, cast("list[Any]", value))) if isinstance(value, list) else ()
