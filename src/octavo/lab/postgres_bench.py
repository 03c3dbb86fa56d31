"""The bench on PostgreSQL: builds and loads what the cells need, then runs one trial at a time."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import cgroup, children
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.instruments import all_instruments
from octavo.instruments.base import Instrument, Stop, UnavailableError
from octavo.lab.bench import Measurement
from octavo.lab.events import BuildProgress, Notice, Notify, Preparing
from octavo.lab.reset import bring_to_state, memory_limit, pristine_copy
from octavo.lab.validity import reason_to_doubt
from octavo.lab.validity.evidence import Evidence
from octavo.observation import Observation
from octavo.plan.cells import Cell, load_of
from octavo.plan.model import Plan
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.dataset import Dataset, DatasetSpec, ensure_dataset, find_dataset
from octavo.postgres.pinned import pinned_settings
from octavo.units import parse_size
from octavo.workloads.base import Levels, Workload, WorkloadResult


def build_spec(levels: Levels) -> BuildSpec:
    """The build that a cell needs."""
    return BuildSpec(levels["version"], levels["data_block"], levels["wal_block"])


def dataset_spec(workload: Workload, levels: Levels, load: int) -> DatasetSpec:
    """The dataset that a cell needs for a load."""
    return DatasetSpec(
        workload.contents(levels),
        wal_segment=parse_size(levels["wal_segment"]),
        recycled_wal=parse_size(levels["recycled_wal"]),
        checksums=levels["checksums"] == "on",
        load=load,
    )


def load_settings(build: Build, levels: Levels) -> dict[str, str]:
    """The settings under which a cell's loads are made."""
    return pinned_settings(build.manifest["version"], levels["data_block"])


def loads_of(cell: Cell, plan: Plan) -> list[int]:
    """The loads that a cell will use in this plan."""
    return sorted({load_of(cell, round_number, plan.loads) for round_number in range(1, plan.rounds + 1)})


