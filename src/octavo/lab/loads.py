"""The loads that a run's cells need: their number and size. They are made when their round begins."""

from collections.abc import Collection

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.knobs import device
from octavo.plan.cells import Cell, load_of
from octavo.plan.model import Plan
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import cache, disk_space
from octavo.postgres.datasets.load import ensure_dataset, find_dataset, load_bytes
from octavo.postgres.datasets.spec import Dataset, DatasetSpec, load_name
from octavo.postgres.pinned import pinned_settings
from octavo.units import human_size, parse_size
from octavo.workloads.base import FillsAlike, Levels, Workload


def dataset_spec(workload: Workload, levels: Levels, load: int) -> DatasetSpec:
    """The dataset that a cell needs for a load."""
    return DatasetSpec(
        workload.contents(levels),
        wal_segment=parse_size(levels["wal_segment"]),
        recycled_wal=parse_size(levels["recycled_wal"]),
        checksums=levels["checksums"] == "on",
        load=load,
    )


def loads_of(cell: Cell, plan: Plan) -> list[int]:
    """The loads that a cell will use in this plan; all of them if only a budget ends its rounds."""
    rounds = plan.last_round or max(plan.rounds, plan.loads)
    return sorted({load_of(cell, round_number, plan.loads) for round_number in range(1, rounds + 1)})


def bytes_of_load(workload: Workload, levels: Levels) -> int:
    """The approximate size of a load of this cell in the cache, in bytes, before it exists."""
    return load_bytes(workload.database_bytes(levels))


def bytes_copied(workload: Workload, levels: Levels) -> int:
    """The approximate number of bytes that a trial copies: the load and the WAL that is ready for reuse."""
    return bytes_of_load(workload, levels) + dataset_spec(workload, levels, 1).wal_bytes


def bytes_of_copy(workload: Workload, levels: Levels) -> int:
    """The approximate disk space of a trial's copy in addition to the cache, in bytes: the copy, or the volume that
    holds it."""
    copied = bytes_copied(workload, levels)
    wal = dataset_spec(workload, levels, 1).wal_bytes
    return device.volume_bytes(copied + wal) if device.needs_volume(levels) else copied


def room_for_loads(workload: Workload, cells: Collection[Cell]) -> int:
    """The bytes that the loads may take together, in addition to the largest copy of a trial."""
    return disk_space.available() - _largest_copy(workload, cells)


def way_out_of_room(workload: Workload, cells: Collection[Cell], needed: int) -> str:
    """What limits these cells' loads, and how they can have `needed` bytes: the end of a message."""
    copy = _largest_copy(workload, cells)
    limit, free = human_size(disk_space.limit()), human_size(disk_space.free_bytes())
    limits = f"the cache's limit is {limit}, {free} of disk space is free, and a trial's copy takes {human_size(copy)}"
    # A run that has trials keeps the room that it had at its first one.
    how = disk_space.how_to_have(needed + copy) or "there is more room than at the start of this run: start another one"
    return f" ({limits}); {how}"


def _largest_copy(workload: Workload, cells: Collection[Cell]) -> int:
    return max(bytes_of_copy(workload, cell.levels) for cell in cells)


def find_load(build: Build, workload: Workload, levels: Levels, load: int) -> Dataset | None:
    """The load, grafted for this cell, if it is in the cache. It is kept there until it is released."""
    return find_dataset(build, dataset_spec(workload, levels, load), _settings(build, levels))


def identity_of_load(build: Build, workload: Workload, levels: Levels, load: int) -> tuple[str, str] | None:
    """The name and the identity of the load if it is in the cache. It may be removed afterwards."""
    found = cache.read_load(load_name(build, dataset_spec(workload, levels, load), _settings(build, levels)))
    return None if found is None else (found.name, found.identity)


def make_load(
    build: Build, workload: Workload, levels: Levels, load: int, journal: Journal, account: Account
) -> Dataset:
    """The load, made now if it is not in the cache: from the first load, if the workload fills all loads alike.

    Raises OctavoError, or HostError without disk space.
    """

    def fill(server: Server) -> None:
        server.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        workload.fill(server, levels, load)

    held = cache.held()
    first = None
    if is_copied(workload, levels, load) and find_load(build, workload, levels, load) is None:
        first = make_load(build, workload, levels, 1, journal, account)
    spec = dataset_spec(workload, levels, load)
    size = workload.database_bytes(levels)
    settings = _settings(build, levels)
    made = ensure_dataset(build, spec, fill, settings, journal, account, database_bytes=size, first=first)
    if first is not None and first.name not in held:
        cache.release(first.name)
    return made


def is_copied(workload: Workload, levels: Levels, load: int) -> bool:
    """Whether the load is made from the first one."""
    return load > 1 and isinstance(workload, FillsAlike) and workload.fills_alike(levels)


def keep_only(datasets: Collection[Dataset]) -> None:
    """Releases every other load: if space is needed they may be removed, the least recently used first."""
    kept = {dataset.name for dataset in datasets}
    for name in cache.held():
        if name not in kept:
            cache.release(name)


def _settings(build: Build, levels: Levels) -> dict[str, str]:
    """The settings for making a cell's loads."""
    return pinned_settings(build.manifest["version"], levels["data_block"])
