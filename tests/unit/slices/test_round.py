"""Concurrent steps of a round's cells, and faults that exclude one of them."""

import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octavo import workloads
from octavo.errors import OctavoError
from octavo.host.process_table import Process
from octavo.knobs.base import KnobTarget
from octavo.knobs.switched import Switches
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.slices import round as slice_round
from octavo.lab.slices import round_cell
from octavo.lab.slices.pieces import PieceRunner
from octavo.lab.slices.round import SliceRequest, each_at_once, measure
from octavo.lab.slices.round_cell import RoundCell, measure_beforehand
from octavo.lab.validity.surroundings import Surroundings
from octavo.plan.thresholds import Thresholds


def test_an_interrupt_ends_the_servers_that_others_wait_for() -> None:
    ended = threading.Event()
    signals: list[int] = []

    def send_signal(number: int) -> None:
        signals.append(number)
        ended.set()

    no_trial: Any = None
    server: Any = SimpleNamespace(is_alive=lambda: True, process=SimpleNamespace(send_signal=send_signal))
    waiting = RoundCell("waiting", no_trial, ExitStack(), server=server)
    interrupted = RoundCell("interrupted", no_trial, ExitStack())

    def step(cell: RoundCell) -> None:
        if cell is interrupted:
            raise KeyboardInterrupt
        assert ended.wait(60)

    with pytest.raises(KeyboardInterrupt):
        each_at_once([interrupted, waiting], step)
    assert signals == [signal.SIGQUIT]


@dataclass
class NothingToStop:
    """A freezer whose cell may fail when it continues."""

    on_thaw: Callable[[], None]
    how: str = "nothing"

    def freeze(self) -> None:
        """Does nothing."""

    def thaw(self) -> None:
        self.on_thaw()


def nothing(*_: object) -> None:
    """What a round does with servers, or a cell when it continues."""


@pytest.fixture
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round without servers, whose results are the cells' names."""

    def make_copy(_: object, cell: RoundCell) -> None:
        cell.directory = Path("/")

    def no_context(*_: object) -> AbstractContextManager[Any]:
        return nullcontext(SimpleNamespace(as_dict=dict, drifted=list))

    def server_of(_: object) -> SimpleNamespace:
        return SimpleNamespace(directory=Path("/"), process=SimpleNamespace(pid=1))

    def result_of_pieces(_: object, cell: RoundCell, done: object) -> str:
        assert "gauges" in cell.facts, "they were not read while the clients were connected"
        return cell.name

    for name in ("make_volume", "start_server", "measure_beforehand", "warm_server", "reach", "read_since"):
        monkeypatch.setattr(slice_round, name, nothing)
    for name in ("set_user_id.none_left", "cpu_pinning.pinned", "knobs.applied"):
        monkeypatch.setattr(f"octavo.lab.slices.round.{name}", no_context)
    monkeypatch.setattr("octavo.lab.slices.round.child_group.of", nothing)
    for one in (make_copy, server_of, result_of_pieces):
        monkeypatch.setattr(slice_round, one.__name__, one)


