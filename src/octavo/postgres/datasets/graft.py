"""Grafting: a trial's own copy of a load, in a cluster of any WAL block and segment.

Only the control file, the WAL and a few defaults in postgresql.conf depend on the WAL's geometry. These come from the
target build's initdb, everything else from the load. pg_resetwal of the target build then writes a control file and a
first WAL segment that continue from the load's transaction, object and multixact counters, at a WAL position beyond
every page's. Every copy is made this way, even with the geometry of the load itself, so that cells do not differ in
their history.
"""

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError
from octavo.home import make_directory
from octavo.host import children, published, trees
from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.host.kept import keep
from octavo.host.page_cache import forget
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.datasets import cache, control
from octavo.postgres.datasets.control import Counters
from octavo.postgres.datasets.spec import Dataset, DatasetSpec
from octavo.units import human_size

_CONFIGURATION = ("postgresql.conf", "pg_hba.conf", "pg_ident.conf")
_MB = 1024**2
# A copy leaves this share of its size free, for the filesystem's own data.
_SPARE = 0.1


def copy(dataset: Dataset, target: Path, journal: Journal) -> None:
    """Makes a pristine copy that shares no block with the load, on disk and out of the page cache.

    It is a cluster with the dataset's build, WAL segment and recycled WAL, shut down cleanly. It does not use reflinks,
    because the cost of copy-on-write depends on the block size. Raises HostError when there is no disk space,
    OctavoError when the graft does not continue from the load.
    """
    account = server_account()
    needed = dataset.copy_bytes * (1 + _SPARE)
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise HostError(f"{target.parent} has {human_size(free)} free, a trial needs {human_size(needed)}")
    segment = dataset.spec.wal_segment
    trees.copy(dataset.directory, target, journal, account)
    trees.copy_over(stock(dataset.build, dataset.spec, journal), target, journal, account)
    before = Counters(**dataset.manifest["counters"])
    _reset(dataset.build, target, before, segment, journal, account)
    _supply(target, before, segment, dataset.spec.recycled_segments, journal, account)
    trees.sync(target)
    for tree in (target, dataset.directory):
        forget(tree)
    published.note_use(dataset.directory.parent)


def _reset(build: Build, target: Path, before: Counters, segment: int, journal: Journal, account: Account) -> None:
    arguments = [*control.reset_arguments(before, segment), "--pgdata", target]
    children.check(
        children.run([build.program("pg_resetwal"), *arguments], journal, role="pg_resetwal", account=account),
        "pg_resetwal on the copy",
    )
    control.check_continues(control.read(build, target, journal, account), before, segment)


# The script that writes them, as the account. Arguments: the MB of each, their names.
_WRITE_ZEROS = """\
umask 077
count=$1
shift
for name; do dd if=/dev/zero "of=$name" bs=1M "count=$count" conv=excl status=none || exit; done
"""


def _supply(target: Path, before: Counters, segment: int, segments: int, journal: Journal, account: Account) -> None:
    """Writes the WAL segments that are ready for reuse, after the one in use.

    They are files of zeros under the names of future segments, as the server itself makes them in advance (xlog.c,
    XLogFileInitInternal with wal_init_zero). A trial that runs out of them creates new ones, which a server in
    production did long ago; unequal supplies would charge that to one cell alone.
    """
    position = control.position_after(before)
    names = [
        f"pg_wal/{control.wal_file(before.timeline, position + number * segment, segment)}"
        for number in range(1, segments + 1)
    ]
    trees.act_inside(target, ["sh", "-c", _WRITE_ZEROS, "sh", str(segment // _MB), *names], journal, account)


def stock(build: Build, spec: DatasetSpec, journal: Journal) -> Path:
    """The files that a graft takes from the target's initdb: control file, configuration, the WAL's empty directories.

    They are made once per build, WAL segment and checksums, and have some 50 kB. No server starts on them.
    """
    segment, checksums = spec.wal_segment, spec.checksums
    account = server_account()
    name = f"initdb-{build.name}-{segment // 1024**2}MB-{'on' if checksums else 'off'}"
    path = make_directory(cache.datasets_directory() / ".stock") / name
    with cache.exclusively(name):
        if (path / "data").is_dir():
            return path / "data"
        with cache.unpublished(name, journal) as work:
            whole, kept = work / "initdb", work / "data"
            cluster.initialise(build, whole, journal, account, wal_segment=segment, checksums=checksums)
            trees.make_for(kept, account)
            # The WAL's directories without its segments.
            trees.act_inside(whole, ["find", "pg_wal", "-maxdepth", "1", "-type", "f", "-delete"], journal, account)
            parts = ("PG_VERSION", "pg_wal", "global/pg_control", *_CONFIGURATION)
            trees.act_inside(whole, ["cp", "-a", "--parents", "-t", kept, *parts], journal, account)
            trees.remove(whole)
            keep(kept, account)
            trees.sync(kept)
            published.publish(work, path, {"build": build.name})
    return path / "data"


@contextmanager
def asked(build: Build, spec: DatasetSpec, journal: Journal) -> Generator[Path, None, None]:
    """A copy of the stock in which a server can compute its settings, because it writes a lock file."""
    kept = stock(build, spec, journal)
    with cache.unpublished(f"asked-{secrets.token_hex(4)}", journal) as work:
        trees.copy(kept, work / "data", journal, server_account())
        yield work / "data"
