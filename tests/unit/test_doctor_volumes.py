"""Servers whose files are on several volumes: the findings for each, and how reports name the volumes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.planted import plant

from octavo.doctor import compare, report
from octavo.doctor.collect import gather, stopped, volumes
from octavo.doctor.collect.live import LiveCounters, live_facts
from octavo.doctor.collect.volumes import volume_facts
from octavo.doctor.engine import Result, examine
from octavo.doctor.examine import on
from octavo.doctor.facts import Fact, Facts, read_facts
from octavo.doctor.rules import RULES
from octavo.doctor.storage_volumes import volumes_of
from octavo.errors import UsageError
from octavo.host.diskstats import DiskTotals
from octavo.host.mounts import Mount
from octavo.hugepages import postmaster_files

CASES = Path(__file__).parents[1] / "doctor_cases"
VOLUMES: dict[str, Any] = json.loads((CASES / "bare-metal-volumes.json").read_text())["facts"]
ONE: dict[str, Any] = json.loads((CASES / "well-tuned.json").read_text())["facts"]
kB = 1024


def results(rule: str, changes: dict[str, Any] | None = None) -> list[Result]:
    return examine(read_facts(VOLUMES | (changes or {})), [RULES[rule]])


def test_a_rule_about_wal_is_asked_of_its_volume_only() -> None:
    (found,) = results("wal-block")
    assert found.severity == "note"
    assert found.text == "/wal (pg_wal): WAL blocks of 8 kB are parts of filesystem blocks of 128 kB"
    assert [volume.mount for volume in found.volumes] == ["/wal"]
    assert "volume.1.host.fs.block_bytes" in {fact.name for fact in found.evidence}


def test_volumes_of_which_the_same_is_said_are_one_result() -> None:
    (found,) = results("physical-sector")
    assert found.status == "ok"
    assert found.text == "data blocks of 8 kB are whole sectors of 4 kB"
    assert [volume.mount for volume in found.volumes] == ["/", "/srv/archive", "/srv/fast"]
    pages, *more = results("kernel-page", {"host.memory.page_bytes": 64 * kB})
    assert pages.severity == "warning" and not more and not pages.text.startswith("/")


def test_a_volume_that_differs_has_a_result_of_its_own() -> None:
    worst, others = results("physical-sector", {"volume.2.host.device.physical_sector_bytes": 16 * kB})
    assert worst.text.startswith("/srv/archive (tablespace archive): data blocks of 8 kB are parts of")
    assert others.text.startswith("/ (data directory), /srv/fast (tablespace fast): data blocks")
    (finding,) = (one for one in results("raid-stripe") if one.status == "finding")
    assert finding.text.startswith("/srv/archive (tablespace archive): md0 has stripes of 1 MB")
    ahead, _ = results("readahead", {"volume.3.host.device.readahead_bytes": 0})
    assert ahead.text.startswith("/srv/fast (tablespace fast): readahead is 0")
    assert "/sys/block/nvme1n1/queue/read_ahead_kb" in ahead.as_dict()["fix"][0]


def test_what_the_planner_assumes_is_set_for_the_tablespaces_of_a_volume() -> None:
    (finding,) = (one for one in results("random-page-cost") if one.status == "finding")
    assert finding.text.startswith("/srv/fast (tablespace fast): random_page_cost = 4, seq_page_cost = 1, and nvme1n1")
    found = finding.as_dict()
    assert found["fix"] == ['ALTER TABLESPACE "fast" SET (random_page_cost = 1.1);']
    assert (found["takes"], found["check"]) == ("now", "SELECT spcname, spcoptions FROM pg_tablespace;")
    # A standby refuses ALTER TABLESPACE, as every change of a catalog.
    standby = results("random-page-cost", {"server.in_recovery": True})
    (finding,) = (one for one in standby if one.status == "finding")
    assert finding.as_dict()["fix"] == ["# on the primary, for it and all of its standbys:", *found["fix"]]
    # Without a setting of its own, a tablespace uses the server's.
    rows = [{**row, "tablespaces": ['Fast "2"']} if row["number"] == 3 else row for row in VOLUMES["host.volumes"]]
    (other,) = (one for one in results("prefetch", {
        "host.volumes": rows, "setting.effective_io_concurrency": 1, "host.device.rotational": True,
    }) if one.status == "finding")  # fmt: skip
    assert other.as_dict()["fix"] == ['ALTER TABLESPACE "Fast ""2""" SET (effective_io_concurrency = 16);']


def test_a_setting_of_the_server_is_changed_once() -> None:
    without = {name: value for name, value in VOLUMES.items() if not name.endswith(".setting.random_page_cost")}
    (found,) = examine(read_facts(without | {"setting.random_page_cost": 0.5}), [RULES["random-page-cost"]])
    assert found.as_dict()["fix"] == ["ALTER SYSTEM SET random_page_cost = '1.1';", "SELECT pg_reload_conf();"]


