"""Periodic snapshots: a live view on a terminal, frames or lines of JSON elsewhere."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live


class JsonSnapshot(Protocol):
    """One snapshot as JSON."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        ...


SnapshotT = TypeVar("SnapshotT", bound=JsonSnapshot)
View = Callable[[SnapshotT, int], RenderableType]  # for a terminal of this many columns


def show_once(
    look: Callable[[], SnapshotT], view: View[SnapshotT], seconds: float, out: Console, *, as_json: bool
) -> None:
    """One look, over one interval."""
    time.sleep(seconds)
    snapshot = look()
    if as_json:
        print(json.dumps(snapshot.as_dict(), indent=2, allow_nan=False))
    else:
        out.print(view(snapshot, out.width))


def show_until_interrupted(
    look: Callable[[], SnapshotT], view: View[SnapshotT], seconds: float, out: Console, *, as_json: bool
) -> None:
    """Takes a snapshot every so many seconds, until Ctrl-C; the last view stays on the terminal."""
    shown = None
    with suppress(KeyboardInterrupt):
        if as_json:
            for _ in _ticks(seconds):
                print(json.dumps(look().as_dict(), allow_nan=False), flush=True)
        elif not out.is_terminal:
            for _ in _ticks(seconds):
                out.print(view(look(), out.width))
                sys.stdout.flush()
        else:
            with Live(console=out, screen=True, auto_refresh=False) as live:
                for _ in _ticks(seconds):
                    shown = look()
                    live.update(view(shown, out.width), refresh=True)
    if shown is not None:
        out.print(view(shown, out.width))


def _ticks(seconds: float) -> Iterator[int]:
    began = time.monotonic()
    number = 0
    while True:
        number += 1
        now = time.monotonic()
        # A slow look does not make those after it follow each other faster.
        number = max(number, int((now - began) / seconds) + 1)
        time.sleep(max(0.0, began + number * seconds - now))
        yield number
