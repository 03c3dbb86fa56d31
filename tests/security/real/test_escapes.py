"""A dump that tries to escape: programs that its SQL runs have the server account's rights, until the load is made."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.home import runtime_directory
from octavo.host import child_group, confine, trees
from octavo.host.children import Account
from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.host.process import find_by_environment
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.datasets import cache, graft
from octavo.postgres.datasets.load import ensure_dataset
from octavo.postgres.datasets.spec import Dataset, DatasetSpec
from octavo.postgres.pinned import pinned_settings
from octavo.workload_support.restore import restore

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

_MB = 1024**2
# Identifies a process that stays behind.
_SLEEPS = "98765.4321"


@dataclass(frozen=True, slots=True)
class Targets:
    """Files of root's that a dump would like to have. `port` is listened to on the loopback interface."""

    directory: Path
    listener: socket.socket

    @property
    def file(self) -> Path:
        return self.directory / "file"

    @property
    def inside(self) -> Path:
        return self.directory / "inside"

    @property
    def secret(self) -> Path:
        return self.directory / "closed" / "secret"

    @property
    def left(self) -> Path:
        """The path for a set-user-ID file."""
        return Path("/tmp") / f"{self.directory.parent.name}-program"  # noqa: S108 (the dump's choice)

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def state(self) -> list[tuple[str, int, int, int, int, bytes]]:
        """Name, owner, group, mode, links and content of each."""
        return [
            (
                str(path), facts.st_uid, facts.st_gid, facts.st_mode, facts.st_nlink,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in sorted((self.directory, *self.directory.rglob("*")))
            for facts in [path.lstat()]
        ]  # fmt: skip


@pytest.fixture
def targets(home: Path) -> Iterator[Targets]:
    directory = home / "targets"
    (directory / "inside").mkdir(parents=True)
    (directory / "closed").mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        made = Targets(directory, listener)
        made.file.write_text("root's own\n")
        made.secret.write_text("other people's rows\n")
        made.secret.chmod(0o600)
        yield made
    made.left.unlink(missing_ok=True)
    assert trees.remove(directory)
    for name in cache.held():
        cache.release(name)
    assert trees.remove(cache.datasets_directory())


@pytest.fixture(scope="module")
def initialised(home: Path, builds: dict[str, Build], account: Account) -> Iterator[Path]:
    """A cluster as initdb leaves it, which is copied, because initdb takes seconds."""
    place = home / "initialised"
    with Journal() as journal:
        cluster.initialise(builds["8kB"], place, journal, account, wal_segment=16 * _MB, checksums=True)
    yield place
    assert trees.remove(place)


@dataclass(frozen=True, slots=True)
class Escape:
    """A program that the dump runs in the data directory, and its error message; None if it does no harm."""

    program: str
    told: str | None


_ESCAPES = {
    "a link in place of a configuration file": Escape(
        "rm pg_ident.conf && ln -s {file} pg_ident.conf", r"data/pg_ident\.conf is a symbolic link"
    ),
    "a link in place of the control file": Escape("rm global/pg_control && ln -s {file} global/pg_control", "."),
    "the WAL's directory is one of root's": Escape("mv pg_wal base/wal && ln -s {inside} pg_wal", "."),
    "a process in the background": Escape(
        f"env -i setsid sh -c 'exec sleep {_SLEEPS}' >/dev/null 2>&1 </dev/null &", None
    ),
    "a set-user-ID file": Escape("cp /bin/true {left} && chmod 4755 {left}", r"restoring dump\.sql failed: .*program"),
    "a file that only root may read": Escape("cat {secret} >stolen", r"restoring dump\.sql failed: .*program"),
    "a call outside": Escape("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", r"restoring dump\.sql failed: .*program"),
    "a hard link to a file of root's": Escape("ln {file} planted", "."),
    "a hard link": Escape("ln PG_VERSION planted", "data/planted is a file with several names|several names"),
    "FIFOs": Escape("rm postmaster.opts && mkfifo postmaster.opts base/planted", "is not a regular file"),
    "directories without end": Escape(
        "p=$(printf 'd/%.0s' $(seq 600)); mkdir x; for i in 1 2; do mkdir -p n/$p && mv x n/$p && mv n x; done",
        "its directories nest more than",
    ),
}


@pytest.mark.parametrize("name", _ESCAPES)
def test_a_dump_gets_nothing(
    name: str,
    builds: dict[str, Build],
    initialised: Path,
    journal: Journal,
    account: Account,
    targets: Targets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Real loads of a dump that runs programs, each made with its own server."""
    if "background" in name and child_group.hierarchy() is None:
        pytest.skip("no control groups may be made here")
    if "outside" in name and not confine.can_unshare_network():
        pytest.skip("no network namespaces here")
    escape = _ESCAPES[name]
    program = escape.program.format(
        file=targets.file, inside=targets.inside, secret=targets.secret, left=targets.left, port=targets.port
    )

    def initialise(_build: Build, directory: Path, *_: object, **_sizes: object) -> None:
        trees.copy(initialised, directory, journal, account)

    monkeypatch.setattr(cluster, "initialise", initialise)
    dump = tmp_path / "dump.sql"
    dump.write_text(f"CREATE TABLE t AS SELECT 1 AS x;\nCOPY (SELECT 1) TO PROGRAM $$cat >/dev/null; {program}$$;\n")
    before, loads = targets.state(), [one.name for one in cache.list_loads()]
    build = builds["8kB"]
    spec = DatasetSpec((("dump", name),), 16 * _MB, 32 * _MB, checksums=True, load=1)
    settings = pinned_settings(build.manifest["version"], build.manifest["data_block"])

    def load() -> None:
        made = ensure_dataset(build, spec, lambda server: restore(server, dump), settings, journal, account)
        copied = (cache.datasets_directory() / "copy").absolute()
        graft.copy(made, copied, journal)
        assert trees.remove(copied)

    if escape.told is None:
        load()
    else:
        with pytest.raises(OctavoError, match=escape.told) as raised:
            load()
        assert "\n" not in str(raised.value)
        assert "other people" not in str(raised.value)
        assert [one.name for one in cache.list_loads()] == loads
    assert targets.state() == before
    assert not targets.left.exists() or targets.left.stat().st_mode & 0o7000 == 0
    with pytest.raises(BlockingIOError):  # nobody has connected
        targets.listener.accept()
    _nothing_is_left(journal)


# What a hostile load tries with each file of the loads that it finds. It ends well if it found some and changed none.
_POISON = """
import os, sys
own = os.getcwd() + "/"
found, changed = 0, []
def tried(what, change, path):
    try:
        change(path)
        changed.append((what, path))
    except OSError:
        pass
for place, _, names in os.walk(sys.argv[1]):
    if not (place + "/").startswith(own) and "/data" in place:
        tried("new", lambda p: open(p + "/new", "w"), place)
        tried("link", lambda p: os.symlink("/", p + "/link"), place)
        tried("rights", lambda p: os.chmod(p, 0o777), place)
        for path in (f"{place}/{name}" for name in names):
            found += 1
            tried("write", lambda p: os.open(p, os.O_WRONLY), path)
            tried("cut", lambda p: os.truncate(p, 0), path)
            tried("replace", lambda p: os.rename("PG_VERSION", p), path)
            tried("remove", os.unlink, path)
            tried("another name", lambda p: os.link(p, p + "2"), path)
            tried("a name of one's own", lambda p: os.link(p, "own"), path)
            tried("rights", lambda p: os.chmod(p, 0o666), path)
            tried("time", os.utime, path)
sys.exit(f"{found} found, {changed[:3]}" if changed or found < 100 else 0)
"""


def test_a_hostile_load_changes_no_load_that_is_kept(
    builds: dict[str, Build],
    initialised: Path,
    journal: Journal,
    account: Account,
    targets: Targets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It finds another load, and the cluster from which copies are made, and cannot change any of their files."""

    def initialise(_build: Build, directory: Path, *_: object, **_sizes: object) -> None:
        trees.copy(initialised, directory, journal, account)

    monkeypatch.setattr(cluster, "initialise", initialise)
    build = builds["8kB"]
    settings = pinned_settings(build.manifest["version"], build.manifest["data_block"])

    def load(name: str, sql: str) -> Dataset:
        dump = tmp_path / f"{name}.sql"
        dump.write_text(sql)
        spec = DatasetSpec((("dump", name),), 16 * _MB, 32 * _MB, checksums=True, load=1)
        return ensure_dataset(build, spec, lambda server: restore(server, dump), settings, journal, account)

    victim = load("victim", "CREATE TABLE t AS SELECT 1 AS x;\n")
    stock = graft.stock(build, victim.spec, journal)
    before = [_facts(tree) for tree in (victim.directory, stock)]
    assert all(owner == 0 for facts in before for owner, *_ in facts.values())
    script = targets.inside / "poison.py"
    script.write_text(_POISON)
    program = f"cat >/dev/null; exec /usr/bin/python3 -I {script} {cache.datasets_directory()}"
    load("hostile", f"CREATE TABLE t AS SELECT 1 AS x;\nCOPY (SELECT 1) TO PROGRAM $${program}$$;\n")
    assert [_facts(tree) for tree in (victim.directory, stock)] == before
    copied = cache.datasets_directory() / "copy"
    graft.copy(victim, copied, journal)
    trees.check_plain(copied, account)
    log = targets.directory / "log"
    with cluster.start(build, copied, settings, journal, account, log=log) as server:
        assert server.connection.execute("SELECT x FROM t").fetchall() == [{"x": 1}]
    assert trees.remove(copied)


def _facts(tree: Path) -> dict[str, tuple[int, int, int, float, bytes]]:
    """Owner, mode, links, time and content of everything in the tree, by path."""
    return {
        str(path): (
            facts.st_uid, facts.st_mode, facts.st_nlink, facts.st_mtime, path.read_bytes() if path.is_file() else b"",
        )
        for path in (tree, *tree.rglob("*"))
        for facts in [path.lstat()]
    }  # fmt: skip


def _nothing_is_left(journal: Journal) -> None:
    assert not [
        pid.name
        for pid in Path("/proc").iterdir()
        if pid.name.isdecimal() and _SLEEPS.encode() in _command_line(pid / "cmdline")
    ]
    assert find_by_environment(TOKEN_VARIABLE, journal.token) == []
    assert list(runtime_directory().glob(f"{journal.token[:8]}-*")) == []
    assert not list(cache.datasets_directory().glob(f".*-{journal.token[:8]}"))


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""
