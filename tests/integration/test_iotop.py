"""`octavo iotop` on a separate device: every request is counted once, for its process, as the device counts them."""

import errno
import mmap
import os
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from tests.integration.servers import MB, running

from octavo.host import loop_volume
from octavo.host.children import Account
from octavo.host.diskstats import DiskTotals
from octavo.host.journal import Journal
from octavo.host.loop_volume import Volume
from octavo.instruments.request_counter import RequestCounter
from octavo.iotop.activity import Activity
from octavo.iotop.devices import find_disk, without_queue
from octavo.iotop.from_bpf import FromBpf
from octavo.iotop.from_tracefs import FromTracefs
from octavo.iotop.monitor import RequestMonitor
from octavo.iotop.process_info import WRITE_BACK
from octavo.iotop.request_source import RequestSource
from octavo.iotop.snapshot import RequestRow, RequestSnapshot
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or loop_volume.cannot_make("ext4") is not None,
    reason=f"requests need root, and a device of their own: {loop_volume.cannot_make('ext4') or 'no root'}",
)
_FILE = 8 * MB
_SOURCES = ("bpf", "tracefs")


@pytest.fixture
def volume(journal: Journal) -> Iterator[Volume]:
    with loop_volume.loop_volume(300 * MB, "ext4", 4096, journal) as made:
        yield made


def lacks(source: str, error: OSError) -> NoReturn:
    """Skips the test where the kernel lacks a source, or refuses it to a container; not where it refuses our programs
    (the verifier's EINVAL and EACCES)."""
    if error.errno not in (errno.EPERM, errno.ENOENT, errno.ENOSYS, errno.EOPNOTSUPP):
        raise error
    pytest.skip(f"this kernel has no {source}: {error}")


def opened(source: str, device: int | None, journal: Journal, *, submitted: bool = False) -> RequestSource:
    try:
        if source == "bpf":
            return FromBpf(device, submitted=submitted)
        return FromTracefs(device, journal, submitted=submitted)
    except OSError as error:
        lacks(source, error)


def seen(source: RequestSource, disk: str, act: Callable[[], object], **narrowed: int) -> RequestSnapshot:
    """One interval around the action."""
    monitor = RequestMonitor(source, None, {}, disks=(disk,), **narrowed)
    try:
        act()
        return monitor.sample()
    finally:
        monitor.close()
        source.close()


def sums(shown: RequestSnapshot, direction: str) -> tuple[int, int]:
    rows = [row for row in shown.rows if row.direction == direction]
    return sum(row.requests or 0 for row in rows), sum(row.bytes for row in rows)


def assert_same_writes(shown: RequestSnapshot, totals: DiskTotals) -> None:
    """Bytes are the same and requests within one at either end of the interval.

    The kernel counts a request's sectors before it wakes the one who waits for it (blk_update_request), and the
    request itself only afterwards (__blk_mq_end_request, block/blk-mq.c).
    """
    requests, written = sums(shown, "write")
    assert written == totals.written_bytes
    assert abs(requests - totals.writes) <= 2


