"""Puts dataset, caches and memory limit into the declared state before a trial."""

import random
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import trees
from octavo.host.journal import Journal
from octavo.knobs.drop_caches import drop_caches
from octavo.lab.steady import reach_steady
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import graft
from octavo.postgres.datasets.spec import Dataset
from octavo.text import one_line
from octavo.units import human_size
from octavo.workloads.base import Levels, Workload

# A disk with less free space than this is full: a WAL segment does not fit.
_FULL_BYTES = 16 * 1024**2


@contextmanager
def pristine_copy(
    source: Dataset, journal: Journal, parent: Path | None = None
) -> Generator[tuple[Path, dict[str, Any]], None, None]:
    """Yields a copy of the dataset for one trial, removed at the end, and facts on how it was dropped from the page
    cache.

    The copy is made in `parent`, the trial's own volume; else in the state directory. If an error comes while there is
    no space, HostError is raised instead of it, because later trials would fail, too; for a volume OctavoError.
    """
    target = make_directory(parent or octavo_home() / "scratch") / secrets.token_hex(8)
    entry = journal.record("directory", path=str(target))
    try:
        graft.copy(source, target, journal)
        yield target, drop_caches(target)
    except HostError:
        raise
    except Exception as error:  # on a full disk a server may not even be able to report that
        if (free := shutil.disk_usage(target.parent).free) < _FULL_BYTES:
            what = one_line(error)
            if parent is not None:  # this trial's own, which goes with it
                raise OctavoError(f"the trial's volume is full, {human_size(free)} are left ({what})") from error
            raise HostError(f"{target.parent} has {human_size(free)} free ({what}); free some space there") from error
        raise
    finally:
        if trees.remove(target):
            journal.done(entry)


def warm_up(server: Server, workload: Workload, levels: Levels, seed: int) -> None:
    """Brings a started server into the declared cache state.

    `warm`: reads every relation through shared buffers, then runs the workload briefly. `cold`: nothing was read.
    """
    if levels["cache"] == "warm":
        server.query("prewarm")
        workload.warm(server, levels, seed)


def reach_regime(server: Server, workload: Workload, levels: Levels, seed: int) -> dict[str, Any]:
    """Brings the server into the declared WAL regime. Returns the trial's facts about it.

    `after-checkpoint`: the first change of each page in the trial writes a full-page image. `steady`: see `lab.steady`;
    the seed makes all cells of a round begin at the same phase of a cycle.
    """
    if levels["wal_regime"] == "steady":
        phase = random.Random(f"phase/{seed}").random()
        return {"steady": reach_steady(server, lambda window: workload.warm(server, levels, seed + 1 + window), phase)}
    server.execute("CHECKPOINT")
    return {}
