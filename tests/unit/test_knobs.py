"""The knobs of the table, on planted trees; levels; huge pages; CPUs."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planted import plant

from octavo import knobs
from octavo.errors import OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.host.undo import Undone
from octavo.knobs import cpu_pinning, filesystem, huge_pages, zram_swap
from octavo.knobs.base import AS_FOUND, KnobTarget

_THP = "kernel/mm/transparent_hugepage"
_TREE = {
    f"sys/{_THP}/enabled": "madvise\n",
    f"sys/{_THP}/shmem_enabled": "never\n",
    f"sys/{_THP}/defrag": "madvise\n",
    f"sys/{_THP}/khugepaged/pages_to_scan": "4096\n",
    f"sys/{_THP}/khugepaged/scan_sleep_millisecs": "10000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": "performance powersave\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "schedutil\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_available_governors": "performance powersave\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/surplus_hugepages": "0\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/overcommit_ratio": "50\n",
    "proc/sys/vm/overcommit_kbytes": "0\n",
    "proc/sys/vm/dirty_ratio": "20\n",
    "proc/sys/vm/dirty_bytes": "0\n",
    "proc/sys/vm/dirty_background_ratio": "10\n",
    "proc/sys/vm/dirty_background_bytes": "0\n",
}
_LEVELS = {
    "thp": "always", "shmem_thp": "advise", "thp_defrag": "defer", "khugepaged": "100/1min", "swappiness": "1",
    "cpu_governor": "performance", "readahead": "128kB", "io_scheduler": "kyber", "dirty_limits": "1%/2%",
    "overcommit": "never/80%",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def place(tmp_path: Path) -> KnobTarget:
    """A host whose data is on a disk with a partition."""
    number = tmp_path.stat().st_dev
    disk = "sys/devices/virtio/block/vdz"
    plant(
        tmp_path,
        {
            **_TREE,
            f"{disk}/queue/read_ahead_kb": "8192\n",
            f"{disk}/queue/scheduler": "[none] mq-deadline kyber\n",
            f"{disk}/vdz1/partition": "1\n",
        },
    )
    link = tmp_path / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / disk / "vdz1")
    return KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys")


def contents(place: KnobTarget) -> dict[str, str]:
    return {str(path): path.read_text().strip() for root in (place.proc, place.sys) for path in root.rglob("*")
            if path.is_file()}  # fmt: skip


# ── The table ─────────────────────────────────────────────────────────────────────────────────


def test_defaults_touch_nothing(place: KnobTarget) -> None:
    before = contents(place)
    with Journal() as journal, knobs.applied({}, journal, place) as state:
        assert contents(place) == before
        assert state.as_dict() == {}
        assert len(journal.path.read_text().splitlines()) == 1  # its owner
    assert knobs.cannot({}, place) is None
    for factor in knobs.factors():
        assert factor.level(factor.default) == factor.default


def test_every_knob_is_set_told_and_put_back(place: KnobTarget) -> None:
    before = contents(place)
    with Journal() as journal:
        with knobs.applied(_LEVELS, journal, place) as state:
            told = state.as_dict()
            assert state.drifted() == []
        # A planted file keeps the brackets and counterparts that a kernel would change.
        after = contents(place)
    assert set(told) == set(_LEVELS)
    assert told["thp"] == {"asked": "always", "achieved": "always", "found": "madvise"}
    assert told["khugepaged"]["achieved"] == "100 60000"
    assert told["readahead"] == {"asked": "128kB", "achieved": "128", "found": "8192"}
    assert told["cpu_governor"]["found"] == "powersave schedutil"
    assert told["swappiness"] == {"asked": "1", "achieved": "1", "found": "60"}
    changed_files = {Path(path).name for path in after if after[path] != before[path]}
    assert changed_files == {"scheduler"}
    assert next(text for path, text in after.items() if path.endswith("scheduler")) == "none"


def test_what_others_change_meanwhile_is_seen_and_left(place: KnobTarget) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal, knobs.applied({"swappiness": "1", "thp": "never"}, journal, place) as state:
        (place.proc / "sys/vm/swappiness").write_text("99")
        assert state.drifted() == [f"swappiness: {place.proc}/sys/vm/swappiness: 1 became 99"]
    assert (place.proc / "sys/vm/swappiness").read_text() == "99"
    assert (place.sys / _THP / "enabled").read_text() == "madvise"
    assert [one.what for one in told] == ["left"]


@pytest.mark.parametrize(
    ("name", "level", "file", "was"),
    [
        ("dirty_limits", "1%/2%", "dirty_background_ratio", "1"),
        ("dirty_limits", "64MB/256MB", "dirty_bytes", "268435456"),
        ("overcommit", "never/80%", "overcommit_ratio", "80"),
        ("overcommit", "never", "overcommit_memory", "2"),
    ],
)
def test_limits_that_others_change_meanwhile_are_seen(
    place: KnobTarget, name: str, level: str, file: str, was: str
) -> None:
    path = place.proc / "sys/vm" / file
    with Journal(lambda _: None) as journal, knobs.applied({name: level}, journal, place) as state:
        path.write_text("77")
        assert state.drifted() == [f"{name}: {path}: {was} became 77"]


def test_one_that_is_refused_puts_back_the_others(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    write = KernelValue.write

    def refuse(self: KernelValue, text: str) -> None:
        if self.path.name == "swappiness":
            raise OSError(1, "Operation not permitted")
        write(self, text)

    monkeypatch.setattr(KernelValue, "write", refuse)
    before = contents(place)
    levels = {"thp": "always", "swappiness": "1"}
    with Journal() as journal, pytest.raises(OctavoError, match="swappiness"), knobs.applied(levels, journal, place):
        raise AssertionError("not reached")
    assert contents(place) == before


@pytest.mark.parametrize(
    ("levels", "reason"),
    [
        ({"io_scheduler": "bfq"}, "io_scheduler: vdz offers none, mq-deadline, kyber, not bfq"),
        ({"readahead": "1kB"}, "readahead: readahead is counted in memory pages"),
        ({"readahead": "1kB", "device": "loop"}, "readahead: readahead is counted in memory pages"),
        ({"cpu_governor": "ondemand"}, "cpu_governor: this CPU's driver offers performance, powersave, not ondemand"),
        ({"huge_pages": "16MB"}, "huge_pages: this host has no huge pages of 16MB, only of 2MB, 1GB"),
        ({"server_cpus": f"{min(os.sched_getaffinity(0))},9000"}, "server_cpus: CPU 9000 is not available"),
    ],
)
def test_what_this_host_cannot_do_is_said(place: KnobTarget, levels: dict[str, str], reason: str) -> None:
    said = knobs.cannot(levels, place)
    assert said is not None and said.startswith(reason)


def test_a_module_that_may_be_loaded_is_named(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str, path: str) -> str:
        return f"{path}/{name}"

    monkeypatch.setattr(zram_swap.shutil, "which", installed)
    monkeypatch.setattr(zram_swap, "_CONTROL", place.sys / "class/zram-control")
    assert str(knobs.cannot({"zram_swap": "512MB"}, place)).endswith("load it with modprobe zram")


def test_a_cpu_that_is_offline_has_no_governor(place: KnobTarget) -> None:
    """The kernel refuses to read the files of its policy; here a directory does."""
    (place.sys / "devices/system/cpu/cpufreq/policy2/scaling_governor").mkdir(parents=True)
    assert knobs.cannot({"cpu_governor": "performance"}, place) is None
    with Journal() as journal, knobs.applied({"cpu_governor": "performance"}, journal, place) as state:
        assert state.as_dict()["cpu_governor"]["found"] == "powersave schedutil"


def test_a_kernel_without_the_files(tmp_path: Path) -> None:
    bare = KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys")
    for name, level in {**_LEVELS, "huge_pages": "2MB"}.items():
        assert knobs.cannot({name: level}, bare) is not None, name


def test_without_root_nothing_of_the_host_is_offered(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def denied(_path: Path, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", denied)
    for name, level in {**_LEVELS, "device": "gp2:600", "filesystem": "ext4"}.items():
        said = knobs.cannot({name: level}, place)
        assert said is not None and "root" in said, name


@pytest.mark.parametrize(
    ("level", "allows"),
    [
        ("never", "8 GB"),
        ("never/50%", "9.5 GB"),  # half of what is not huge pages, and the swap
        ("never/6GB", "7 GB"),
        ("never/90%", None),
        ("never/16GB", None),
        ("always", None),
        ("heuristic", None),
    ],
)
def test_never_is_skipped_where_more_is_committed_than_it_allows(
    place: KnobTarget, level: str, allows: str | None
) -> None:
    """All allocations of the host would fail, those that put it back included."""
    numbers = {"MemTotal": 20, "SwapTotal": 1, "CommitLimit": 8, "Committed_AS": 10, "Hugetlb": 3}
    text = "".join(f"{name}: {size * 1024**2} kB\n" for name, size in numbers.items())
    (place.proc / "meminfo").write_text(text)
    said = knobs.cannot({"overcommit": level}, place)
    if allows is None:
        assert said is None
    else:
        assert said is not None and f"{level} allows {allows}:" in said


# ── Levels ────────────────────────────────────────────────────────────────────────────────────

_GOOD = {
    "dirty_limits": ["10%/20%", "64MB/256MB", AS_FOUND],
    "overcommit": ["heuristic", "always", "never", "never/80%", "never/8GB"],
    "khugepaged": ["off", "4096/10s", "1/0s"],
    "swappiness": ["0", "200"],
    "readahead": ["0B", "128kB", "8MB"],
    "filesystem": ["native", "ext4", "ext4/1kB", "xfs/64kB"],
    "huge_pages": ["off", "2MB", "1GB"],
    "server_cpus": ["all", "0-2,5"],
    "zram_swap": ["none", "512MB"],
    "fragmentation": ["none", "1%/movable", "100%/pinned", "2GB/pinned"],
}
_BAD = {
    "dirty_limits": ["20%/10%", "10%", "1kB/2kB", "10%/64MB", "256MB/64MB", "0"],
    "overcommit": ["2", "always/50%", "never/0%", "never/1B", "never/"],
    "khugepaged": ["0/10s", "on", "4096", "4096/100000d"],
    "swappiness": ["201", "-1", "ten"],
    "readahead": ["lots", "2GB"],
    "filesystem": ["xfs/3kB", "ext4/512B", "btrfs", "xfs/128kB", "/4kB"],
    "huge_pages": ["on", "try"],
    "server_cpus": ["", "3-1", "a", "0,,1"],
    "zram_swap": ["0B"],
    "fragmentation": ["50%", "0%/pinned", "101%/pinned", "50%/soft", "1MB/pinned", "99TB/movable", "/pinned"],
}


def test_levels() -> None:
    by_name = {factor.name: factor for factor in knobs.factors()}
    for name, levels in _GOOD.items():
        assert [by_name[name].level(level) for level in levels] == levels
    for name, levels in _BAD.items():
        for level in levels:
            with pytest.raises(UsageError, match=name):
                by_name[name].level(level)
    assert by_name["readahead"].level("131072B") == "128kB"
    assert by_name["server_cpus"].level("2, 0-1") == "0-2"


@given(st.sets(st.integers(0, 9999), min_size=1))
def test_cpu_lists(cpus: set[int]) -> None:
    assert cpu_pinning.parse_cpus(cpu_pinning.format_cpus(cpus)) == cpus


def test_filesystems_that_need_a_newer_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(_kind: str) -> None:
        return None

    monkeypatch.setattr(filesystem, "cannot_make", can)
    monkeypatch.setattr(filesystem, "_kernel", lambda: (6, 6))
    said = filesystem.cannot("xfs/64kB")
    assert said is not None and "needs Linux 6.12" in said
    assert filesystem.cannot("xfs/4kB") is None


# ── Huge pages ────────────────────────────────────────────────────────────────────────────────


def test_a_pool_of_which_the_kernel_gives_a_part(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    write = KernelValue.write
    most = {"hugepages-2048kB": 1000, "hugepages-1048576kB": 2}

    def give(self: KernelValue, text: str) -> None:
        write(self, str(min(int(text), most[self.path.parent.name])))

    monkeypatch.setattr(KernelValue, "write", give)
    before = contents(place)
    with Journal() as journal, huge_pages.pools({2 * 1024**2: 64, 1024**3: 4}, journal, place.sys) as pools:
        assert (pools[2 * 1024**2].asked, pools[2 * 1024**2].given) == (64, 64)
        assert (pools[1024**3].asked, pools[1024**3].given) == (4, 2)
        assert str(pools[1024**3]) == "4 huge pages of 1GB requested, 2 allocated"
        assert (place.sys / "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").read_text() == "67"
    assert contents(place) == before


def test_surplus_pages_of_others_are_surplus_again(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pages are in use, two of them beyond the pool (vm.nr_overcommit_hugepages)."""
    directory = place.sys / "kernel/mm/hugepages/hugepages-2048kB"
    (directory / "surplus_hugepages").write_text("2")
    write = KernelValue.write

    def by_the_kernel(self: KernelValue, text: str) -> None:
        total = max(int(text), 3)
        write(self, str(total))
        (directory / "surplus_hugepages").write_text(str(total - int(text)))

    def pool() -> list[str]:
        return [(directory / name).read_text() for name in ("nr_hugepages", "surplus_hugepages")]

    monkeypatch.setattr(KernelValue, "write", by_the_kernel)
    told: list[Undone] = []
    with Journal(told.append) as journal, huge_pages.pools({2 * 1024**2: 64}, journal, place.sys) as pools:
        assert pools[2 * 1024**2].given == 64
        assert pool() == ["67", "0"]
    assert (pool(), told) == (["3", "2"], [])