def direct_requests(path: Path, size: int, count: int, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    move = os.preadv if flags == os.O_RDONLY else os.pwritev
    for number in range(count):
        assert move(descriptor, [buffer], number * size % _FILE) == size
    os.close(descriptor)


@pytest.mark.parametrize("source", _SOURCES)
def test_direct_requests_are_counted_as_the_device_counts_them(source: str, volume: Volume, journal: Journal) -> None:
    path = volume.directory / "file"
    path.write_bytes(os.urandom(_FILE))
    os.sync()
    name, number = find_disk(str(volume.directory))
    assert name == find_disk(f"/dev/{volume.device}")[0] == volume.device

    def act() -> None:
        direct_requests(path, 16384, 300, os.O_RDONLY)
        direct_requests(path, 32768, 100, os.O_WRONLY)

    shown = seen(opened(source, number, journal), name, act)
    ours = {row.direction: row for row in shown.rows if row.who.pid == os.getpid()}
    assert (ours["read"].requests, ours["read"].bytes_per_request) == (300, 16384)
    assert ours["write"].bytes >= 100 * 32768
    assert {row.device for row in shown.rows} == {volume.device}
    totals = shown.devices[volume.device]
    assert sums(shown, "read") == (totals.reads, totals.read_bytes)
    assert_same_writes(shown, totals)
    assert shown.lost_events == 0
    assert shown.cost_seconds > 0


def test_requests_beyond_the_kernels_map_are_lost_and_not_silent(volume: Volume) -> None:
    path = volume.directory / "file"
    path.write_bytes(os.urandom(_FILE))
    os.sync()
    try:
        counter = RequestCounter(find_disk(str(volume.directory))[1], most=2)
    except OSError as error:
        lacks("bpf", error)
    try:
        for size in (4096, 8192, 16384, 32768):
            direct_requests(path, size, 5, os.O_RDONLY)
        counted = sum(one.count for one in counter.take() if one.pid == os.getpid())
        assert 0 < counted < 20 and counted + counter.lost() >= 20
    finally:
        counter.close()


@pytest.fixture
def without_requests() -> Iterator[str]:
    """A device that issues no requests of its own, like those of device mapper and md: a zram made for the test."""
    control = Path("/sys/class/zram-control")
    try:
        number = int((control / "hot_add").read_text())
    except OSError as error:
        pytest.skip(f"no zram of our own here: {error}")
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(_FILE))
        yield f"zram{number}"
    finally:
        (control / "hot_remove").write_text(str(number))


@pytest.mark.parametrize("source", _SOURCES)
def test_what_enters_a_volume_is_counted_for_who_submits_it(
    source: str, without_requests: str, journal: Journal
) -> None:
    name, number = find_disk(without_requests)
    assert without_queue(name)
    path = Path("/dev") / name
    made = not path.exists()
    if made:  # no udev
        os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(number >> 20, number & 0xFFFFF))
    try:
        opened_source = opened(source, number, journal, submitted=True)
        shown = seen(opened_source, name, lambda: move_both_ways(path))
    finally:
        if made:
            path.unlink()
    ours = {row.direction: row for row in shown.rows if row.who.pid == os.getpid()}
    assert (ours["read"].requests, ours["read"].bytes_per_request) == (300, 16384)
    assert (ours["write"].requests, ours["write"].bytes_per_request) == (100, 32768)
    totals = shown.devices[name]
    assert sums(shown, "read") == (totals.reads, totals.read_bytes)
    assert sums(shown, "write") == (totals.writes, totals.written_bytes)
    # The requests of our system calls: these, and the other reads of the test's process.
    assert ours["read"].asked is not None and ours["read"].asked.bytes >= 300 * 16384


def move_both_ways(path: Path) -> None:
    direct_requests(path, 16384, 300, os.O_RDONLY)
    direct_requests(path, 32768, 100, os.O_WRONLY)


@pytest.mark.parametrize("source", _SOURCES)
def test_what_is_written_back_later_is_the_kernels(source: str, volume: Volume, journal: Journal) -> None:
    path = volume.directory / "later"
    number = find_disk(volume.device)[1]

    def act() -> None:
        path.write_bytes(os.urandom(_FILE))
        subprocess.run(["sync", "--file-system", path], check=True)  # the kernel's flusher writes

    shown = seen(opened(source, number, journal), volume.device, act)
    later = [row for row in shown.rows if row.role == WRITE_BACK]
    assert sum(row.bytes for row in later) >= _FILE
    assert all(row.who.pid is None and row.query is None for row in later)
    assert not [row for row in shown.rows if row.who.pid == os.getpid() and row.direction == "write"]


