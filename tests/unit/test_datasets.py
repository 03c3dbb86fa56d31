"""The cache of loads with empty loads: complete or absent, limits, eviction; and the arithmetic of grafting."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import small_plan

from octavo.cli import cache as cli
from octavo.cli.choices import TableFormat
from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory
from octavo.host import lock, published
from octavo.host.journal import Journal, recover
from octavo.lab.loads import bytes_of_copy, keep_only, way_out_of_room
from octavo.plan.cells import make_cells
from octavo.postgres.builds.cache import Build
from octavo.postgres.datasets import cache, control, disk_space
from octavo.postgres.datasets.control import Counters
from octavo.postgres.datasets.spec import Dataset, DatasetSpec, load_name
from octavo.units import human_size
from octavo.workloads import find

MB = 1024**2
DAY = 86400.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    monkeypatch.setattr(lock, "runtime_directory", lambda: tmp_path)  # a concurrent run is irrelevant to these tests
    make_directory(tmp_path / "datasets")
    yield tmp_path / "datasets"
    for name in cache.held():
        cache.release(name)


def manifest(size: int = 100 * MB) -> dict[str, object]:
    contents = {"workload": "pgbench", "scale": "5", "age": "packed"}
    return {
        "version": "18.6", "data_block": "4kB", "checksums": True, "contents": contents, "load": 1, "build": "b",
        "directory_bytes": size, "database_bytes": size // 2,
    }  # fmt: skip


def make_load(name: str, *, size: int = 100 * MB, days_ago: float = 0) -> cache.Load:
    with Journal() as journal, cache.unpublished(name, journal) as work:
        (work / "data").mkdir()
        (work / "data" / "file").write_bytes(b"x" * 1000)
        published.publish(work, cache.datasets_directory() / name, manifest(size))
    used = time.time() - days_ago * DAY
    os.utime(cache.datasets_directory() / name / published.MANIFEST, (used, used))
    load = cache.read_load(name)
    assert load is not None
    return load


def names() -> list[str]:
    return [load.name for load in cache.list_loads()]


@pytest.mark.usefixtures("place")
def test_all_loads_but_those_kept_are_let_go() -> None:
    for name in ("kept", "old", "older"):
        make_load(name)
        cache.hold(name)
    keep_only([cast(Dataset, SimpleNamespace(name="kept")), cast(Dataset, SimpleNamespace(name="never held"))])
    assert cache.held() == ["kept"]
    assert [name for name in ("kept", "old", "older") if cache.is_used(name)] == ["kept"]
    keep_only([])
    assert cache.held() == []


@pytest.mark.usefixtures("place")
def test_what_loads_could_take_is_the_limit_or_the_disk_with_what_they_have_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_load("one", size=300 * MB)
    monkeypatch.setattr(disk_space, "free_bytes", lambda: 1000 * MB)
    spare = disk_space._SPARE_BYTES  # pyright: ignore[reportPrivateUsage]
    disk_space.set_limit(10_000 * MB)
    assert disk_space.available() == 1300 * MB - spare  # free disk space is the tighter limit
    disk_space.set_limit(400 * MB)
    assert disk_space.available() == 400 * MB
    make_load("two", size=200 * MB)
    assert disk_space.available() == 400 * MB
    disk_space.set_limit(10_000 * MB)
    assert disk_space.available() == 1500 * MB - spare
    disk_space.set_limit(None)
    assert disk_space.available() == (500 * MB + 1000 * MB) // 2


@pytest.mark.usefixtures("place")
def test_the_way_to_larger_datasets_is_the_limit_or_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    make_load("one", size=300 * MB)
    monkeypatch.setattr(disk_space, "free_bytes", lambda: 1000 * MB)
    assert disk_space.available_on_disk() == 1044 * MB
    assert disk_space.how_to_have(600 * MB) == ""  # of the default, 650 MB
    assert disk_space.how_to_have(700 * MB - 1) == "set the limit with octavo cache limit 700MB"
    disk_space.set_limit(10_000 * MB)
    assert disk_space.how_to_have(1000 * MB) == ""
    free = f"free 56 MB of disk space in {cache.datasets_directory()}"
    assert disk_space.how_to_have(1100 * MB) == free
    disk_space.set_limit(400 * MB)
    assert disk_space.how_to_have(1100 * MB) == f"{free} and set the limit with octavo cache limit 1100MB"


@pytest.mark.usefixtures("place")
def test_the_message_names_what_limits_the_datasets_of_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, workload = make_cells(small_plan()), find("pgbench")
    copy = max(bytes_of_copy(workload, cell.levels) for cell in cells)
    monkeypatch.setattr(disk_space, "free_bytes", lambda: 2**50)
    disk_space.set_limit(400 * MB)
    told = way_out_of_room(workload, cells, 700 * MB)
    limits = f"the cache's limit is 400 MB, 1024 TB of disk space is free, and a trial's copy takes {human_size(copy)}"
    assert told.startswith(f" ({limits}); set the limit with octavo cache limit ")
    disk_space.set_limit(2**49)
    assert told != way_out_of_room(workload, cells, 700 * MB)
    assert way_out_of_room(workload, cells, 700 * MB).endswith("start another one")


@pytest.mark.usefixtures("place")
def test_a_load_is_held_until_it_is_released() -> None:
    load = make_load("one")
    with Journal() as journal:
        assert not cache.is_used("one")
        assert cache.hold("one") == load
        assert cache.hold("one", wait=False) == load
        assert cache.is_used("one")
        with pytest.raises(OctavoError, match="one is in use"):
            cache.remove(load, journal)
        cache.release("one")
        assert cache.remove(load, journal) == 100 * MB
    assert cache.hold("one") is None
    assert cache.hold("one", wait=False) is None
    assert names() == []


@pytest.mark.usefixtures("place")
def test_a_load_in_the_making_is_not_there_yet_and_nobody_waits_who_only_looks() -> None:
    with cache.exclusively("one"):
        assert cache.hold("one", wait=False) is None
    make_load("one")
    with cache.exclusively("one"):
        assert cache.hold("one", wait=False) is None


def locks(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob(".*.lock"))


def test_the_file_of_a_lock_goes_with_its_load(place: Path) -> None:
    load = make_load("one")
    cache.hold("one")
    assert cache.is_used("one") and not cache.is_used("never made")
    assert locks(place) == [".one.lock"]
    cache.release("one")
    with Journal() as journal:
        cache.remove(load, journal)
    assert locks(place) == []
    with pytest.raises(OctavoError, match="the disk is full"), cache.exclusively("failed"):
        raise OctavoError("the disk is full")
    assert locks(place) == []
    make_load("kept")
    cache.hold("kept")
    (place / ".killed.lock").touch()
    with cache.exclusively("in the making"):
        (place / ".left.lock").touch()
        cache.remove_left_locks()
        assert locks(place) == [".in the making.lock", ".kept.lock"]
    cache.release("kept")


def test_who_waits_for_a_lock_whose_file_is_removed_locks_the_next_one(place: Path) -> None:
    """Two that lock different files of the same name would both make the load."""
    inside: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with cache.exclusively("one"):
            inside.append("waited")
            entered.set()
            assert leave.wait(60)

    with cache.exclusively("one"):
        first = cache.datasets_directory() / ".one.lock"
        number = first.stat().st_ino
        waiting = threading.Thread(target=wait)
        waiting.start()
        blocked = re.compile(rf"-> FLOCK .*:{number} ", re.MULTILINE)
        deadline = time.monotonic() + 60
        while not blocked.search(Path("/proc/locks").read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert inside == []
    assert entered.wait(60)
    with pytest.raises(OctavoError, match="one is in use"), cache.exclusively("one", wait=False):
        inside.append("a third one at the same time")
    leave.set()
    waiting.join(60)
    assert (inside, locks(place)) == (["waited"], [])


# For each requested step it forks a child, which is killed there, and reports its end.
STOPPED_AT = """
import os, pathlib, signal, subprocess, sys
from octavo import home
from octavo.host.journal import Journal
from octavo.postgres.datasets import cache
from tests.unit import test_datasets as tests

