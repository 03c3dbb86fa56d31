"""One trial: puts host, data and server into the declared state, runs the measurement, and restores everything."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host import cgroup, set_user_id
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.instruments.running import InstrumentResults, InstrumentSet, facts_of
from octavo.knobs import cpu_pinning, device
from octavo.knobs.base import KnobTarget
from octavo.knobs.server_group import server_group
from octavo.lab.cell_settings import CellSettings
from octavo.lab.declared_metrics import require_numbers
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.reset import pristine_copy, reach_regime, warm_up
from octavo.lab.server_log import limited_log, read_log
from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.surroundings import Surroundings
from octavo.lab.validity.watch import Watcher
from octavo.plan.thresholds import Thresholds
from octavo.postgres import cluster
from octavo.postgres.cluster import Server
from octavo.postgres.datasets.spec import Dataset
from octavo.text import one_line
from octavo.workloads.base import ChecksData, Levels, MeasuresAfterwards, MeasuresBeforehand, Workload, WorkloadResult


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial to measure. `huge_page_bytes` is the server's memory in huge pages; its log goes to `log`."""

    levels: Levels
    dataset: Dataset
    seed: int
    log: Path
    huge_page_bytes: int = 0

    @property
    def client_log(self) -> Path:
        """The file for the client's output, next to the server's log."""
        return self.log.with_suffix("").with_suffix(".client.log")


@dataclass(frozen=True, slots=True)
class WatchedTrial:
    """The client's result, the instruments' results, and the evidence for the validity rules."""

    result: WorkloadResult
    seen: InstrumentResults
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Equipment:
    """The objects that the trials of a run share."""

    workload: Workload
    thresholds: Thresholds
    settings: CellSettings
    observers: InstrumentSet
    watcher: Watcher
    journal: Journal
    account: Account
    threshold: float = 0.0

    def run(self, trial: Trial, facts: dict[str, Any], timings: PhaseTimings) -> WatchedTrial:
        """Runs the trial from its pristine copy to its last reading. Fills `facts`, also on an error.

        Raises OctavoError or psycopg.Error for this trial, HostError when every later one would fail, too.
        """
        levels, journal, dataset = trial.levels, self.journal, trial.dataset
        with (
            # Disk space for as much WAL again as is ready for reuse.
            device.volume(levels, dataset.copy_bytes + dataset.spec.wal_bytes, journal) as volume,
            pristine_copy(dataset, journal, volume.directory if volume else None) as (directory, caches),
            knobs.applied(levels, journal, KnobTarget(directory.parent)) as state,
            server_group(levels, journal, huge_page_bytes=trial.huge_page_bytes) as group,
        ):
            facts |= caches | {"knobs": state.as_dict()}
            settings = self.settings.of(dataset.build, levels, directory)
            timings.end("copy")
            facts |= device.measured(levels["device"], volume, journal, group)
            timings.end("probe")
            with (
                set_user_id.none_left(self.account),
                cluster.start(
                    dataset.build, directory, settings, journal, self.account, log=trial.log, memory_group=group
                ) as server,
                limited_log(trial.log, lambda: server.process),
            ):
                if group is not None and levels["memory"] != "none":
                    facts["memory_limit_bytes"] = cgroup.achieved_limit(group)
                facts["database_bytes"] = server.query("size")[0]["bytes"]
                facts["server_cpus"] = cpu_pinning.pin(server.process.pid, levels["server_cpus"])
                achieved = server.settings()
                timings.end("start")
                if isinstance(self.workload, MeasuresBeforehand):
                    self.workload.beforehand(server, levels)
                warm_up(server, self.workload, levels, trial.seed)
                timings.end("warm")
                steady = levels["wal_regime"] == "steady"
                if not steady:
                    facts |= reach_regime(server, self.workload, levels, trial.seed)
                with (
                    device.limited(levels["device"], volume, journal, group) as limited,
                    cpu_pinning.pinned(levels["client_cpus"]) as facts["client_cpus"],
                ):
                    facts |= limited.facts
                    if steady:
                        # At full speed more pages would have been changed since the last checkpoint.
                        facts |= reach_regime(server, self.workload, levels, trial.seed)
                        limited.refill()
                    timings.end("checkpoint")
                    watched = self._watch(server, trial, facts, achieved, group)
                    if isinstance(self.workload, MeasuresAfterwards) and server.is_alive():
                        result = watched.result
                        more = self.workload.afterwards(server, levels, result)
                        require_numbers(more)
                        watched = replace(watched, result=replace(result, observations=(*result.observations, *more)))
                facts |= limited.facts  # what was served until then, and the rest of a burst
                facts["knobs_drifted"] = state.drifted()
                timings.end("measure")
                return watched

    def _watch(
        self, server: Server, trial: Trial, facts: dict[str, Any], settings: Mapping[str, str], group: Path | None
    ) -> WatchedTrial:
        started = server.query("started")[0]["started"]
        with self.observers.start(server) as watching:
            watch = self.watcher.start(server.directory, limited="memory_limit_bytes" in facts)
            result = self.workload.run(server, trial.levels, trial.seed)
            surroundings = watch()
            if "memory_limit_bytes" in facts and group is not None:  # from the same moment as the cached bytes
                facts["memory_limit_shared_bytes"] = cgroup.shared_bytes(group)
            server.disconnect()  # the workload's queries kept a connection open, which is not a client's
            seen = watching.finish(result)
        facts |= {**result.facts, "surroundings": asdict(surroundings), **facts_of(seen)}
        return self.watched(server, trial, facts, settings, result, seen, surroundings, started)

    def watched(
        self,
        server: Server,
        trial: Trial,
        facts: Mapping[str, Any],
        settings: Mapping[str, str],
        result: WorkloadResult,
        seen: InstrumentResults,
        surroundings: Surroundings,
        started: float,
    ) -> WatchedTrial:
        """The trial with the evidence for the validity rules; queries the server's start time, and violations in its
        data."""
        started_after: float | None = None
        # If the server does not answer, the rule on restarts reports it.
        with suppress(OctavoError, psycopg.Error):
            started_after = server.query("started")[0]["started"]
        violations = self._violations(server, trial.levels)
        observations = (*result.observations, *seen.observations)
        require_numbers(observations)
        numbers = {observation.metric: observation.value for observation in observations if observation.item is None}
        evidence = Evidence(
            result,
            numbers,
            server.is_alive(),
            started,
            started_after,
            read_log(trial.log),
            self.thresholds,
            trial.levels,
            facts,
            surroundings,
            settings,
            violations,
            self.threshold,
        )
        return WatchedTrial(result, seen, evidence)

    def _violations(self, server: Server, levels: Levels) -> tuple[str, ...]:
        """The violations in the data now. If a dead server cannot be queried, that is not a violation."""
        if not isinstance(self.workload, ChecksData) or not server.is_alive():
            return ()
        try:
            return self.workload.violations(server, levels)
        except (OctavoError, psycopg.Error) as error:
            return (f"the data could not be checked: {one_line(error)}",)