def test_pg_default_may_have_its_own_where_there_is_one_volume() -> None:
    row = VOLUMES["host.volumes"][0] | {"contents": ["tables", "WAL"]}
    changes = {"host.volumes": [row], "volume.0.setting.random_page_cost": 4.0}
    (found,) = examine(read_facts(ONE | changes), [RULES["random-page-cost"]])
    assert found.severity == "warning" and found.volumes == () and not found.text.startswith("/")
    assert found.as_dict()["fix"] == ['ALTER TABLESPACE "pg_default" SET (random_page_cost = 1.1);']


def test_what_the_server_counts_for_all_volumes_is_not_one_disks() -> None:
    live = {"live.server.checkpoint_bytes_per_second": 1e8, "live.server.reads_per_second": 500.0}
    busy = {"busy_share": 0.99, "read_bytes_per_second": 1e7, "written_bytes_per_second": 1e8}
    facts = live | {f"volume.3.live.device.{name}": value for name, value in busy.items()}
    facts |= {f"{where}live.device.{name}": 0.0 for where in ("", "volume.2.") for name in busy}
    unknown, rest = results("checkpoint-writes", facts)
    assert unknown.status == "unknown" and "/srv/fast" in unknown.text and "by volume" in unknown.text
    assert rest.status == "ok"


def test_a_report_names_volumes_and_the_stack_has_what_differs() -> None:
    part = report.part("db", read_facts(VOLUMES))
    volumes_named = {one["rule"]: one["volumes"] for one in part["results"] if one["status"] == "finding"}
    assert volumes_named["wal-block"] == [{"mount": "/wal", "holds": ["pg_wal"]}]
    rows = {row["layer"]: row for row in part["page_stack"]}
    assert rows["filesystem block"]["findings"] == []
    assert rows["WAL block"]["findings"] == ["wal-block"]
    assert rows["filesystem block, /wal (pg_wal)"]["findings"] == ["wal-block"]
    assert rows["RAID stripe, /srv/archive (tablespace archive)"]["value"] == "1MB"
    assert not any("/srv/fast" in layer for layer in rows)
    assert all(one["volumes"] == [] for one in report.part("db", read_facts(ONE))["results"])


def test_reports_are_compared_by_volume_also_with_one_that_names_none() -> None:
    one = report.document([report.part("db", read_facts(ONE))])
    for server in one["servers"]:
        for result in server["results"]:
            del result["volumes"]  # as they were
    several = report.document([report.part("db", read_facts(VOLUMES))])
    lines = compare.lines(compare.changes(one, several))
    assert "worse: wal-block (pg_wal) at db: absent → note" in lines
    assert "worse: random-page-cost (tablespace fast) at db: absent → warning" in lines
    assert compare.changes(several, several)["changes"] == []


@pytest.mark.parametrize(
    "value",
    [None, "x", [], [1], [{}], [{"number": 1, "mount": "/", "holds": ["x"]}], [{"number": True, "mount": "/"}],
     [{"number": 0, "mount": 1, "holds": ["x"]}], [{"number": 0, "mount": "/", "holds": 5}]],
)  # fmt: skip
def test_volumes_that_a_file_makes_up_are_none(value: Any) -> None:
    assert volumes_of(value) == []
    assert examine(read_facts(ONE | {"host.volumes": value}), [RULES["kernel-page"]])[0].status == "ok"


# The next tests ask the kernel: /proc is on another filesystem than any directory for tests.
def told(*rows: dict[str, Any]) -> Fact:
    ours: list[dict[str, Any]] = [{"name": name, "location": "", "options": {}} for name in ("pg_default", "pg_global")]
    return Fact("server.tablespaces", [*ours, *rows], "pg_tablespace")


def space(name: str, location: object, **options: float) -> dict[str, Any]:
    return {"name": name, "location": str(location), "options": options}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data/pg_wal").mkdir(parents=True)
    (tmp_path / "data/pg_tblspc").mkdir()
    return tmp_path / "data"