def counted(function):
    def call(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments, **options)
    return call

def stopped():
    for owner, name in (
        (pathlib.Path, "mkdir"), (pathlib.Path, "write_bytes"), (pathlib.Path, "rename"), (pathlib.Path, "replace"),
        (pathlib.Path, "unlink"), (os, "fsync"), (subprocess, "run"), (os, "unlink"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    if sys.argv[1] == "make":
        tests.make_load("one")
    else:
        with Journal() as journal:
            cache.remove(cache.by_name("one"), journal)

for line in sys.stdin:
    left = int(line)
    if not (child := os.fork()):
        stopped()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def stopping(doing: str) -> Generator[Callable[[int], int], None, None]:
    """Does it in a process that is killed before the step of a number, and yields its exit code; one Python for all."""
    forker = subprocess.Popen(
        [sys.executable, "-c", STOPPED_AT, doing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    with forker:
        assert forker.stdin is not None and forker.stdout is not None
        to, answers = forker.stdin, forker.stdout

        def stopped_at(step: int) -> int:
            print(step, file=to, flush=True)
            return int(answers.readline())

        yield stopped_at


@pytest.mark.parametrize("doing", ["make", "remove"])
def test_kill_9_between_any_two_steps_leaves_a_whole_load_or_none(doing: str, place: Path) -> None:
    step, ended = 0, False
    with stopping(doing) as stopped_at:
        while not ended:
            if doing == "remove" and not names():
                make_load("one")
            code = stopped_at(step)
            assert code in (0, -signal.SIGKILL)
            for load in cache.list_loads():
                assert (load.path / "data" / "file").read_bytes() == b"x" * 1000
                assert load.size == 100 * MB
            recover()
            assert [path.name for path in place.iterdir() if path.is_dir()] == names()
            step, ended = step + 1, code == 0
            if doing == "make" and names() and not ended:
                with Journal() as journal:
                    cache.remove(cache.by_name("one"), journal)
    assert step > 5
    assert names() == (["one"] if doing == "make" else [])


def room_for(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates this much free disk space; removed loads add to it."""
    everything = sum(load.size for load in cache.list_loads())
    monkeypatch.setattr(
        disk_space, "free_bytes", lambda: free + everything - sum(load.size for load in cache.list_loads())
    )


@pytest.mark.usefixtures("place")
def test_the_least_recently_used_goes_first_and_what_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, days in (("new", 0), ("oldest", 9), ("held", 8), ("old", 7), ("middle", 3)):
        make_load(name, days_ago=days)
    room_for(10_000 * MB, monkeypatch)
    cache.hold("held")
    with Journal() as journal:
        disk_space.set_limit(600 * MB)
        assert disk_space.make_room("next", 100 * MB, 200 * MB, journal) == []
        disk_space.set_limit(400 * MB)
        assert disk_space.make_room("next", 100 * MB, 200 * MB, journal) == ["oldest", "old"]
        disk_space.set_limit(200 * MB)
        assert disk_space.make_room("next", 90 * MB, 200 * MB, journal) == ["middle", "new"]
        with pytest.raises(HostError, match="take 100 MB, next will take about 110 MB, the limit is 200 MB; raise it"):
            disk_space.make_room("next", 110 * MB, 200 * MB, journal)
    assert names() == ["held"]


@pytest.mark.usefixtures("place")
def test_a_full_disk_is_told_with_figures_and_nothing_goes_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    make_load("one", days_ago=2)
    make_load("two", days_ago=1)
    room_for(500 * MB, monkeypatch)
    disk_space.set_limit(10_000 * MB)
    with Journal() as journal:
        with pytest.raises(HostError, match=r"has 500 MB free, loading next needs about 1\.14 GB"):
            disk_space.make_room("next", 450 * MB, 912 * MB, journal)
        assert names() == ["one", "two"]
        assert disk_space.make_room("next", 100 * MB, 300 * MB, journal) == ["one"]


@pytest.mark.usefixtures("place")
def test_the_default_limit_counts_a_load_that_was_just_made(monkeypatch: pytest.MonkeyPatch) -> None:
    make_load("other", days_ago=1)
    room_for(1000 * MB, monkeypatch)  # of which a half is 550 MB
    with Journal() as journal:
        assert disk_space.make_room("next", 440 * MB, 440 * MB, journal) == []
        room_for((1000 - 440) * MB, monkeypatch)
        assert disk_space.make_room("next", 440 * MB, 0, journal, made=True) == []
        assert disk_space.make_room("next", 500 * MB, 0, journal, made=True) == ["other"]
        disk_space.set_limit(430 * MB)
        with pytest.raises(HostError, match="next will take about 440 MB, the limit is 430 MB"):
            disk_space.make_room("next", 440 * MB, 0, journal, made=True)
    assert names() == []


@given(
    st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=6),
    st.integers(1, 60),
    st.integers(1, 250),
    st.integers(0, 300),
)
def test_room_is_made_or_nothing_is_removed(loads: list[tuple[int, bool]], size: int, limit: int, free: int) -> None:
    entries = {
        f"{number}": cache.Load(f"{number}", Path(), {"directory_bytes": mb * MB}, number)
        for number, (mb, _) in enumerate(loads)
    }
    held = {f"{number}" for number, (_, used) in enumerate(loads) if used}
    before = dict(entries)

    def free_now() -> int:
        gone = sum(load.size for name, load in before.items() if name not in entries)
        return disk_space._SPARE_BYTES + free * MB + gone  # pyright: ignore[reportPrivateUsage]

    def is_used(name: str) -> bool:
        return name in held

    def remove(load: cache.Load, _: Journal) -> None:
        del entries[load.name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_space, "list_loads", lambda: list(entries.values()))
        patch.setattr(disk_space, "free_bytes", free_now)
        patch.setattr(disk_space, "limit", lambda: limit * MB)
        patch.setattr(cache, "is_used", is_used)
        patch.setattr(cache, "remove", remove)
        try:
            removed = disk_space.make_room(
                "next", size * MB, size * MB, cast(Journal, None)
            )  # the function that would use it is patched above
        except HostError:
            assert entries == before
            least = {name: load for name, load in before.items() if name in held}
            taken = sum(load.size for load in least.values())
            can_go = sum(load.size for load in before.values()) - taken
            assert taken + size * MB > limit * MB or free * MB + can_go < size * MB
        else:
            assert set(removed) == set(before) - set(entries)
            assert not held & set(removed)
            assert sum(load.size for load in entries.values()) + size * MB <= limit * MB
            assert free_now() >= size * MB
            free_ones = [name for name in before if name not in held]
            assert removed == free_ones[: len(removed)]  # in the order of their last use


def test_limits_are_stored_and_forgotten(place: Path) -> None:
    assert disk_space.chosen_limit() is None
    default = disk_space.limit()
    assert default == pytest.approx(disk_space.default_limit(), rel=0.05)
    cli.limit_datasets("50GB")
    assert (place / "limit").read_text() == "50GB"
    assert disk_space.limit() == 50 * 1024**3
    cli.limit_datasets("default")
    assert disk_space.chosen_limit() is None
    with pytest.raises(UsageError, match="not a size"):
        cli.limit_datasets("much")


@pytest.mark.usefixtures("place")
def test_the_list_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    cli.list_datasets()
    assert "no datasets yet" in capsys.readouterr().out
    make_load("one", days_ago=1)
    cache.hold("one")
    cli.list_datasets()
    text = capsys.readouterr().out
    assert re.search(r"^one +4kB +1 +100 MB  \S+ \S+  pgbench, scale 5, packed \(in use\)$", text, re.MULTILINE)
    assert "1 dataset, 100 MB of at most" in text
    cli.list_datasets(TableFormat.json)
    (row,) = json.loads(capsys.readouterr().out)
    assert row["bytes"] == 100 * MB
    assert row["in_use"] is True
    assert row["contents"]["scale"] == "5"
    assert row["last_used"].endswith("Z")


@pytest.mark.usefixtures("place")
def test_removing_by_name_by_age_and_all(capsys: pytest.CaptureFixture[str]) -> None:
    for name, days in (("one", 40), ("two", 31), ("three", 1), ("four", 0)):
        make_load(name, days_ago=days)
    cache.hold("two")
    cli.remove_datasets(unused_for="30d", dry_run=True)
    text = capsys.readouterr().out
    assert "would remove one" in text
    assert "would keep two: it is in use" in text
    assert len(names()) == 4
    with pytest.raises(typer.Exit) as ended:
        cli.remove_datasets(unused_for="30d")
    assert ended.value.exit_code == 1
    assert names() == ["four", "three", "two"]
    cli.remove_datasets(["three", "three"])
    cache.release("two")
    cli.remove_datasets(all=True)
    assert names() == []


@pytest.mark.parametrize("wrong", [{}, {"names": ["one"], "all": True}, {"names": ["../one"]}, {"names": ["none"]}])
@pytest.mark.usefixtures("place")
def test_nothing_or_what_does_not_exist_is_no_choice(wrong: dict[str, object]) -> None:
    make_load("one")
    with pytest.raises(UsageError):
        cli.remove_datasets(**wrong)  # type: ignore[arg-type]
    assert names() == ["one"]


# The output of pg_controldata of PostgreSQL 18, shortened.
CONTROL = """\
Database cluster state:               shut down
Latest checkpoint location:           1/2B0000D8
Latest checkpoint's REDO location:    1/2B0000D8
Latest checkpoint's TimeLineID:       1
Latest checkpoint's NextXID:          2:803
Latest checkpoint's NextOID:          24576
Latest checkpoint's NextMultiXactId:  17
Latest checkpoint's NextMultiOffset:  33
Latest checkpoint's oldestXID:        731
Latest checkpoint's oldestMultiXid:   1
Latest checkpoint's oldestCommitTsXid:0
Latest checkpoint's newestCommitTsXid:0
"""


def counters(position: int, timeline: int = 1) -> Counters:
    return Counters(timeline, position, 0, 800, 24576, 1, 0, 700, 1, 0, 0)


def test_the_control_file_is_read_and_gone_on_from() -> None:
    read = control.parse(CONTROL)
    assert read == Counters(1, 0x12B0000D8, 2, 803, 24576, 17, 33, 731, 1, 0, 0)
    assert control.reset_arguments(read, 16 * MB) == [
        "--epoch=2", "--next-transaction-id=803", "--oldest-transaction-id=731", "--next-oid=24576",
        "--multixact-ids=17,1", "--multixact-offset=33", "--next-wal-file=000000010000000100000080",
    ]  # fmt: skip
    stamped = control.parse(CONTROL.replace("CommitTsXid:0", "CommitTsXid:790"))
    assert control.reset_arguments(stamped, 16 * MB)[-1] == "--commit-timestamp-ids=790,790"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONTROL.replace("shut down", "in production"), "its state is in production"),
        (CONTROL.replace("NextOID", "NextThing"), "cannot read .*NextOID.*: no such line"),
        ("", "its state is unknown"),
    ],
)
def test_a_control_file_that_cannot_be_gone_on_from_is_an_error(text: str, message: str) -> None:
    with pytest.raises(OctavoError, match=message):
        control.parse(text)


@given(st.integers(0, 2**50), st.sampled_from([2**power * MB for power in range(11)]))
def test_the_new_wal_begins_beyond_every_page_at_one_place(position: int, segment: int) -> None:
    before = counters(position)
    begin = control.position_after(before)
    assert begin > position
    assert begin % segment == 0
    assert begin >= 2 * segment  # after a new cluster's first segment, which pg_resetwal leaves behind
    name = control.wal_file(1, begin, segment)
    assert re.fullmatch("[0-9A-F]{24}", name)
    in_id, number = int(name[8:16], 16), int(name[16:], 16)
    assert in_id * 2**32 + number * segment == begin
    control.check_continues(counters(begin + 40), before, segment)
    with pytest.raises(OctavoError, match="put the WAL at"):
        control.check_continues(counters(begin + segment + 40), before, segment)


def test_a_graft_that_loses_a_counter_is_an_error() -> None:
    before = counters(5)
    lost = Counters(1, control.position_after(before) + 40, 0, 3, 24576, 1, 0, 700, 1, 0, 0)
    with pytest.raises(OctavoError, match="lost the load's next xid: 800 before, 3 after"):
        control.check_continues(lost, before, 16 * MB)


@given(st.integers(0, 10), st.sampled_from(["16MB", "1GB"]), st.integers(1, 64), st.sampled_from(["8kB", "32kB"]))
def test_a_loads_name_knows_what_it_depends_on_and_nothing_else(
    load: int, segment: str, segments: int, wal_block: str
) -> None:
    facts = {"version": "18.6", "source_sha256": "s", "data_block": "8kB", "data_segment": "1GB"}
    size = 16 * MB if segment == "16MB" else 1024 * MB

    def name(checksums: bool = True, scale: str = "5", **changes: str) -> str:
        build = Build(f"any-{wal_block}", Path(), {**facts, "wal_block": wal_block, **changes})
        contents = (("workload", "pgbench"), ("scale", scale))
        return load_name(build, DatasetSpec(contents, size, segments * size, checksums, load), {"a": "1"})

    build = Build("other", Path(), {**facts, "wal_block": "8kB"})
    plain = DatasetSpec((("workload", "pgbench"), ("scale", "5")), 16 * MB, 32 * MB, True, load)
    same = load_name(build, plain, {"a": "1"})
    assert same.endswith(f"-{load}")
    assert name() == same
    assert load_name(build, plain, {"a": "2"}) != same
    others = [name(checksums=False), name(scale="6"), name(data_block="4kB"), name(version="18.7")]
    assert len({same, *others}) == 5


def test_a_copy_takes_its_load_and_its_wal() -> None:
    spec = DatasetSpec((), 64 * MB, 100 * MB, True, 1)
    assert spec.recycled_segments == 2  # the minimum that min_wal_size allows
    assert spec.wal_bytes == 3 * 64 * MB


def test_only_copies_of_a_load_have_its_identity(place: Path) -> None:
    one, other = make_load("one"), make_load("other", size=101 * MB)
    (place / "copy").mkdir()
    (place / "copy" / published.MANIFEST).write_bytes((place / "one" / published.MANIFEST).read_bytes())
    published.note_use(place / "copy")
    copy = cache.read_load("copy")
    assert copy is not None
    assert copy.identity == one.identity != other.identity
