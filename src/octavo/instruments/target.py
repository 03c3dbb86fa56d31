"""The observed server, as far as it is visible from here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """An observed server. Facts that are not visible are None, with a reason.

    `query` returns the rows of a query from `postgres/sql`, in its version for the server; `backend` is the process
    that executes it. `paused`: whether it is read only while it is paused, so that a reading takes it no CPU time.
    """

    query: Callable[[str], Rows]
    version: int
    directory: Path | None
    postmaster: int | None
    backend: int | None
    no_directory: str = ""
    no_processes: str = ""
    proc: Path = Path("/proc")
    paused: bool = False
