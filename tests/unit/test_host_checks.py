import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from tests.unit import planted
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.host.checks import CHECKS, base, check_host, disturbing
from octavo.host.checks.base import CheckFinding, CheckImpossibleError, Host, observe_host
from octavo.host.facts import cpu_model, virtualization

TICKS = os.sysconf("SC_CLK_TCK")
CPU = "devices/system/cpu"


class Usage(NamedTuple):
    total: int
    free: int


BALLOON = "bus/virtio/drivers/virtio_balloon/virtio0"
DAMON = "kernel/mm/damon/admin/kdamonds/0"


def host(tmp_path: Path, proc: Mapping[str, str] | None = None, sys: Mapping[str, str] | None = None) -> Host:
    planted.plant(tmp_path / "proc", {**planted.machine(), **(proc or {})})
    planted.plant(tmp_path / "sys", sys or {})
    return observe_host(tmp_path, 0.0, tmp_path / "proc", tmp_path / "sys")


def later(earlier: Host, files: Mapping[str, str]) -> Host:
    """The same host one second later, with the changed files."""
    planted.plant(earlier.proc, files)
    after = observe_host(earlier.directory, 0.0, earlier.proc, earlier.sys).after
    after = replace(after, at=earlier.before.at + 1)
    return Host(earlier.proc, earlier.sys, earlier.directory, earlier.before, after)


def look(name: str, seen: Host) -> CheckFinding:
    found = CHECKS[name](seen)
    assert found.check == name
    assert found.severity in ("fine", "unknown") or found.why
    return found


