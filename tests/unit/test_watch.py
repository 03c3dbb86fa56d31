"""What `octavo watch` shows, and its messages when it cannot."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.test_sampler import Counting, FakeClock

from octavo.errors import HostError, OctavoError, UsageError
from octavo.instruments import instruments
from octavo.instruments.base import Reader, Sampled
from octavo.instruments.figures import Gauge, Rate, Ratio
from octavo.instruments.target import Rows, Target
from octavo.watch.connect import connect
from octavo.watch.snapshot import ServerMonitor, ServerSnapshot, ShownFigure
from octavo.watch.view import view

SERVER: Mapping[str, Any] = {
    "version": "18.6",
    "data_block": 4096,
    "wal_block": 16384,
    "shared_buffers": 256 * 1024**2,
    "huge_pages": "try",
    "huge_pages_status": "off",
    "io_method": "worker",
    "device": "nvme0n1",
}


def snapshot(value: float = 1.5, blind: Mapping[str, str] | None = None) -> ServerSnapshot:
    """Every figure, with every role that an item may be."""
    shown = [
        ShownFigure(name, figure.metric, item, value)
        for name, instrument in instruments().items()
        if isinstance(instrument, Sampled)
        for figure in instrument.figures
        if isinstance(figure, Gauge | Rate | Ratio)
        for item in (None, "client backend", "checkpointer", "cpu", "memory", "io")
    ]
    return ServerSnapshot(1.7e9, 1.0, SERVER, tuple(shown), blind or {}, 0.001)


def text(shown: ServerSnapshot, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(view(shown, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 119, 120, 200])
def test_it_fits_its_terminal_and_has_everything(width: int) -> None:
    shown = text(snapshot(), width)
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("data block 4kB", "WAL block 16kB", "page tables", "written per generated", "nvme0n1", "checkpointer"):
        assert word in " ".join(shown.split())


@given(st.floats(0, 1e18, allow_nan=False))
def test_any_value_can_be_shown(value: float) -> None:
    assert "memory" in text(snapshot(value), 200)


def test_what_cannot_be_seen_is_said_once_for_each_reason() -> None:
    blind = {"processes": "it runs on another host", "pss": "it runs on another host", "tlb": "no counters"}
    nothing = ServerSnapshot(1.7e9, 1.0, SERVER, (), blind, 0.0)
    shown = text(nothing, 200)
    assert shown.count("it runs on another host") == 1
    assert "not available: processes, pss: it runs on another host" in shown
    assert "·" in shown


def test_json_has_every_figure_with_its_unit() -> None:
    content = json.loads(json.dumps(snapshot(blind={"tlb": "none"}).as_dict(), allow_nan=False))
    assert content["schema_version"] == 1
    assert content["blind"] == [{"instrument": "tlb", "reason": "none"}]
    assert all({"instrument", "metric", "item", "value", "unit", "title"} == set(one) for one in content["figures"])


@pytest.mark.parametrize(
    "dsn", ["postgres//me:hunter2@host/shop", "host=x password='hunter2", "postgresql://me:hunter2@host:notaport/x=?"]
)
def test_a_password_is_never_repeated(dsn: str) -> None:
    with pytest.raises((UsageError, HostError)) as caught:
        connect(dsn)
    assert "hunter2" not in str(caught.value)
    assert "--dsn" in str(caught.value)
    assert caught.value.__cause__ is None  # nor in a debugger's output


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"could not connect.*--dsn") as caught:
        connect(f"host={tmp_path} user=nobody")
    assert "\n" not in str(caught.value)


def target() -> Target:
    def query(name: str) -> Rows:
        raise AssertionError(name)

    return Target(query, 150000, None, None, None, "the directory is elsewhere", "the processes are elsewhere")


def test_a_server_elsewhere_leaves_the_machine_that_we_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {name: one for name, one in instruments().items() if isinstance(one, Sampled) and not one.asks_server}
    monkeypatch.setattr("octavo.watch.snapshot.instruments", lambda: here)
    monitor = ServerMonitor(target(), SERVER, gone=lambda: False)
    seen = monitor.sample()
    monitor.close()
    # It may be open for weeks, on a server in production.
    assert not any(one.series() for one in monitor._sampler.recordings)  # pyright: ignore[reportPrivateUsage]
    assert seen.blind["device"] == "the directory is elsewhere"
    assert seen.blind["processes"] == seen.blind["pss"] == "the processes are elsewhere"
    assert seen.value("memory_available_bytes") is not None
    assert seen.value("process_shmem_bytes", "client backend") is None


def test_a_server_that_has_gone_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.watch.snapshot.instruments", dict)
    monitor = ServerMonitor(target(), SERVER, gone=lambda: True)
    with pytest.raises(OctavoError, match="no longer responds"):
        monitor.sample()


def test_a_server_that_is_too_busy_to_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Exception] = [psycopg.errors.QueryCanceled("canceling statement due to statement timeout")] * 2

    class Slow(Counting):
        """Cannot be opened at first."""

        def open(self, target: Target) -> Reader:
            if problems:
                raise problems.pop()
            return super().open(target)

    clock = FakeClock()
    monkeypatch.setattr("octavo.watch.snapshot.instruments", lambda: {"processes": Slow(clock)})
    monitor = ServerMonitor(target(), SERVER, gone=lambda: False, clock=clock)
    reason = "the server did not answer in time: canceling statement due to statement timeout"
    assert monitor.sample().blind == {"processes": reason}
    assert monitor.sample().blind == {}
    clock.time += 2
    assert monitor.sample().value("reads") == 10.0
    monitor.close()