def test_what_is_on_the_data_directorys_filesystem_is_one_volume(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    (directory / "pg_wal").rmdir()
    (directory / "pg_wal").symlink_to(tmp_path / "space")
    found, disks = volume_facts(directory, told(space("near", tmp_path / "space")))
    (volume,) = volumes_of(Facts(found)["host.volumes"].value)
    assert volume.holds == ("data directory", "pg_wal", "tablespace near")
    assert volume.contents == {"tables", "WAL"} and disks == {}


def test_each_other_filesystem_is_a_volume_with_its_own_facts(directory: Path) -> None:
    (directory / "pg_wal").rmdir()
    (directory / "pg_wal").symlink_to("/proc")
    found, disks = volume_facts(directory, told(space("far", "/proc"), space("own", "/proc", random_page_cost=1.1)))
    facts = Facts(found)
    data, far, own = volumes_of(facts["host.volumes"].value)
    assert (data.holds, data.contents) == (("data directory",), {"tables"})
    assert (far.mount, far.holds, far.contents) == ("/proc", ("pg_wal", "tablespace far"), {"tables", "WAL"})
    assert (own.mount, own.tablespaces) == ("/proc", ("own",))
    assert facts["volume.1.host.fs.type"].value == "proc"
    assert facts["volume.1.host.device.name"].unknown
    assert facts["volume.2.setting.random_page_cost"].value == 1.1
    assert not facts.has_own("volume.1.setting.random_page_cost")
    assert disks == {1: None, 2: None}


def test_a_place_that_cannot_be_seen_is_unknown_with_the_reason(directory: Path, tmp_path: Path) -> None:
    facts = Facts(volume_facts(directory, told(space("gone", tmp_path / "gone")))[0])
    assert facts["volume.1.host.fs.type"].unknown == f"{tmp_path}/gone: No such file or directory"
    assert facts["volume.1.live.device.busy_share"].unknown


def test_nothing_that_a_user_has_mounted_is_entered(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse = tmp_path / "fuse"
    (fuse / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("fuse")
    mount = Mount("0:99", fuse, "fuse.sshfs", "x")
    monkeypatch.setattr(volumes, "mounted_by_users", lambda: [(mount, 1000)])
    facts = Facts(volume_facts(directory, told(space("evil", tmp_path / "link/deep")))[0])
    assert "a user mounted" in facts["volume.1.host.fs.type"].unknown


def test_a_server_that_is_not_asked_has_its_links(directory: Path) -> None:
    (directory / "pg_tblspc/16400").symlink_to("/proc")
    (directory / "pg_tblspc/16401").mkdir()  # a tablespace in place, without a link
    (directory / "pg_tblspc/.hidden").symlink_to("/sys")
    for fact in (None, Fact("server.tablespaces", unknown="refused")):
        _, there = volumes_of(Facts(volume_facts(directory, fact)[0])["host.volumes"].value)
        assert (there.holds, there.tablespaces) == (("tablespace 16400",), ())


@pytest.fixture
def configuration(directory: Path, tmp_path: Path) -> Path:
    """A directory that has only the configuration of a cluster, as on Debian."""
    plant(tmp_path, {"data/PG_VERSION": "18\n", "etc/postgresql.conf": f"data_directory = '{directory}'\n"})
    return tmp_path / "etc"


def test_the_storage_of_a_stopped_cluster_is_that_of_its_data(
    configuration: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(pgdata: Path, bindir: Path | None) -> list[Fact]:
        assert (pgdata, bindir) == (configuration, None)
        return [Fact("setting.block_size", 8192, "postgres -C")]

    monkeypatch.setattr(stopped, "stopped_facts", settings)
    (directory / "pg_wal").rmdir()
    (directory / "pg_wal").symlink_to("/proc")
    facts = gather.of_stopped(configuration, None)
    _, wal = volumes_of(facts["host.volumes"].value)
    assert (wal.mount, wal.holds) == ("/proc", ("pg_wal",))
    assert facts["host.fs.wal_elsewhere"].source == f"readlink({directory}/pg_wal)"


def test_the_server_of_a_configuration_is_that_of_its_data(
    configuration: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "postmaster.pid").touch()

    def running(data: Path) -> None:
        assert data == directory
        raise UsageError("looked at")

    monkeypatch.setattr(postmaster_files, "running_on", running)
    with pytest.raises(UsageError, match="looked at"):
        on(configuration)


def test_a_link_in_place_of_pg_tblspc_is_not_followed(directory: Path, tmp_path: Path) -> None:
    plant(tmp_path, {"elsewhere/x": ""})
    (tmp_path / "elsewhere/16400").symlink_to("/proc")
    (directory / "pg_tblspc").rmdir()
    (directory / "pg_tblspc").symlink_to(tmp_path / "elsewhere")
    assert len(volumes_of(Facts(volume_facts(directory, None)[0])["host.volumes"].value)) == 1


def test_the_disk_of_each_volume_is_counted() -> None:
    before = LiveCounters(10.0, None, None, None, None, disks={"sda": DiskTotals(0, 0, 0, 0)})
    used = DiskTotals(200, 0, 20, 0, busy_ms=1500)
    after = LiveCounters(12.0, None, None, None, None, disks={"sda": used})
    facts = Facts(live_facts(before, after, None, {1: "sda", 2: "sdb", 3: None}))
    assert facts["volume.1.live.device.reads_per_second"].value == 100.0
    assert facts["volume.1.live.device.busy_share"].value == 0.75
    assert facts["volume.2.live.device.busy_share"].unknown == facts["volume.3.live.device.busy_share"].unknown