@pytest.mark.parametrize(
    ("name", "proc", "sys", "severity", "said"),
    [
        ("CPU governor", {}, {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n"}, "fine", "performance"),
        ("CPU governor", {}, {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n"}, "disturbs", "powersave"),
        ("turbo", {}, {f"{CPU}/intel_pstate/no_turbo": "0\n"}, "note", "on"),
        ("turbo", {}, {f"{CPU}/intel_pstate/no_turbo": "1\n"}, "fine", "off"),
        ("turbo", {}, {f"{CPU}/cpufreq/boost": "1\n"}, "note", "on"),
        ("SMT", {}, {f"{CPU}/smt/control": "on\n"}, "note", "on"),
        ("SMT", {}, {f"{CPU}/smt/control": "forceoff\n"}, "fine", "forceoff"),
        ("CPU throttling", {}, {f"{CPU}/cpu3/thermal_throttle/core_throttle_count": "7\n"}, "note", "7 times"),
        ("CPU throttling", {}, {f"{CPU}/cpu3/thermal_throttle/core_throttle_count": "0\n"}, "fine", "never"),
        ("autogroup scheduling", {"sys/kernel/sched_autogroup_enabled": "1\n"}, {}, "note", "on"),
        ("autogroup scheduling", {"sys/kernel/sched_autogroup_enabled": "0\n"}, {}, "fine", "off"),
        ("NUMA balancing", {"sys/kernel/numa_balancing": "1\n"},
         {"devices/system/node/node0/x": "", "devices/system/node/node1/x": ""}, "note", "2 nodes"),
        ("NUMA balancing", {"sys/kernel/numa_balancing": "1\n"}, {"devices/system/node/node0/x": ""}, "fine", "one"),
        ("virtualization", {"cpuinfo": "processor: 0\nflags\t\t: fpu hypervisor sse\n"}, {}, "note", "virtual machine"),
        ("virtualization", {"cpuinfo": "processor: 0\nflags\t\t: fpu sse\n"}, {}, "fine", "none"),
        ("swap", {"swaps": "Filename\n"}, {}, "fine", "none"),
        ("swap", {"swaps": "Filename\n/dev/sda2 partition 9 2048 -2\n", "sys/vm/swappiness": "60\n"}, {}, "note",
         "2 MB in use, swappiness 60"),
        ("swap", {"swaps": "Filename\n/dev/sda2 partition 9 0 -2\n", "sys/vm/swappiness": "60\n"}, {}, "fine", "0 B"),
        ("transparent huge pages", {}, {"kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}, "note",
         "always"),
        ("transparent huge pages", {}, {"kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"}, "fine",
         "madvise"),
        ("cold pages", {}, {}, "fine", "kept"),
        ("cold pages", {}, {f"{DAMON}/state": "off\n", f"{DAMON}/contexts/0/schemes/0/action": "pageout\n"}, "fine",
         "kept"),
        ("cold pages", {}, {f"{DAMON}/state": "on\n", f"{DAMON}/contexts/0/schemes/0/action": "stat\n"}, "fine",
         "kept"),
        ("cold pages", {}, {f"{DAMON}/state": "on\n", f"{DAMON}/contexts/0/schemes/0/action": "pageout\n"}, "disturbs",
         "paged out"),
        ("cold pages", {}, {"module/damon_reclaim/parameters/enabled": "Y\n"}, "disturbs", "paged out"),
        ("free memory", {}, {}, "fine", "kept"),
        ("free memory", {}, {f"{BALLOON}/features": "0110" + 60 * "0" + "\n"}, "fine", "kept"),
        ("free memory", {}, {f"{BALLOON}/features": "011001" + 58 * "0" + "\n"}, "note", "reported"),
        ("power", {}, {"class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "1\n",
                       "class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/status": "Full\n"},
         "fine", "not on battery"),
        ("power", {}, {"class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "0\n"}, "disturbs",
         "mains off"),
        ("power", {}, {"class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "0\n",
                       "class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/status": "Charging\n",
                       "class/power_supply/ucsi/type": "USB\n", "class/power_supply/ucsi/online": "1\n"},
         "fine", "not on battery"),
        ("power", {}, {"class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/status": "Discharging\n"},
         "disturbs", "BAT0"),
        ("power", {}, {"class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "1\n",
                       "class/power_supply/pen/type": "Battery\n", "class/power_supply/pen/status": "Discharging\n",
                       "class/power_supply/pen/scope": "Device\n"}, "fine", "not on battery"),
    ],
)  # fmt: skip
def test_a_check_sees_what_the_kernel_says(
    tmp_path: Path, name: str, proc: Mapping[str, str], sys: Mapping[str, str], severity: str, said: str
) -> None:
    found = look(name, host(tmp_path, proc, sys))
    assert (found.severity, said in found.found) == (severity, True), found


@pytest.mark.parametrize("name", ["CPU governor", "turbo", "SMT", "CPU throttling", "autogroup scheduling", "swap",
                                  "virtualization", "transparent huge pages", "power", "device traffic"])  # fmt: skip
def test_what_is_not_there_cannot_be_looked_at(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckImpossibleError):
        CHECKS[name](host(tmp_path))


def test_who_takes_the_cpu_is_named_and_we_are_not(tmp_path: Path) -> None:
    us = os.getpid()
    first = host(
        tmp_path,
        planted.process(us, 1, "octavo", ticks=100) | planted.process(70, 1, "backup", ticks=500)
        | planted.process(71, 70, "gzip", ticks=900) | planted.process(1, 0, "init") | {"loadavg": "1.25 1 1 1/2 3\n"}
        | planted.machine(user=1000, idle=1000),
    )  # fmt: skip
    assert look("processes", first).severity == "fine"
    (tmp_path / "proc/71/stat").unlink()  # gzip used 20 more ticks and was reaped
    second = later(
        first,
        planted.process(us, 1, "octavo", ticks=200) | planted.process(70, 1, "backup", ticks=510, reaped=920)
        | planted.machine(user=1130, idle=1160, steal=10),
    )  # fmt: skip
    found = look("processes", second)
    assert found.severity == "disturbs"
    assert (
        "other processes take 10 % of the CPU: backup (pid 70) 10 %; load average 1.25" in found.found
    )  # 30 ticks of 300
    assert "octavo" not in found.found
    assert found.fix.endswith("ps -fp 70")
    assert look("CPU steal", second).severity == "disturbs"
    assert "3.3 %" in look("CPU steal", second).found


def test_other_servers_are_found_by_their_postmasters(tmp_path: Path) -> None:
    table = planted.process(60, 1, "postgres") | planted.process(61, 60, "postgres", ticks=10)
    first = host(tmp_path, table | planted.machine(user=1000))
    found = look("other PostgreSQL servers", first)
    assert (found.severity, found.found) == ("note", "1 (pid 60), taking 0.0 % of the CPU")
    second = later(first, planted.process(61, 60, "postgres", ticks=60) | planted.machine(user=1100))
    assert look("other PostgreSQL servers", second).severity == "disturbs"
    assert "50.0 %" in look("other PostgreSQL servers", second).found
    assert look("other PostgreSQL servers", host(tmp_path / "none")).severity == "fine"


def test_swapping_now_disturbs(tmp_path: Path) -> None:
    swaps = {"swaps": "Filename\n/dev/sda2 partition 9 2048 -2\n", "sys/vm/swappiness": "60\n"}
    first = host(tmp_path, swaps | {"vmstat": "nr_free 1\npswpin 5\npswpout 7\n"})
    assert look("swap", first).severity == "note"
    found = look("swap", later(first, {"vmstat": "nr_free 1\npswpin 9\npswpout 7\n"}))
    assert (found.severity, "4 pages" in found.found) == ("disturbs", True)


def test_traffic_at_the_device_disturbs(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev

    def counters(sectors_read: int, sectors_written: int) -> dict[str, str]:
        mine = f"   {os.major(number)}    {os.minor(number)} mine 1 0 {sectors_read} 0 1 0 {sectors_written} 0 0 0 0\n"
        return {"diskstats": f" 999 0 other 1 0 999999999 0 1 0 9 0 0 0 0\n{mine}"}

    first = host(tmp_path, counters(1000, 1000))
    assert look("device traffic", later(first, counters(2000, 2000))).severity == "fine"
    found = look("device traffic", later(first, counters(1000 + 8192, 1000 + 2048)))
    assert (found.severity, found.found.startswith("5 MB a second")) == ("disturbs", True)
    ours = {"self/io": f"rchar: 1\nread_bytes: {4 * 1024**2}\nwrite_bytes: 7\n"}
    found = look("device traffic", later(first, {**counters(1000 + 8192, 1000 + 2048), **ours}))
    assert (found.severity, found.found.startswith("1 MB a second")) == ("fine", True)


def test_a_full_disk_disturbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nearly_full(_: Path) -> Usage:
        return Usage(100 * 1024**3, 9 * 1024**3)

    monkeypatch.setattr("shutil.disk_usage", nearly_full)
    found = look("disk space", host(tmp_path))
    assert (found.severity, found.found.startswith("9 GB free, 9 %")) == ("disturbs", True)


def test_this_host_can_be_checked(tmp_path: Path) -> None:
    found = check_host(tmp_path, seconds=0.05)
    assert [one.check for one in found] == list(CHECKS)
    assert all(one.found and "\n" not in str(one) for one in found)
    assert all(one.why and one.fix for one in disturbing(found))
    json.dumps([one.as_dict() for one in found], allow_nan=False)


def test_a_reading_of_before_saves_the_waiting_unless_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=slept.append))
    now = base.counters_now(tmp_path)
    for age, expected in ((0.0, (1.0,)), (0.75, (0.25,)), (5.0, ()), (60.0, (1.0,))):
        slept.clear()
        seen = observe_host(tmp_path, 1.0, Path("/proc"), Path("/sys"), replace(now, at=100.0 - age))
        assert (*slept,) == expected
        assert seen.before.at == (100.0 if age == 60.0 else 100.0 - age)


def test_a_busy_process_of_this_host_is_named(tmp_path: Path) -> None:
    """It is not our child: the shell that started it has ended, and the kernel has reparented it."""
    loop = "import time\nwhile time.monotonic() < %f: pass" % (time.monotonic() + 20)
    started = subprocess.run(
        ["sh", "-c", 'python3 -c "$1" >/dev/null 2>&1 & echo $!', "sh", loop],
        capture_output=True,
        text=True,
        check=True,
    )
    pid = int(started.stdout)
    try:
        host_seen = observe_host(tmp_path, 0.5, Path("/proc"), Path("/sys"))
        assert host_seen.cpu_shares()[pid] > 0.01
        (processes,) = [one for one in check_host(tmp_path, seconds=0.3) if one.check == "processes"]
        assert processes.severity == "disturbs" or (os.cpu_count() or 1) > 16
    finally:
        os.kill(pid, 9)


def test_the_command_says_first_what_disturbs_and_leaves_its_remedies_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    remedy = "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state; systemctl disable --now damon-of-this-host"
    found = [
        CheckFinding("swap", "fine", "none"),
        CheckFinding("cold pages", "disturbs", "DAMON", "they leave", remedy),
    ]

    def checked(_: Path) -> list[CheckFinding]:
        return found

    monkeypatch.setattr("octavo.host.checks.check_host", checked)
    done = CliRunner().invoke(app, ["host", "--check"], env={"COLUMNS": "60"})
    lines = done.stdout.splitlines()
    assert done.exit_code == 1 and lines[0] == "disturbs a measurement here: cold pages"
    assert f"  To do: {remedy}" in lines
    assert max(len(line) for line in lines if remedy not in line) <= 60
    found.pop()
    done = CliRunner().invoke(app, ["host", "--check"])
    assert done.exit_code == 0 and done.stdout.startswith("nothing found that would disturb a measurement here\n")


@pytest.mark.parametrize(
    ("cpuinfo", "told"),
    [
        ("processor: 0\nflags\t\t: fpu hypervisor sse\n", "virtual machine"),
        ("processor: 0\nflags\t\t: fpu sse\n", "none seen"),
        ("processor\t: 0\nFeatures\t: fp asimd evtstrm\n", "unknown"),  # aarch64 has no flag for it
    ],
)
def test_a_cpu_without_a_flag_for_hypervisors_says_nothing_of_them(tmp_path: Path, cpuinfo: str, told: str) -> None:
    planted.plant(tmp_path, {"cpuinfo": cpuinfo})
    assert virtualization(tmp_path) == told


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 85\nmodel name\t: AMD EPYC 7B12\nstepping: 0\n", "AMD EPYC 7B12"),
        (
            "processor\t: 0\nFeatures\t: fp\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n"
            "CPU part\t: 0xd0c\nCPU revision\t: 1\n\nprocessor\t: 1\nCPU part\t: 0xd40\n",
            "Arm implementer 0x41, part 0xd0c, variant 0x3",
        ),
        ("processor\t: 0\ncpu\t\t: POWER9 (architected)\n", "POWER9 (architected)"),
    ],
)
def test_a_cpu_has_a_name_on_every_architecture(tmp_path: Path, cpuinfo: str, model: str) -> None:
    """All 64-bit Arm CPUs were called unknown: octavo compare said nothing of runs on different ones."""
    planted.plant(tmp_path, {"cpuinfo": cpuinfo})
    assert cpu_model(tmp_path) == model
