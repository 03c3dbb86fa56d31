"""The server settings of a cell: those pinned in bytes, the workload's, the plan's, the levels', and the buffers of
equal memory."""

from collections.abc import Mapping
from pathlib import Path

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.knobs import huge_pages
from octavo.lab.equal_memory import buffers_within
from octavo.lab.loads import dataset_spec
from octavo.plan.model import Plan
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.pinned import pinned_settings
from octavo.units import parse_size
from octavo.workloads.base import Levels, PinsSettings, Workload


class CellSettings:
    """Computes the settings, and has a build's own server check them without starting."""

    def __init__(self, plan: Plan, workload: Workload, journal: Journal, account: Account) -> None:
        self._plan = plan
        self._workload = workload
        self._journal = journal
        self._account = account
        self._buffers: dict[tuple[object, ...], str] = {}  # shared_buffers of equal memory

    def of(self, build: Build, levels: Levels, directory: Path) -> dict[str, str]:
        """The settings by name. `directory`: a data directory of the build, for values that only its server can
        compute."""
        pinned = pinned_settings(build.manifest["version"], levels["data_block"])
        # Recycle the warm-up's WAL instead of removing it, so that the trial begins with the whole supply.
        supply = {"min_wal_size": f"{dataset_spec(self._workload, levels, 1).recycled_bytes // 1024**2}MB"}
        own = self._workload.settings if isinstance(self._workload, PinsSettings) else None
        chosen = {**(own or {}), **self._plan.settings_at(levels)}
        settings = {**pinned, **supply, **huge_pages.settings(levels["huge_pages"]), **chosen}
        return {**settings, "shared_buffers": self._shared_buffers(build, levels, settings, directory)}

    def ask(self, build: Build, levels: Levels, directory: Path, name: str) -> str:
        """The value of a setting in the cell's server. Raises UsageError naming a setting that the server refuses."""
        settings = self.of(build, levels, directory)
        return cluster.would_have(build, directory, settings, name, self._journal, self._account)

    def _shared_buffers(self, build: Build, levels: Levels, settings: Mapping[str, str], directory: Path) -> str:
        """The level, or with equal memory the buffers that leave room for the rest of shared memory."""
        asked = levels["shared_buffers"]
        if levels["equal"] == "buffers":
            return asked
        key = (build.name, asked, *sorted(settings.items()))
        if key not in self._buffers:

            def shared_memory(buffers: int) -> int:
                with_buffers = {**settings, "shared_buffers": f"{buffers // 1024}kB"}
                megabytes = cluster.would_have(
                    build, directory, with_buffers, "shared_memory_size", self._journal, self._account
                )
                return int(megabytes) * 1024**2

            found = buffers_within(parse_size(asked), parse_size(levels["data_block"]), shared_memory)
            self._buffers[key] = f"{found // 1024}kB"
        return self._buffers[key]
