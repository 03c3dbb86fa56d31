"""Files of a run outside of the store: a directory of its logs, and the digest of its plan.

A shared store is not trusted: it may have an id that leads to another path, or another plan for a run that was begun
here. Root reads the files that a plan names, for the servers' user, so it continues only its own plans.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.home import make_directory, octavo_home, replace_file
from octavo.plan.cells import Cell
from octavo.store.address import ServerAddress, StoreAddress

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,149}")
# What --budget replaces.
_MAY_CHANGE = {"budget", "most_rounds"}


def checked_id(run: str) -> str:
    """The id, with which files are named. Raises UsageError for one that Octavo gives to no run."""
    if not _ID.fullmatch(run):
        raise UsageError(f"{run!r} is not a valid run id: it cannot be continued")
    return run


def run_directory(run: str) -> Path:
    """The run's directory on this machine, made where it is not. Raises OctavoError."""
    return make_directory(octavo_home() / "runs" / checked_id(run))


def remember_plan(address: StoreAddress, run: str, plan: Mapping[str, Any], cells: Sequence[Cell]) -> None:
    """Notes what this machine measures for a run of a shared store. Raises OctavoError."""
    if isinstance(address, ServerAddress):
        path = run_directory(run) / "plan.sha256"
        try:
            replace_file(path, _digest(plan, cells).encode(), durable=True, mode=0o600)
        except OSError as error:
            raise HostError(f"{path} cannot be written: {error.strerror}; make room there") from error


def check_plan(address: StoreAddress, run: str, plan: Mapping[str, Any], cells: Sequence[Cell]) -> None:
    """Raises UsageError where a shared store has the run with a plan that this machine did not begin it with."""
    checked_id(run)
    if not isinstance(address, ServerAddress):
        return
    try:
        begun = (octavo_home() / "runs" / run / "plan.sha256").read_text()
    except FileNotFoundError:
        raise UsageError(f"{run} was not begun on this machine; continue it where it was") from None
    except (OSError, ValueError) as error:
        raise HostError(f"the record of the plan of {run} cannot be read: {error}; start a new run") from error
    if begun != _digest(plan, cells):
        raise UsageError(
            f"{run} has another plan in the store than it was begun with and is not continued; start a new run, and "
            "check who may write to the store"
        )


def _digest(plan: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    kept = {name: value for name, value in plan.items() if name not in _MAY_CHANGE}
    content = json.dumps([kept, [asdict(cell) for cell in cells]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