# ── Processors ────────────────────────────────────────────────────────────────────────────────


def test_a_process_its_threads_and_children_are_pinned() -> None:
    script = "import subprocess,sys,threading;threading.Thread(target=threading.Event().wait,daemon=True).start();" \
        "subprocess.run(['sh','-c','echo ready; read x; read y'])"  # fmt: skip
    child = subprocess.Popen(
        ["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        one = min(os.sched_getaffinity(0))
        assert cpu_pinning.pin(child.pid, str(one)) == str(one)
        assert os.sched_getaffinity(child.pid) == {one}
        threads = cpu_pinning.threads_of(child.pid)
        assert len(threads) >= 3
        assert all(os.sched_getaffinity(thread) == {one} for thread in threads)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.mark.parametrize("level", ["all", "0"])
def test_a_process_that_has_ended_is_said_as_that(level: str) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(OctavoError, match=f"process {child.pid} ended before it was on its CPUs"):
        cpu_pinning.pin(child.pid, level)


def test_a_client_inherits_our_cpus_and_we_get_ours_back() -> None:
    before = os.sched_getaffinity(0)
    one = str(max(before))
    with cpu_pinning.pinned(one) as cpus:
        assert cpus == one
        seen = subprocess.run(
            ["python3", "-c", "import os; print(*os.sched_getaffinity(0))"], capture_output=True, text=True, check=True
        )
    assert seen.stdout.split() == [one]
    assert os.sched_getaffinity(0) == before