class PostgresBench:
    """Measures cells with real servers on this host."""

    def __init__(self, run: str, plan: Plan, workload: Workload, journal: Journal, notify: Notify) -> None:
        self._plan = plan
        self._workload = workload
        self._journal = journal
        self._notify = notify
        self._account = server_account()
        self._instruments: dict[str, Instrument] = dict(all_instruments())
        self._builds: dict[BuildSpec, Build] = {}
        self._logs = make_directory(octavo_home() / "runs" / run)
        self._trials = len(list(self._logs.glob("*.server.log")))

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """What the observations mean, by metric."""
        everything = [*self._workload.metrics, *(m for i in self._instruments.values() for m in i.metrics)]
        return {m.name: {"title": m.title, "unit": m.unit, "better": m.better} for m in everything}

    @property
    def builds(self) -> list[Build]:
        """The builds that were prepared."""
        return list(self._builds.values())

    def cannot_run(self, cell: Cell) -> str | None:
        """A memory limit needs root and a memory controller; everything else runs without."""
        if cell.levels["memory"] == "none":
            return None
        if os.geteuid() != 0:
            return "a memory limit needs root"
        if cgroup.memory_controller() is None:
            return "this host has no cgroup memory controller that can be used"
        return None

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Makes every build and load that the cells need, before the first trial, so that no round is broken by one."""
        runnable = [cell for cell in cells if self.cannot_run(cell) is None]
        specs = list(dict.fromkeys(build_spec(cell.levels) for cell in runnable))
        for spec in specs:
            self._notify(Preparing(f"build of {spec}"))
        builds = ensure_builds(
            specs,
            self._journal,
            waiting=lambda: self._notify(Preparing("another process is making one of the builds; waiting")),
            progress=lambda doing, done, total: self._notify(BuildProgress(doing, done, total)),
            notice=lambda text: self._notify(Notice(text)),
        )
        self._builds = dict(zip(specs, builds, strict=True))
        for cell in runnable:
            for load in loads_of(cell, self._plan):
                self._dataset(cell, load)
            self._check_settings(cell)

    def _check_settings(self, cell: Cell) -> None:
        """Lets the build's own server read the settings without starting. Raises UsageError naming a bad one."""
        build = self._builds[build_spec(cell.levels)]
        arguments = [build.program("postgres"), "-D", self._dataset(cell, loads_of(cell, self._plan)[0]).directory]
        for name, value in self._settings(build, cell.levels).items():
            arguments += ["-c", f"{name}={value}"]
        finished = children.run(
            [*arguments, "-C", "shared_buffers"], self._journal, role="postgres -C", account=self._account
        )
        if finished.returncode != 0:
            problem = next((line for line in finished.stderr.splitlines() if "FATAL" in line), finished.stderr.strip())
            raise UsageError(f"settings: PostgreSQL refuses them: {problem.partition('FATAL:')[2].strip() or problem}")

    def _dataset(self, cell: Cell, load: int) -> Dataset:
        build = self._builds[build_spec(cell.levels)]
        spec = dataset_spec(self._workload, cell.levels, load)
        settings = load_settings(build, cell.levels)
        if found := find_dataset(build, spec, settings):
            return found
        self._notify(Preparing(f"load {load} of {cell.label}"))

        def fill(server: Server) -> None:
            server.execute("CREATE EXTENSION pg_prewarm")
            self._workload.fill(server, cell.levels)

        return ensure_dataset(build, spec, fill, settings, self._journal, self._account)

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        """One trial: copy, start, warm, checkpoint, watch, run, judge, stop."""
        self._trials += 1
        log = self._logs / f"{self._trials:05d}.server.log"
        build = self._builds[build_spec(cell.levels)]
        facts: dict[str, Any] = {"build": build.name, "log": str(log.relative_to(octavo_home()))}
        try:
            source = self._dataset(cell, load)
            with (
                pristine_copy(source, self._journal) as (directory, facts["caches_emptied_by"]),
                memory_limit(cell.levels["memory"], self._journal) as group,
                cluster.start(
                    build, directory, self._settings(build, cell.levels), self._journal, self._account,
                    log=log, memory_group=group,
                ) as server,
            ):  # fmt: skip
                if group is not None:
                    facts["memory_limit_bytes"] = cgroup.achieved_limit(group)
                facts["database_bytes"] = server.query("size")[0]["bytes"]
                settings = server.settings()
                bring_to_state(server, self._workload, cell.levels, seed)
                result, observations, evidence = self._watch(server, cell.levels, seed, log)
        except HostError:  # a full disk fails every trial to come: the run stops, and can be resumed
            raise
        except (OctavoError, psycopg.Error) as error:
            return Measurement("failed", " ".join(str(error).split()), facts=facts)
        log.with_suffix("").with_suffix(".client.log").write_text(result.output)
        reason = reason_to_doubt(evidence)
        status = "ok" if reason is None else "invalid"
        return Measurement(status, reason, observations, settings, build.manifest, facts)

    def _settings(self, build: Build, levels: Levels) -> dict[str, str]:
        pinned = pinned_settings(build.manifest["version"], levels["data_block"])
        # The warm-up's WAL is recycled, not removed, so that the trial begins with the whole supply.
        supply = {"min_wal_size": f"{dataset_spec(self._workload, levels, 1).recycled_bytes // 1024**2}MB"}
        return {**pinned, **supply, **self._plan.settings, "shared_buffers": levels["shared_buffers"]}

    def _watch(
        self, server: Server, levels: Levels, seed: int, log: Path
    ) -> tuple[WorkloadResult, tuple[Observation, ...], Evidence]:
        started = server.query("started")[0]["started"]
        stops = self._start_instruments(server)
        server.disconnect()
        result = self._workload.run(server, levels, seed)
        observations = list(result.observations)
        started_after: float | None = None
        try:
            for stop in stops:
                observations += stop(result)
            started_after = server.query("started")[0]["started"]
        except (OctavoError, psycopg.Error):
            pass  # the rule on restarts says it: the server does not answer
        numbers = {observation.metric: observation.value for observation in observations}
        words = log.read_text(errors="replace")
        evidence = Evidence(result, numbers, server.is_alive(), started, started_after, words, self._plan.validity)
        return result, tuple(observations), evidence

    def _start_instruments(self, server: Server) -> list[Stop]:
        """Starts what can be started; what cannot says so once and is off for the rest of the run."""
        stops: list[Stop] = []
        for name, instrument in list(self._instruments.items()):
            try:
                stops.append(instrument.start(server))
            except UnavailableError as error:
                del self._instruments[name]
                self._notify(Notice(f"the instrument {name} is off: {error}"))
        return stops


def scratch_free_bytes() -> int:
    """Free space where datasets and copies live."""
    return shutil.disk_usage(make_directory(octavo_home())).free
