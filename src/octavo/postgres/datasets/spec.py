"""The specification of a dataset: a load, and the build and WAL geometry of its copies."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.postgres.builds.cache import Build
from octavo.units import parse_size

# Incremented when the way of making loads changes, so that old loads are not compared with new ones.
_RECIPE = 3
# A word in the contents of a load that is not vacuumed: the first scan of a table still sets hint bits.
UNVACUUMED = ("vacuum", "none")
# The properties of a build on which a load's files depend. The WAL block is not among them.
_OF_THE_BUILD = ("version", "source_sha256", "data_block", "data_segment")


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """The properties that identify a dataset, besides its build: the workload's contents, the cluster's options, the
    load number.

    `wal_segment` and `recycled_wal` (WAL in segments that are ready for reuse) are in bytes. They concern the copies
    only: the load does not depend on them.
    """

    contents: tuple[tuple[str, str], ...]
    wal_segment: int
    recycled_wal: int
    checksums: bool
    load: int

    @property
    def recycled_segments(self) -> int:
        """The number of segments that a copy has ready for reuse; min_wal_size allows no fewer than two."""
        return max(2, self.recycled_wal // self.wal_segment)

    @property
    def recycled_bytes(self) -> int:
        """Their size in bytes of WAL."""
        return self.recycled_segments * self.wal_segment

    @property
    def wal_bytes(self) -> int:
        """The disk space of a copy's WAL before the trial: the segment in use and the recycled ones."""
        return self.recycled_bytes + self.wal_segment


@dataclass(frozen=True, slots=True)
class Dataset:
    """A finished load, in the form used by one cell.

    `directory` has the load's files without control file and WAL, so no server starts on it. `build` and `spec` are
    those of its copies.
    """

    name: str
    directory: Path
    manifest: dict[str, Any]
    build: Build
    spec: DatasetSpec

    @property
    def copy_bytes(self) -> int:
        """The disk space of a trial's copy when the trial begins."""
        return int(self.manifest["directory_bytes"]) + self.spec.wal_bytes


def load_name(build: Build, spec: DatasetSpec, settings: Mapping[str, str]) -> str:
    """The name of a load in the cache: readable, with a digest of everything that it depends on.

    Builds that differ in their WAL block, compiler or options share their loads.
    """
    facts = {
        "recipe": _RECIPE,
        "build": {name: build.manifest.get(name) for name in _OF_THE_BUILD},
        "settings": dict(settings),
        "contents": spec.contents,
        "checksums": spec.checksums,
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    block = parse_size(build.manifest["data_block"]) // 1024
    workload = dict(spec.contents).get("workload", "data")
    return f"{build.manifest['version']}-b{block}-{workload}-{key}-{spec.load}"