def test_only_a_process_and_its_descendants(volume: Volume, journal: Journal) -> None:
    path = volume.directory / "file"
    path.write_bytes(os.urandom(_FILE))
    os.sync()
    stranger = subprocess.Popen(["sleep", "600"])
    number = find_disk(volume.device)[1]
    try:
        for root, expected in ((os.getpid(), {os.getpid()}), (stranger.pid, set[int]())):
            shown = seen(
                opened("bpf", number, journal), volume.device,
                lambda: direct_requests(path, 4096, 10, os.O_RDONLY), root=root,
            )  # fmt: skip
            assert {row.who.pid for row in shown.rows} == expected
    finally:
        stranger.kill()
        stranger.wait()


_METHODS = ("worker", "sync", "io_uring")


_SETTINGS = {
    "shared_buffers": "4MB", "debug_io_direct": "data", "max_wal_size": "64MB", "min_wal_size": "32MB",
    "cluster_name": "an/other: name", "autovacuum": "off",
}  # fmt: skip


@pytest.fixture(scope="module")
def database(builds: dict[str, Build], account: Account) -> Iterator[Volume]:
    """A volume with a cluster and pgbench's tables."""
    with Journal() as journal, loop_volume.loop_volume(300 * MB, "ext4", 4096, journal) as volume:
        path = volume.directory / "data"
        cluster.initialise(builds["8kB"], path, journal, account, wal_segment=16 * MB, checksums=True)
        with running(builds["8kB"], path, journal, account, **_SETTINGS) as server:
            server.run_client("pgbench", "--initialize", "--quiet", "--scale=1")
        yield volume


@pytest.fixture(params=_METHODS)
def server(
    request: pytest.FixtureRequest, builds: dict[str, Build], database: Volume, journal: Journal, account: Account
) -> Iterator[Server]:
    """A server whose data is on the volume and bypasses the page cache."""
    build, disabled = builds["8kB"], Path("/proc/sys/kernel/io_uring_disabled")
    if request.param == "io_uring" and (
        "-Dliburing=enabled" not in build.manifest["options"] or (disabled.exists() and disabled.read_text() != "0\n")
    ):
        pytest.skip("the build or the kernel has no io_uring")
    path = database.directory / "data"
    with running(build, path, journal, account, **_SETTINGS, io_method=request.param) as started:
        started.execute("CHECKPOINT")
        yield started


def by_role(rows: tuple[RequestRow, ...], direction: str) -> Counter[str | None]:
    found: Counter[str | None] = Counter()
    for row in rows:
        if row.direction == direction:
            found[row.role] += row.bytes
    return found


def test_postgresql_by_role_and_query(server: Server, database: Volume, journal: Journal) -> None:
    name, number = find_disk(database.device)
    method = server.settings()["io_method"]
    activity = Activity.open(f"host={server.socket_directory} user=octavo dbname=octavo")
    source = opened("bpf", number, journal)
    monitor = RequestMonitor(source, activity, {}, disks=(name,))
    try:
        # All from the disk: the reader depends on io_method, and the query is our last one.
        table = int(
            server.connection.execute(b"SELECT pg_table_size('pgbench_accounts')").fetchall()[0]["pg_table_size"]
        )
        server.execute("SET max_parallel_workers_per_gather = 0")
        server.execute("SELECT sum(abalance) /* \x1b[2J\u202e :smile: */ FROM pgbench_accounts")
        scanned = monitor.sample()
        server.execute("SELECT 1")
        finished = server.run_client("pgbench", "--no-vacuum", "--client=2", "--time=1")
        assert finished.returncode == 0, finished.stderr
        server.execute("CHECKPOINT")
        worked = monitor.sample()
    finally:
        monitor.close()
        source.close()
        activity.close()

    reads = by_role(scanned.rows, "read")
    reader = "io worker" if method == "worker" else "client backend"
    assert 0.8 * table < reads[reader] < 1.5 * table, reads
    assert all(row.bytes_per_request and row.bytes_per_request > 4096 for row in scanned.rows if row.role == reader)
    if method != "worker":
        (ours,) = [row for row in scanned.rows if row.query and row.direction == "read" and row.through is None]
        assert ours.query is not None and ours.database == "octavo"
        assert ours.query.startswith("(SELECT sum(abalance)") and ours.query.isprintable()
        assert "[2J :smile:" in ours.query
    written = by_role(worked.rows, "write")
    assert written["client backend"] + written["walwriter"] > 0  # WAL
    assert written["checkpointer"] > 0
    roles = {row.role for row in worked.rows if row.who.command == "postgres" and not row.who.ended}
    told = {row["backend_type"] for row in server.connection.execute(b"SELECT backend_type FROM pg_stat_activity")}
    assert roles <= told | {"postmaster"}
    assert not scanned.blind and not worked.blind
    # The sum of both intervals: a write in flight between them is counted by us in the first one, when it was issued,
    # and by the device in the second one, when it was completed.
    looks = (scanned, worked)
    device = sum(look.devices[name].written_bytes for look in looks if name in look.devices)
    assert sum(sums(look, "write")[1] for look in looks) == pytest.approx(device, rel=0.02)