def round_of(
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    thaws: Mapping[str, Callable[[], None]],
    modes: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """The results of TPC-H's cells, which have nothing to do; `modes` has the level of `thp` of some."""

    def begin(_: object, cell: RoundCell, switches: Switches) -> None:
        freezer = NothingToStop(thaws[cell.name])
        cell.stack.callback(freezer.thaw)
        cell.pieces = cell.clock.runner = PieceRunner(freezer, pieces, prepare=lambda: switches.to(cell.trial.levels))
        cell.watching = cast(Any, SimpleNamespace(sample_gauges=lambda: cell.facts.update(gauges=1)))

    def enough(item: str) -> bool:
        return True

    def surroundings() -> Surroundings:
        return Surroundings(1.0, 0.0)

    def start(directory: Path) -> Callable[[], Surroundings]:
        return surroundings

    pieces: Any = SimpleNamespace(items=["load.copy"], enough=enough)
    monkeypatch.setattr(slice_round, "begin", begin)
    equipment: Any = SimpleNamespace(
        workload=workloads.find("tpch"), journal=None, account=None, watcher=SimpleNamespace(start=start),
        thresholds=Thresholds(),
    )  # fmt: skip
    levels = {"client_cpus": "any", "cache": "warm", "device": "native", "phase": phase}
    own = {name: {"thp": mode} for name, mode in (modes or {}).items()}
    wanted = SliceRequest(None, 0.05, 1.0, "seed", None, nothing)
    trials: dict[str, Any] = {name: SimpleNamespace(levels={**levels, **own.get(name, {})}) for name in thaws}
    return dict(measure(equipment, trials, wanted, PhaseTimings()).cells)


@pytest.mark.usefixtures("nothing_is_started")
@pytest.mark.parametrize(("phase", "aged"), [("load", [2]), ("queries", [])])
def test_what_loads_have_dirtied_ages_by_their_own_time(
    monkeypatch: pytest.MonkeyPatch, phase: str, aged: list[int]
) -> None:
    cells: list[int] = []

    @contextmanager
    def ages_slowly(count: int, _: object) -> Generator[int, None, None]:
        cells.append(count)
        yield 3000 * count

    monkeypatch.setattr(slice_round, "ages_slowly", ages_slowly)
    assert round_of(monkeypatch, phase, {"a": nothing, "b": nothing}) == {"a": "a", "b": "b"}
    assert cells == aged


@pytest.mark.usefixtures("nothing_is_started")
def test_knobs_write_beside_the_copy_which_is_the_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[KnobTarget] = []

    def make_copy(_: object, cell: RoundCell) -> None:
        cell.directory = Path("/volume/copy")

    @contextmanager
    def applied(_: object, __: object, place: KnobTarget) -> Generator[SimpleNamespace, None, None]:
        places.append(place)
        yield SimpleNamespace(as_dict=dict, drifted=list)

    monkeypatch.setattr(slice_round, "make_copy", make_copy)
    monkeypatch.setattr("octavo.lab.slices.round.knobs.applied", applied)
    round_of(monkeypatch, "queries", {"a": nothing, "b": nothing})
    assert [place.directory for place in places] == [Path("/volume")]


@pytest.mark.usefixtures("nothing_is_started")
def test_the_host_has_the_modes_of_the_cells_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the only cell with other modes has no copy, nothing is switched."""
    found: list[str] = []

    def make_copy(_: object, cell: RoundCell) -> None:
        if cell.name == "a":
            raise OctavoError("no copy")
        cell.directory = Path("/volume/copy")

    @contextmanager
    def applied(levels: Mapping[str, str], *_: object) -> Generator[SimpleNamespace, None, None]:
        found.append(levels["thp"])
        yield SimpleNamespace(as_dict=dict, drifted=list)

    monkeypatch.setattr(slice_round, "make_copy", make_copy)
    monkeypatch.setattr("octavo.lab.slices.round.knobs.applied", applied)
    modes = {"a": "never", "b": "always", "c": "always"}
    results = round_of(monkeypatch, "queries", dict.fromkeys(modes, nothing), modes)
    assert results == {"a": "no copy", "b": "b", "c": "c"}
    assert found == ["always"]


@pytest.mark.usefixtures("nothing_is_started")
def test_a_cell_that_cannot_go_on_after_its_pieces_is_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OctavoError("no device")

    assert round_of(monkeypatch, "queries", {"a": refuse, "b": nothing}) == {"a": "no device", "b": "b"}


@pytest.mark.usefixtures("nothing_is_started")
def test_what_is_measured_before_a_trial_is_under_no_load_of_the_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """All servers are up and none is warmed up; one cell measures after the other."""
    events: list[str] = []
    alone = threading.Lock()

    def note(step: str) -> Callable[[object, RoundCell], None]:
        def do(_: object, cell: RoundCell) -> None:
            assert alone.acquire(blocking=step != "beforehand")
            events.append(step)
            alone.release()

        return do

    for name, step in {"start_server": "start", "measure_beforehand": "beforehand", "warm_server": "warm"}.items():
        monkeypatch.setattr(slice_round, name, note(step))
    assert round_of(monkeypatch, "queries", {"a": nothing, "b": nothing}) == {"a": "a", "b": "b"}
    assert events == ["start", "start", "beforehand", "beforehand", "warm", "warm"]


@pytest.mark.usefixtures("nothing_is_started")
def test_other_servers_are_paused_while_one_is_prepared_in_its_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with the same modes too: two at once would be warmed up less than one alone."""
    events: list[str] = []

    def note(step: str) -> Callable[..., None]:
        return lambda *given: events.append(f"{step} {given[-1].name}")

    @contextmanager
    def switches(*_: object) -> Generator[Switches, None, None]:
        yield Recorded({"thp": cast(Any, None)})

    class Recorded(Switches):
        def to(self, levels: Mapping[str, str]) -> None:
            events.append(levels["thp"])

        def facts(self, levels: Mapping[str, str]) -> dict[str, Any]:
            return {}

        def drifted(self) -> list[str]:
            return []

    monkeypatch.setattr("octavo.lab.slices.round.switched.switches", switches)
    monkeypatch.setattr(slice_round, "reach", note("reach"))
    monkeypatch.setattr(slice_round, "thaw", note("continue"))
    monkeypatch.setattr(slice_round, "freeze", note("pause"))
    cells = {"a": nothing, "b": nothing, "c": nothing}
    assert round_of(monkeypatch, "queries", cells, {"a": "never", "b": "always", "c": "never"}) == {
        "a": "a", "b": "b", "c": "c",
    }  # fmt: skip
    first = events.index("reach a") - 2
    assert events[first : first + 12] == [
        "never", "continue a", "reach a", "pause a",
        "always", "continue b", "reach b", "pause b",
        "never", "continue c", "reach c", "pause c",
    ]  # fmt: skip


def test_a_cell_measures_beforehand_what_its_workload_needs() -> None:
    asked: list[tuple[object, ...]] = []

    def beforehand(*what: object) -> None:
        asked.append(what)

    server, levels = object(), {"cache": "cold"}
    trial: Any = SimpleNamespace(levels=levels)
    cell = RoundCell("a", trial, ExitStack())
    cell.server = cast(Any, server)
    for workload in (SimpleNamespace(beforehand=beforehand), SimpleNamespace()):
        equipment: Any = SimpleNamespace(workload=workload)
        measure_beforehand(equipment, cell)
    assert asked == [(server, levels)]


def postmaster(pid: int, read: int) -> Process:
    return Process(pid, 1, pid, "postgres", kernel=False, cpu=0.0, reaped_cpu=0.0, read_bytes=read)


def test_what_a_restarted_server_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def settled(root: int, *, storage: bool) -> dict[int, Process]:
        return {pid: postmaster(pid, 900) for pid in (7, 8)}

    monkeypatch.setattr(round_cell, "settled_table", settled)
    before = {7: postmaster(7, 100)}
    assert round_cell.read_since(before, 7) == 800
    assert round_cell.read_since(before, 8) is None
