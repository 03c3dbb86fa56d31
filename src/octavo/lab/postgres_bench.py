"""The bench on PostgreSQL: builds and loads what the cells need, then runs one trial at a time."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import cgroup, children
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.instruments import all_instruments
from octavo.instruments.base import Instrument, Stop, UnavailableError
from octavo.lab.bench import Measurement
from octavo.lab.equal_memory import buffers_within
from octavo.lab.events import BuildProgress, Notice, Notify, Preparing
from octavo.lab.laps import Laps
from octavo.lab.loads import bytes_of_load, dataset_spec, find_load, keep_only, make_load
from octavo.lab.reset import memory_limit, pristine_copy, reach_regime, warm_up
from octavo.lab.validity import reason_to_doubt
from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.watch import Watcher
from octavo.observation import Observation
from octavo.plan.cells import Cell, load_of
from octavo.plan.factors import build_of
from octavo.plan.model import Plan
from octavo.plan.parts import parts_of_round
from octavo.plan.server_settings import settings_of
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import graft
from octavo.postgres.datasets.spec import Dataset
from octavo.postgres.pinned import pinned_settings
from octavo.units import parse_size
from octavo.workloads.base import Levels, Workload, WorkloadResult


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
        self._broken: dict[object, str] = {}  # what cannot be made (a build, a load), and why
        self._checked: set[str] = set()
        self._buffers: dict[tuple[object, ...], str] = {}  # shared_buffers of equal memory
        self.room = 0
        self._watcher = Watcher(lambda text: notify(Notice(text)))
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
        """A memory limit needs root and a memory controller, a build its compiler; everything else runs without."""
        compiler = build_of(cell.levels).compiler
        if shutil.which(compiler, path=children.PLAIN_PATH) is None:
            return f"the compiler {compiler} is not installed"
        if cell.levels["memory"] == "none":
            return None
        if os.geteuid() != 0:
            return "a memory limit needs root"
        if cgroup.memory_controller() is None:
            return "this host has no cgroup memory controller that can be used"
        return None

    def prepare_builds(self, cells: Sequence[Cell]) -> None:
        """Makes every build that the cells need, together where it can be. One that fails fails its cells alone."""
        specs = list(dict.fromkeys(build_of(cell.levels) for cell in cells if self.cannot_run(cell) is None))
        for spec in specs:
            self._notify(Preparing(f"build of {spec}"))
        try:
            self._make_builds(specs)
        except HostError:
            raise
        except OctavoError as error:
            if len(specs) == 1:
                raise
            self._notify(Notice(f"{error}; each build by itself"))
            for spec in specs:
                try:
                    self._make_builds([spec])
                except HostError:
                    raise
                except OctavoError as problem:
                    self._broken[spec] = str(problem)
                    self._notify(Notice(str(problem)))

    def _make_builds(self, specs: Sequence[BuildSpec]) -> None:
        builds = ensure_builds(
            specs,
            self._journal,
            waiting=lambda: self._notify(Preparing("another process is making one of the builds; waiting")),
            progress=lambda doing, done, total: self._notify(BuildProgress(doing, done, total)),
            notice=lambda text: self._notify(Notice(text)),
        )
        self._builds.update(zip(specs, builds, strict=True))

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """As few parts as the room for datasets allows; see `plan.parts`."""
        sizes = {cell.dataset: bytes_of_load(self._workload, cell.levels) for cell in cells}
        return parts_of_round(cells, sizes, self.room)

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        """Makes the loads that the cells need in this round, so that no trial is broken off by one."""
        needed = [(cell, load_of(cell, round_number, self._plan.loads)) for cell in cells]
        keep_only([found for cell, load in needed if (found := self._found(cell, load)) is not None])
        for cell, load in needed:
            key = (cell.dataset, load)
            if key in self._broken or build_of(cell.levels) in self._broken:
                continue
            try:
                self._dataset(cell, load)
            except HostError:
                raise
            except OctavoError as error:
                self._broken[key] = str(error)
                self._notify(Notice(f"load {load} of {cell.label} failed: {error}"))
                continue
            if cell.id not in self._checked:
                self._check_settings(cell, load)
                self._checked.add(cell.id)

    def _check_settings(self, cell: Cell, load: int) -> None:
        """Lets the build's own server read the settings without starting. Raises UsageError naming a bad one."""
        build = self._builds[build_of(cell.levels)]
        directory = graft.stock(self._dataset(cell, load), self._journal)
        settings = self._settings(build, cell.levels, directory)
        cluster.would_have(build, directory, settings, "shared_buffers", self._journal, self._account)

    def _found(self, cell: Cell, load: int) -> Dataset | None:
        build = self._builds.get(build_of(cell.levels))
        return None if build is None else find_load(build, self._workload, cell.levels, load)

    def _dataset(self, cell: Cell, load: int) -> Dataset:
        if found := self._found(cell, load):
            return found
        build = self._builds[build_of(cell.levels)]
        self._notify(Preparing(f"load {load} of {cell.label}"))
        return make_load(build, self._workload, cell.levels, load, self._journal, self._account)

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        """One trial: copy, start, warm, checkpoint, watch, run, judge, stop."""
        spec = build_of(cell.levels)
        if broken := self._broken.get(spec) or self._broken.get((cell.dataset, load)):
            return Measurement("failed", broken)
        self._trials += 1
        log = self._logs / f"{self._trials:05d}.server.log"
        build = self._builds[spec]
        facts: dict[str, Any] = {"build": build.name, "log": str(log.relative_to(octavo_home()))}
        laps = Laps()
        try:
            trial = self._trial(cell, load, seed, log, facts, laps)
        except HostError:  # a full disk fails every trial to come: the run stops, and can be resumed
            raise
        except (OctavoError, psycopg.Error) as error:
            return Measurement("failed", " ".join(str(error).split()), facts=facts)
        finally:
            laps.end("stop")
            facts["seconds"] = laps.seconds
        result, observations, evidence = trial
        log.with_suffix("").with_suffix(".client.log").write_text(result.output)
        reason = reason_to_doubt(evidence, self._plan.outcomes)
        status = "ok" if reason is None else "invalid"
        return Measurement(status, reason, observations, evidence.settings, build.manifest, facts)

    def _trial(
        self, cell: Cell, load: int, seed: int, log: Path, facts: dict[str, Any], laps: Laps
    ) -> tuple[WorkloadResult, tuple[Observation, ...], Evidence]:
        build, levels = self._builds[build_of(cell.levels)], cell.levels
        with (
            pristine_copy(self._dataset(cell, load), self._journal) as (directory, facts["caches_emptied_by"]),
            memory_limit(levels["memory"], self._journal) as group,
        ):
            laps.end("copy")
            settings = self._settings(build, levels, directory)
            with cluster.start(
                build, directory, settings, self._journal, self._account, log=log, memory_group=group
            ) as server:
                if group is not None:
                    facts["memory_limit_bytes"] = cgroup.achieved_limit(group)
                facts["database_bytes"] = server.query("size")[0]["bytes"]
                achieved = server.settings()
                laps.end("start")
                warm_up(server, self._workload, levels, seed)
                laps.end("warm")
                reach_regime(server, self._workload, levels, seed)
                laps.end("checkpoint")
                watched = self._watch(server, levels, seed, log, facts, achieved)
                laps.end("measure")
                return watched

    def _settings(self, build: Build, levels: Levels, directory: Path) -> dict[str, str]:
        pinned = pinned_settings(build.manifest["version"], levels["data_block"])
        # The warm-up's WAL is recycled, not removed, so that the trial begins with the whole supply.
        supply = {"min_wal_size": f"{dataset_spec(self._workload, levels, 1).recycled_bytes // 1024**2}MB"}
        settings = {**pinned, **supply, **self._plan.settings, **settings_of(levels)}
        return {**settings, "shared_buffers": self._shared_buffers(build, levels, settings, directory)}

    def _shared_buffers(self, build: Build, levels: Levels, settings: Mapping[str, str], directory: Path) -> str:
        """The level, or with equal memory the buffers that leave room for what else is in shared memory."""
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

    def _watch(
        self,
        server: Server,
        levels: Levels,
        seed: int,
        log: Path,
        facts: dict[str, Any],
        settings: Mapping[str, str],
    ) -> tuple[WorkloadResult, tuple[Observation, ...], Evidence]:
        started = server.query("started")[0]["started"]
        stops = self._start_instruments(server)
        server.disconnect()
        watch = self._watcher.start(server.directory, limited="memory_limit_bytes" in facts)
        result = self._workload.run(server, levels, seed)
        surroundings = watch()
        facts["surroundings"] = asdict(surroundings)
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
        evidence = Evidence(
            result, numbers, server.is_alive(), started, started_after, words, self._plan.validity,
            levels, facts, surroundings, settings,
        )  # fmt: skip
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