def test_for_whom_io_workers_read(server: Server, database: Volume, journal: Journal) -> None:
    """Repeated scans of a table that is larger than shared_buffers: at some moment reads are in flight."""
    name, number = find_disk(database.device)
    method = server.settings()["io_method"]
    (row,) = server.connection.execute(b"SELECT pg_backend_pid() AS pid").fetchall()
    server.execute("SET max_parallel_workers_per_gather = 0")
    activity = Activity.open(f"host={server.socket_directory} user=octavo dbname=octavo")
    source = opened("bpf", number, journal)
    monitor = RequestMonitor(source, activity, {}, disks=(name,))
    readers: dict[int, str | None] = {}
    try:
        for _ in range(50):
            server.execute(
                "DO $$ BEGIN FOR n IN 1..10 LOOP PERFORM sum(abalance) FROM pgbench_accounts; END LOOP; END $$"
            )
            shown = monitor.sample()
            readers |= {reader.pid: reader.query for row in shown.rows for reader in row.readers}
            assert not shown.blind
            assert all(row.role == "io worker" for row in shown.rows if row.readers)
            if readers or method != "worker":
                break
    finally:
        monitor.close()
        source.close()
        activity.close()
    if method == "worker":
        assert list(readers) == [row["pid"]]
        assert (readers[row["pid"]] or "").startswith("(DO $$ BEGIN")
    else:
        assert readers == {}


def test_a_user_without_rights_sees_the_bytes_and_is_told_what_is_hidden(
    builds: dict[str, Build], database: Volume, journal: Journal, account: Account
) -> None:
    name, number = find_disk(database.device)
    path = database.directory / "data"
    with running(builds["8kB"], path, journal, account, **_SETTINGS, io_method="worker") as server:
        server.execute("CREATE ROLE anybody LOGIN")
        server.execute("SET max_parallel_workers_per_gather = 0")
        table = int(
            server.connection.execute(b"SELECT pg_table_size('pgbench_accounts')").fetchall()[0]["pg_table_size"]
        )
        activity = Activity.open(f"host={server.socket_directory} user=anybody dbname=octavo")
        monitor = RequestMonitor(source := opened("bpf", number, journal), activity, {}, disks=(name,))
        try:
            server.execute("SELECT sum(abalance) FROM pgbench_accounts")
            shown = monitor.sample()
        finally:
            monitor.close()
            source.close()
            activity.close()
            server.execute("DROP ROLE anybody")
    assert 0.8 * table < by_role(shown.rows, "read")["io worker"] < 1.5 * table
    assert all(row.query is None and not row.readers for row in shown.rows)
    assert set(shown.blind) == {"queries", "readers"}
    assert all("GRANT pg_monitor" in reason for reason in shown.blind.values())
