"""The volumes, besides the data directory's, that a server's files are on: tablespaces, and pg_wal.

The server's user decides where they lead. Nothing is opened there: only stat(2) and statvfs(2) are used, on links
resolved step by step, and never into a filesystem that a user mounted, which may block forever.
"""

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from octavo.doctor.collect.storage import counted_disk, pg_wal_elsewhere, storage_facts
from octavo.doctor.facts import Fact
from octavo.doctor.storage_volumes import DATA, MOST, WAL, Content, ServerVolume, as_row
from octavo.errors import HostError
from octavo.home import resolve_by_steps
from octavo.host.kernel_text import shown
from octavo.host.mounts import mount_of
from octavo.host.owner import mounted_by_users

TABLESPACES = "server.tablespaces"
DEFAULT = "pg_default"
_OF_ALL = "pg_global"
_MOST_LINKS = 1000
_OF_DATA_DIRECTORY = "host.fs.wal_elsewhere"
# The planner and read options of a tablespace (ALTER TABLESPACE), and how they are parsed.
OPTIONS: Mapping[str, type[int] | type[float]] = {
    "random_page_cost": float, "seq_page_cost": float, "effective_io_concurrency": int,
}  # fmt: skip
_Options = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class _Space:
    """A tablespace: its name, which only the server knows, its location, and its own settings."""

    name: str | None
    location: str
    title: str
    options: _Options = ()


@dataclass(slots=True)
class _Found:
    """A volume: a path on it, or why there is none."""

    path: Path
    options: _Options = ()
    problem: str = ""
    holds: list[str] = field(default_factory=list[str])
    contents: set[Content] = field(default_factory=set[Content])
    tablespaces: list[str] = field(default_factory=list[str])


def volume_facts(
    directory: Path, told: Fact | None, root: Path = Path("/")
) -> tuple[list[Fact], dict[int, str | None]]:
    """`host.volumes`, and the storage of each volume except the data directory's; and by number the disk that counts
    its requests, None if there is none.

    `told` is `server.tablespaces`. If the server does not list them, the links in pg_tblspc are used.
    """
    try:
        device, users = directory.stat().st_dev, {mount.target for mount, _ in mounted_by_users()}
        spaces, source = _spaces(directory, told)
    except OSError:  # storage_facts has the reason
        return [], {}
    own = next((space.options for space in spaces if space.name == DEFAULT), ())
    found: dict[Any, _Found] = {(device, own): _Found(directory, own, holds=[DATA], contents={"tables"})}

    def add(path: Path, options: _Options, title: str, content: Content) -> _Found:
        try:
            place = _reached(path, users)
            key: Any = (place.stat().st_dev, options)
        except (OSError, HostError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            key, place, one = str(path), path, _Found(path, options, f"{shown(str(path))}: {reason}")
        else:
            # WAL is not affected by planner settings: it belongs to whatever is on the same filesystem.
            key = key if content == "tables" else next((other for other in found if other[0] == key[0]), key)
            one = _Found(place, options)
        one = found.setdefault(key, one)
        one.holds.append(title)
        one.contents.add(content)
        return one

    elsewhere = pg_wal_elsewhere(directory, root)
    if elsewhere.value:
        add(directory / "pg_wal", (), WAL, "WAL")
    else:
        found[device, own].contents.add("WAL")
    for space in spaces:
        if space.location and space.name not in (DEFAULT, _OF_ALL):
            one = add(directory / space.location, space.options, space.title, "tables")
            if space.name is not None:
                one.tablespaces.append(space.name)
    return _facts(list(found.values()), f"{source}; {elsewhere.source or elsewhere.unknown}", root)


def _facts(found: list[_Found], source: str, root: Path) -> tuple[list[Fact], dict[int, str | None]]:
    more = len(found) - MOST
    facts: list[Fact] = []
    rows: list[dict[str, Any]] = []
    disks: dict[int, str | None] = {}
    for number, one in enumerate(found[:MOST]):
        mount = shown(str(one.path if one.problem else _mounted_at(one.path, root)))
        volume = ServerVolume(number, mount, tuple(one.holds), frozenset(one.contents), tuple(one.tablespaces))
        rows.append(as_row(volume))
        before = f"volume.{number}."
        facts += [
            Fact(f"{before}setting.{name}", value, "pg_tablespace: spcoptions") for name, value in one.options
        ]  # fmt: skip
        if number == 0:
            continue
        if one.problem:
            facts.append(Fact(before, unknown=one.problem))
            continue
        facts += [
            replace(fact, name=f"{before}{fact.name}")
            for fact in storage_facts(one.path, root)
            if fact.name != _OF_DATA_DIRECTORY
        ]
        disks[number] = counted_disk(one.path, root / "sys")
    if more > 0:
        source = f"{source}; {more} more volumes are not examined"
    return [Fact("host.volumes", rows, source), *facts], disks


def _mounted_at(path: Path, root: Path) -> Path:
    try:
        mount = mount_of(path, root / "proc/self/mountinfo")
    except OSError:
        return path
    return mount.target if mount else path


def _reached(path: Path, users: set[Path]) -> Path:
    """The path with links resolved. Raises HostError if it leads into a filesystem that a user mounted, which may
    block."""

    def look(step: Path) -> None:
        if step in users:
            raise HostError(f"{shown(str(step))} is a filesystem that a user mounted, which is not examined")

    return resolve_by_steps(path, look, shown(str(path)))


def _spaces(directory: Path, told: Fact | None) -> tuple[list[_Space], str]:
    if told is not None and isinstance(told.value, list):
        rows = [cast("dict[str, Any]", row) for row in cast("list[Any]", told.value)]
        return [
            _Space(
                str(row["name"]),
                str(row["location"]),
                f"tablespace {row['name']}",
                tuple(sorted((name, value) for name, value in row["options"].items())),
            )
            for row in rows
        ], told.source
    return list(_links(directory)), f"{shown(str(directory))}/pg_tblspc"


def _links(directory: Path) -> Iterable[_Space]:
    """The links of a server that is not queried, each with the tablespace's OID as its name. Empty without access to
    the data directory."""
    try:
        place = os.open(directory / "pg_tblspc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_LINKS)]
        found: list[_Space] = []
        for name in sorted(names):
            if name.isdecimal() and len(name) <= 10:
                try:
                    found.append(_Space(None, os.readlink(name, dir_fd=place), f"tablespace {name}"))
                except OSError:  # an in-place tablespace, or dropped
                    continue
        return found
    finally:
        os.close(place)
