"""Space for a new load: the cache's limit, the disk, and eviction of the least recently used loads to stay within
both."""

import shutil
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, write_durably
from octavo.host.journal import Journal
from octavo.postgres.datasets import cache
from octavo.postgres.datasets.cache import datasets_directory, list_loads
from octavo.units import format_size, human_size, parse_size

# Always left free, for the store and logs, and because a completely full filesystem becomes slow.
_SPARE_BYTES = 256 * 1024**2
_MB = 1024**2


def chosen_limit() -> int | None:
    """The limit in bytes that the user has set, or None."""
    try:
        return parse_size(_limit_path().read_text().strip())
    except FileNotFoundError:
        return None


def default_limit(made: int = 0) -> int:
    """Half of the datasets' size plus the free disk space, in bytes.

    `made`: the size of a load that is on the disk, but not in the cache yet.
    """
    return (_taken() + made + free_bytes()) // 2


def limit(made: int = 0) -> int:
    """The limit on the datasets' total size, in bytes; `made` as in `default_limit`."""
    chosen = chosen_limit()
    return default_limit(made) if chosen is None else chosen


def set_limit(size: int | None) -> None:
    """Stores the limit in bytes; None restores the default."""
    make_directory(datasets_directory())
    if size is None:
        _limit_path().unlink(missing_ok=True)
    else:
        write_durably(_limit_path(), format_size(size))


def available() -> int:
    """The total size that datasets could have, in bytes, if all present ones were removed: by limit and disk."""
    return min(limit(), available_on_disk())


def available_on_disk() -> int:
    """The same by the disk alone."""
    return _taken() + free_bytes() - _SPARE_BYTES


def how_to_have(size: int) -> str:
    """How datasets can have this total size, in bytes: more free disk space, a higher limit, or both; empty if they
    can already."""
    found: list[str] = []
    if size > available_on_disk():
        found.append(f"free {human_size(size - available_on_disk())} of disk space in {datasets_directory()}")
    if size > limit():
        found.append(f"set the limit with octavo cache limit {format_size(-(-size // _MB) * _MB)}")
    return " and ".join(found)


def make_room(name: str, size: int, meanwhile: int, journal: Journal, *, made: bool = False) -> list[str]:
    """Frees space for a load of about `size` bytes that needs `meanwhile` bytes while it is made.

    `made`: the load is on the disk already, and not yet in the cache.

    Removes loads that no process holds, least recently used first, until limit and disk suffice; returns their names.
    Raises HostError when they do not, before anything is loaded, and then removes nothing.
    """
    free, taken, most = free_bytes(), _taken(), limit(size) if made else limit()
    going: list[cache.Load] = []
    for load in sorted(list_loads(), key=lambda load: load.last_used):
        if taken + size <= most and free >= meanwhile + _SPARE_BYTES:
            break
        if not cache.is_used(load.name):
            going.append(load)
            free += load.size
            taken -= load.size
    if free < meanwhile + _SPARE_BYTES:
        raise HostError(
            f"{datasets_directory()} has {human_size(free_bytes())} free, loading {name} needs about "
            f"{human_size(meanwhile + _SPARE_BYTES)}; free space there, or load less"
        )
    if taken + size > most:
        raise HostError(
            f"the datasets in use take {human_size(taken)}, {name} will take about {human_size(size)}, the limit is "
            f"{human_size(most)}; raise it with octavo cache limit, or load less"
        )
    removed: list[str] = []
    for load in going:
        with suppress(OctavoError):  # another process has begun to use it
            cache.remove(load, journal)
            removed.append(load.name)
    return removed


def _limit_path() -> Path:
    return datasets_directory() / "limit"


def _taken() -> int:
    return sum(load.size for load in list_loads())


def free_bytes() -> int:
    """The free space of the disk of datasets and copies."""
    return shutil.disk_usage(make_directory(datasets_directory())).free
