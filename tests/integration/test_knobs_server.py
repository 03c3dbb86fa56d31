"""A real server with everything at once: its volume and limits, its group, huge pages, readahead, CPUs."""

import os
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB

from octavo import knobs
from octavo.host import block_limit, cgroup, mounts
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.loop_devices import devices_on
from octavo.knobs import cpu_pinning, device, huge_pages
from octavo.knobs.base import KnobTarget
from octavo.knobs.server_group import server_group
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build

pytestmark = pytest.mark.alone

_LEVELS = {
    "shared_buffers": "32MB",
    "memory": "256MB",
    "huge_pages": "2MB",
    "filesystem": "ext4",
    "device": "gp3:3000/125",
    "readahead": "64kB",
    "shmem_thp": "never",
}


@needs_root
@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_under_knobs(build: Build, journal: Journal, account: Account) -> None:
    """In the order in which a trial applies the knobs."""
    if reason := knobs.cannot(_LEVELS, KnobTarget(Path("/"))):
        pytest.skip(reason)
    if cgroup.memory_controller() is None:
        pytest.skip("no memory controller")
    one = str(max(os.sched_getaffinity(0)))
    settings = {"shared_buffers": _LEVELS["shared_buffers"], **huge_pages.settings(_LEVELS["huge_pages"])}
    with device.volume(_LEVELS, 128 * MB, journal) as volume:
        assert volume is not None
        place = volume.directory
        data = place / "data"
        cluster.initialise(build, data, journal, account, wal_segment=16 * MB, checksums=True)
        pages = int(cluster.would_have(build, data, settings, "shared_memory_size_in_huge_pages", journal, account))
        with (
            huge_pages.pools({2 * MB: pages}, journal) as pools,
            knobs.applied(_LEVELS, journal, KnobTarget(place)) as state,
            server_group(_LEVELS, journal, huge_page_bytes=pages * 2 * MB) as group,
        ):
            if pools[2 * MB].given < pages:
                pytest.skip(str(pools[2 * MB]))
            assert group is not None
            assert cgroup.achieved_limit(group) == 256 * MB - pages * 2 * MB
            log = place / "server.log"
            with cluster.start(build, data, settings, journal, account, log=log, memory_group=group) as server:
                assert cpu_pinning.pin(server.process.pid, one) == one
                with server.connect("postgres") as connection:
                    row = connection.execute("SHOW huge_pages_status").fetchone()
                    assert row == {"huge_pages_status": "on"}
                    pid = connection.info.backend_pid
                    assert os.sched_getaffinity(pid) == {int(one)}, "a backend that came later"
                    born = Path(f"/proc/{pid}/cgroup").read_text()
                    assert group.name in born
                    facts = device.measured(_LEVELS["device"], volume, journal, group)
                    with device.limited(_LEVELS["device"], volume, journal, group):
                        connection.execute("CREATE TABLE t AS SELECT generate_series(1, 10000) AS n")
                        connection.execute("CHECKPOINT")
                        counted = connection.execute("SELECT count(*) AS n FROM t").fetchone()
                        assert counted == {"n": 10000}
                    for name, rate in facts["device_limit_asked"].items():
                        assert facts["device_limit_achieved"][name] <= 1.15 * rate
            assert state.drifted() == []
            assert state.as_dict()["readahead"]["achieved"] == "64"
        image = volume.image.stat()
    assert mounts.below(volume.image.parent) == []
    assert devices_on(image.st_dev, image.st_ino) == []
    if not block_limit.needs_group():
        for file in (cgroup.ROOT / "blkio").glob("blkio.throttle.*_device"):
            assert volume.number not in file.read_text().split(), volume.device
