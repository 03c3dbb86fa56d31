"""The bench on PostgreSQL: makes the builds and loads that the cells need, then runs one trial at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentSet
from octavo.lab.bench import Measurement
from octavo.lab.cell_settings import CellSettings
from octavo.lab.declared_metrics import no_primary, undeclared
from octavo.lab.events import BuildProgress, Notice, Notify, Preparing, TurnsGoOn
from octavo.lab.failure_reason import failure_reason
from octavo.lab.huge_page_pools import HugePagePools, Need, reported_pages
from octavo.lab.loads import (
    bytes_of_load,
    dataset_spec,
    find_load,
    identity_of_load,
    keep_only,
    loads_of,
    make_load,
    way_out_of_room,
)
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.runnable import cannot_run, class_here, missing_program, other_class
from octavo.lab.slices import eligibility
from octavo.lab.slices import round as slice_round
from octavo.lab.slices.effects import TurnRatio
from octavo.lab.trial import Equipment, Trial, WatchedTrial
from octavo.lab.validity import first_doubt
from octavo.lab.validity.watch import Watcher
from octavo.plan.cells import Cell, by_condition, load_of
from octavo.plan.factors import build_of
from octavo.plan.model import LONGEST_SLICE, Plan
from octavo.plan.parts import groups_at_once, parts_of_round
from octavo.postgres.builds import flags, variants
from octavo.postgres.builds.cache import Build, find_build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.datasets import graft
from octavo.postgres.datasets.spec import Dataset
from octavo.store.run_files import run_directory
from octavo.units import parse_size
from octavo.workloads.base import Workload

# In standard errors: the largest of several differences, checked in every round, reaches two of them by chance.
_CERTAIN = 3
# The flags and options of a build unless a plan chooses others.
_USUAL_BUILD = {"compiler": "gcc", "compiler_flags": "none", "build_options": "none"}


class PostgresBench:
    """Measures cells with real servers on this host."""

    def __init__(
        self, run: str, plan: Plan, workload: Workload, journal: Journal, notify: Notify, of_class: str | None = None
    ) -> None:
        """`of_class`: the host's class if the hosts file has one."""
        self._plan = plan
        self._host_class = of_class or class_here()
        self._workload = workload
        self._journal = journal
        self._notify = notify
        self._account = server_account()
        self._observers = InstrumentSet(instruments(plan.instruments), lambda text: notify(Notice(text)))
        self._settings = CellSettings(plan, workload, journal, self._account)
        self._pools = HugePagePools(journal)
        self._equipment = Equipment(
            workload, plan.validity, self._settings, self._observers,
            Watcher(lambda text: notify(Notice(text))), journal, self._account, plan.threshold_fraction,
        )  # fmt: skip
        self._builds: dict[BuildSpec, Build] = {}
        self._refused: dict[BuildSpec, str | None] = {}  # flags and options, for any size, and why they cannot be used
        self._broken: dict[object, str] = {}  # builds and loads that cannot be made, and why
        self._checked: set[str] = set()
        self._singly: set[str] = set()  # conditions that are measured one trial at a time
        self._in_groups: set[str] = set()  # conditions whose cells do not all run at the same time
        self._shortest: dict[str, float] = {}  # seconds by condition, after slices were found too short
        self.room = 0
        self._logs = run_directory(run)
        # Trials that failed early have no log, so the highest number counts, not the number of logs.
        self._trials = max((int(log.name.partition(".")[0]) for log in self._logs.glob("[0-9]*.server.log")), default=0)

    @property
    def builds(self) -> list[Build]:
        """The builds that were prepared."""
        return list(self._builds.values())

    def cannot_run(self, cell: Cell) -> str | None:
        """Why this host cannot run the cell, make or run its build, or provide its huge pages; None if it can."""
        return (
            other_class(cell, self._host_class)
            or missing_program(self._workload, cell)
            or cannot_run(cell)
            or self._refused_flags(cell)
            or self._not_built(cell)
            or self._pools.cannot(cell.id, cell.levels)
        )

    def _refused_flags(self, cell: Cell) -> str | None:
        spec = build_of(cell.levels)
        key = replace(spec, data_block="", wal_block="", data_segment="")
        if key not in self._refused:
            self._refused[key] = variants.refused(spec.options, spec.compiler, spec.version) or flags.refused(
                spec.compiler, spec.flags, self._journal
            )
        return self._refused[key]

    def _not_built(self, cell: Cell) -> str | None:
        """Why its compiler, flags or options yield no build. A failing build with PostgreSQL's defaults is an error
        instead."""
        spec = build_of(cell.levels)
        chosen = any(cell.levels.get(name, usual) != usual for name, usual in _USUAL_BUILD.items())
        return self._broken.get(spec) if chosen else None

    def prepare_host(self, cells: Sequence[Cell]) -> None:
        """Allocates the huge pages of the whole run, early and once, because released pages are hard to get back."""
        needs: dict[str, Need] = {}
        by_turns = self._by_turns(cells)
        for cell in cells:
            build = self._builds.get(build_of(cell.levels))
            if cell.levels["huge_pages"] != "off" and build is not None and self.cannot_run(cell) is None:
                with graft.asked(build, dataset_spec(self._workload, cell.levels, 1), self._journal) as stock:
                    pages = self._settings.ask(build, cell.levels, stock, "shared_memory_size_in_huge_pages")
                together = cell.condition if cell.condition in by_turns else cell.id
                needs[cell.id] = Need(parse_size(cell.levels["huge_pages"]), reported_pages(pages), together)
        if needs:
            self._pools.take(needs, eligibility.room_for_huge_pages(), eligibility.most_for_huge_pages())

    def _by_turns(self, cells: Sequence[Cell]) -> set[str]:
        """The conditions whose cells may run at the same time, as far as is known before space is allocated for
        them."""
        if self._plan.interleave == "trials":
            return set()
        return {condition for condition, its in by_condition(cells).items() if self._why_singly(its) is None}

    def close(self) -> None:
        """Releases the resources of the whole run."""
        self._pools.close()

    def prepare_builds(self, cells: Sequence[Cell]) -> None:
        """Makes every build that the cells need, several together if possible. A failed build fails only its own
        cells."""
        specs = list(dict.fromkeys(build_of(cell.levels) for cell in cells if self.cannot_run(cell) is None))
        for spec in specs:
            if find_build(spec) is None:
                self._notify(Preparing(f"build of {spec}"))
        try:
            self._make_builds(specs)
        except HostError:
            raise
        except OctavoError as error:
            if len(specs) == 1:
                raise
            self._notify(Notice(f"{error}; making each build separately"))
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
            waiting=lambda: self._notify(Notice("waiting for another process that is making one of the builds")),
            progress=lambda step: self._notify(BuildProgress(step)),
            notice=lambda text: self._notify(Notice(text)),
        )
        self._builds.update(zip(specs, builds, strict=True))

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """As few parts as the space for datasets, and for servers that run at the same time, allows; see
        `plan.parts`."""
        sizes = {cell.dataset: bytes_of_load(self._workload, cell.levels) for cell in cells}

        def way_out(needed: int) -> str:
            return way_out_of_room(self._workload, cells, needed)

        parts = parts_of_round(cells, sizes, self.room, way_out)
        return [one for part in parts for one in self._parts_at_once(part)]

    def _parts_at_once(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """The part, or several if the cells of a condition take turns and cannot all run at the same time."""
        groups = [self._groups_of(condition, its) for condition, its in by_condition(cells).items()]
        count = max((len(its) for its in groups), default=1)
        members = [{cell.id for its in groups if place < len(its) for cell in its[place]} for place in range(count)]
        return [[cell for cell in cells if cell.id in mine] for mine in members]

    def _groups_of(self, condition: str, cells: list[Cell]) -> list[list[Cell]]:
        if self._plan.interleave == "trials" or condition in self._singly or self._why_singly(cells):
            return [cells]
        reason = self._no_room(cells)
        if reason is None:
            return [cells]
        groups = groups_at_once(cells, lambda some: self._no_room(some) is None)
        if len(groups) > 1 and condition not in self._in_groups:
            self._in_groups.add(condition)
            self._tell(condition, f"slices in {len(groups)} groups of cells, each with the baseline: {reason}")
        return groups

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        """Makes the loads that the cells need in this round, so that no trial is interrupted by one."""
        needed = [(cell, load_of(cell, round_number, self._plan.loads)) for cell in cells]
        keep_only([found for cell, load in needed if (found := self._found(cell, load)) is not None])
        for cell, load in needed:
            key = (cell.dataset, load)
            if key in self._broken or build_of(cell.levels) in self._broken:
                continue
            try:
                self._dataset(cell, load)
            except Exception as error:  # an error of the workload fails its cells
                self._broken[key] = failure_reason(error)
                self._notify(Notice(f"load {load} of {cell.id} failed: {self._broken[key]}"))
                continue
            if cell.id not in self._checked:
                self._check_settings(cell, load)
                self._checked.add(cell.id)

    def loads_there(self, cells: Sequence[Cell]) -> dict[str, str]:
        """The loads that the cells will need and that are in the cache: their identities by name."""
        needed = {(cell.dataset, load): cell for cell in cells for load in loads_of(cell, self._plan)}
        built = ((self._builds.get(build_of(cell.levels)), cell, load) for (_, load), cell in needed.items())
        found = (identity_of_load(build, self._workload, cell.levels, load) for build, cell, load in built if build)
        return dict(one for one in found if one)

    def _check_settings(self, cell: Cell, load: int) -> None:
        """Has the build's own server read the settings without starting. Raises UsageError that names a bad one."""
        dataset = self._dataset(cell, load)
        with graft.asked(dataset.build, dataset.spec, self._journal) as stock:
            self._settings.ask(dataset.build, cell.levels, stock, "shared_buffers")

    def _found(self, cell: Cell, load: int) -> Dataset | None:
        build = self._builds.get(build_of(cell.levels))
        return None if build is None else find_load(build, self._workload, cell.levels, load)

    def _dataset(self, cell: Cell, load: int) -> Dataset:
        if found := self._found(cell, load):
            return found
        build = self._builds[build_of(cell.levels)]
        self._notify(Preparing(f"load {load} of {cell.id}"))
        return make_load(build, self._workload, cell.levels, load, self._journal, self._account)

    def _why_broken(self, cell: Cell, load: int) -> str | None:
        """Why the cell's build or its load could not be made, or None."""
        return self._broken.get(build_of(cell.levels)) or self._broken.get((cell.dataset, load))

    def _next_log(self) -> Path:
        self._trials += 1
        return self._logs / f"{self._trials:05d}.server.log"

    def takes_turns(self, cells: Sequence[Cell]) -> bool:
        """Whether slices are sound for these cells and there is room for all of them. If not, the reason is reported
        once."""
        if self._plan.interleave == "trials" or cells[0].condition in self._singly:
            return False
        if reason := self._why_singly(cells) or self._no_room(cells):
            self._measure_singly(cells[0].condition, reason)
            return False
        return True

    def _why_singly(self, cells: Sequence[Cell]) -> str | None:
        """Why slices are not sound for a condition's cells, or None."""
        return eligibility.why_not(self._plan, self._workload, cells) or eligibility.not_here(
            self._workload, cells, self._plan.instruments
        )

    def _no_room(self, cells: Sequence[Cell]) -> str | None:
        """Why these cells cannot all run at the same time, or None."""
        return self._pools.not_at_once(cells) or eligibility.not_at_once(self._plan, self._workload, cells)

    def _measure_singly(self, condition: str, reason: str) -> None:
        self._singly.add(condition)
        self._tell(condition, f"sequential trials instead of slices: {reason}")

    def _tell(self, condition: str, text: str) -> None:
        self._notify(Notice(f"{condition}: {text}" if condition else text))

    def measure_by_turns(
        self, cells: Sequence[Cell], loads: Sequence[int], *, round_number: int, seed: int
    ) -> list[Measurement] | None:
        """One round of these cells in slices."""
        found: dict[str, Measurement] = {}
        trials: dict[str, Trial] = {}
        for cell, load in zip(cells, loads, strict=True):
            if broken := self._why_broken(cell, load):
                found[cell.id] = Measurement("failed", broken)
                continue
            pages = self._pools.bytes_of(cell.id, cell.levels)
            trials[cell.id] = Trial(cell.levels, self._dataset(cell, load), seed, self._next_log(), pages)
        condition, timings = cells[0].condition, PhaseTimings()
        running = [cell for cell in cells if cell.id in trials]
        if len(running) < 2:
            return None

        def show(ratios: Mapping[str, TurnRatio], done: float, ended: bool) -> None:
            texts = ((cell, ratios[cell.id]) for cell in running if cell.id in ratios)
            lines = tuple((cell, ratio.ratio, *ratio.interval) for cell, ratio in texts)
            self._notify(TurnsGoOn(round_number, lines, done, ended))

        shortest = max(self._shortest.get(condition, 0.0), eligibility.shortest_slice(running))
        wanted = slice_round.SliceRequest(
            self._plan.slice_seconds, shortest, max(self._workload.seconds_asked(cell.levels) for cell in running),
            f"{seed}/{condition}", next((cell.id for cell in running if cell.baseline), None), show,
        )  # fmt: skip
        try:
            measured = slice_round.measure(self._equipment, trials, wanted, timings)
        except slice_round.SlowError as error:
            self._measure_singly(condition, str(error))
            return None
        except Exception as error:  # the error belongs to the round, not to a cell
            what = failure_reason(error)
            if self._plan.interleave == "auto":
                self._measure_singly(condition, what)
                return None
            return [found.get(cell.id, Measurement("failed", what)) for cell in cells]
        timings.end("stop")
        self._check_carry_over(condition, measured)
        each = {name: round(seconds / len(trials), 3) for name, seconds in timings.seconds.items()}
        for name, trial in trials.items():
            watched = measured.cells[name]
            log = str(trial.log.relative_to(octavo_home()))
            facts = {"build": trial.dataset.build.name, "log": log, **measured.facts[name], "seconds": each}
            if isinstance(watched, str):
                found[name] = Measurement("failed", watched, facts=facts)
            else:
                found[name] = self._judged(watched, trial, facts)
        return [found[cell.id] for cell in cells]

    def _check_carry_over(self, condition: str, measured: slice_round.RoundResult) -> None:
        """Makes the next round's slices longer if a slice certainly shifts the next one by a third of the threshold."""
        effects, seconds = measured.effects, measured.slice_seconds
        if effects is None or seconds is None or self._plan.slice_seconds is not None:
            return
        if effects.carry_over - _CERTAIN * effects.error <= math.log1p(self._plan.threshold_fraction) / 3:
            return
        moved = f"a slice of {seconds:g} s changes the next one by {math.expm1(effects.carry_over) * 100:.1f} %"
        if 2 * seconds > LONGEST_SLICE:
            self._measure_singly(condition, moved)
        else:
            self._shortest[condition] = 2 * seconds
            self._tell(condition, f"{moved}; slices last twice as long from now on")

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        """Runs one trial: copy, start, warm, checkpoint, watch, run, judge, stop."""
        if broken := self._why_broken(cell, load):
            return Measurement("failed", broken)
        log = self._next_log()
        build = self._builds[build_of(cell.levels)]
        facts: dict[str, Any] = {"build": build.name, "log": str(log.relative_to(octavo_home()))}
        timings = PhaseTimings()
        try:
            trial = Trial(cell.levels, self._dataset(cell, load), seed, log, self._pools.bytes_of(cell.id, cell.levels))
            watched = self._equipment.run(trial, facts, timings)
        except Exception as error:  # except a full disk, which would fail every later trial
            return Measurement("failed", failure_reason(error), facts=facts)
        finally:
            timings.end("stop")
            facts["seconds"] = timings.seconds
        trial.client_log.write_text(watched.result.output)
        return self._judged(watched, trial, facts)

    def _judged(self, watched: WatchedTrial, trial: Trial, facts: dict[str, Any]) -> Measurement:
        build = trial.dataset.build
        found = sorted(watched.result.observations, key=lambda one: one.metric != self._plan.metric)
        if wrong := undeclared(self._workload, found):
            return Measurement("failed", wrong, facts=facts)
        observations = (*found, *watched.seen.observations)
        doubt = first_doubt(watched.evidence, self._plan.outcomes)
        settings, series = watched.evidence.settings, watched.seen.series
        if doubt is None:
            if wrong := no_primary(
                self._workload, found, self._plan.metric, slices=facts.get("interleave") == "slices"
            ):
                return Measurement("failed", wrong, facts=facts)
            return Measurement("ok", None, observations, settings, build.manifest, facts, series)
        facts["rule"] = doubt.rule
        reason = doubt.reason
        if doubt.rule == "duration" and facts.get("turns_dropped"):
            reason = f"other processes disturbed {facts['turns_dropped']} of {facts['turns']} turns: {reason}"
        return Measurement("invalid", reason, observations, settings, build.manifest, facts, series)
