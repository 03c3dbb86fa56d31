"""`octavo doctor --hosts` over a real sshd on loopback: hosts that answer, and those that misbehave."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.sshd import Sshd, ssh_server

from octavo.doctor.hosts import rows_of
from octavo.host.journal import Journal
from octavo.remote.hosts_file import parse_hosts
from octavo.remote.ssh import HostAnswer, on_each

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.beside

FINDING = {"rule": "huge-pages", "status": "finding", "severity": "warning", "text": "evil \x1b[31m\u202etext\nx"}
REPORT = {
    "schema_version": 1,
    "servers": [
        {
            "server": "port 5432", "version": "18.1", "problem": None, "results": [FINDING],
            "page_stack": [{"layer": "CPU memory page", "value": "4kB"}, {"layer": "data block", "value": "8kB"}],
        }
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def script(place: Path, name: str, text: str) -> str:
    """A command that ignores its arguments."""
    (place / name).write_text(f"{text}\n")
    return f"sh {place / name}"


def answers(text: str, journal: Journal, at_once: int = 20, seconds: int = 300) -> dict[str, HostAnswer]:
    hosts = parse_hosts(text, Path("/nowhere/hosts.toml"))
    asked = on_each(hosts, lambda host: host.octavo, journal, seconds=seconds, most_bytes=100_000, at_once=at_once)
    return {answer.host.name: answer for answer in asked}


def test_a_table_of_hosts_of_which_some_fail(sshd: Sshd, home: Path, tmp_path: Path) -> None:
    good = json.dumps(REPORT)
    bad = good.replace('"warning"', '"error"')
    (tmp_path / "good.json").write_text(good)
    (tmp_path / "bad.json").write_text(bad)
    # It should see no servers, because those of other tests start and stop.
    mapped = "" if os.geteuid() == 0 else "--map-root-user "
    nowhere = f"unshare {mapped}--net --pid --fork --kill-child --mount-proc"
    real = f"{nowhere} env OCTAVO_HOME={home} PYTHONPATH={ROOT / 'src'} {sys.executable} -m octavo"
    tables = [
        sshd.table("good", script(tmp_path, "good", f"cat {tmp_path}/good.json")),
        sshd.table("bad", script(tmp_path, "bad", f"cat {tmp_path}/bad.json; exit 1")),
        sshd.table("no-json", script(tmp_path, "no-json", "echo hello")),
        sshd.table("other-json", script(tmp_path, "other-json", 'echo \'{"servers": 3, "schema_version": 1}\'')),
        sshd.table("without-octavo", "no-such-octavo"),
        sshd.table("fails", script(tmp_path, "fails", "echo 'octavo: \x1b[31mno' >&2; exit 3")),
        sshd.table("closed", "octavo", port=1),
        sshd.table("stranger", "octavo", known_hosts="/dev/null"),
        sshd.table("real", real),
    ]
    (tmp_path / "hosts.toml").write_text("".join(tables))
    done = subprocess.run(
        [sys.executable, "-m", "octavo", "doctor", "--hosts", tmp_path / "hosts.toml", "--format", "json",
         "--interval", "0s"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    found = json.loads(done.stdout)
    rows = {row["host"]: row for row in found["rows"]}
    assert rows.keys() == {
        "good",
        "bad",
        "no-json",
        "other-json",
        "without-octavo",
        "fails",
        "closed",
        "stranger",
        "real",
    }
    assert done.returncode == 1  # an error was found on one
    assert found["rows"][0]["findings"]["error"] > 0
    assert rows["good"]["problem"] is None
    assert (rows["good"]["kernel_page"], rows["good"]["data_block"], rows["good"]["version"]) == ("4kB", "8kB", "18.1")
    assert rows["good"]["rules"] == ["warning: huge-pages"]
    assert rows["bad"]["findings"] == {"error": 1, "warning": 0, "note": 0}
    for name, words in {
        "no-json": "not JSON", "other-json": "not a report", "without-octavo": "does not exist", "fails": "no",
        "closed": "Connection refused", "stranger": "Host key verification failed",
        "real": "no PostgreSQL server listens",
    }.items():  # fmt: skip
        assert words in rows[name]["problem"]
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_a_hundred_hosts_in_one_table_the_worst_first(sshd: Sshd, tmp_path: Path) -> None:
    """A hundred entries of one sshd: a report for each, except one without Octavo and one on which nothing listens.
    Each counts how many run at the same time. A hundred SSH connections are 15 s of CPU: minutes if others use the
    CPUs."""
    (tmp_path / "here").mkdir()
    (tmp_path / "counted").mkdir()
    command = script(
        tmp_path, "report",
        f'mkdir {tmp_path}/here/$1; ls {tmp_path}/here | wc -l > {tmp_path}/counted/$1; cat {tmp_path}/$1.json\n'
        f"rmdir {tmp_path}/here/$1",
    )  # fmt: skip
    tables: list[str] = []
    badness: dict[str, tuple[int, int, int, int]] = {}
    for number in range(100):
        name = f"db{number:02}"
        counts = {"error": number % 10 == 3, "warning": number % 3, "note": number % 4}
        results = [{**FINDING, "severity": level} for level, count in counts.items() for _ in range(count)]
        report = {**REPORT, "servers": [{**REPORT["servers"][0], "results": results}]}  # type: ignore[index]
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
        badness[name] = (-counts["error"], 1, -counts["warning"], -counts["note"])
        tables.append(sshd.table(name, f"{command} {name}"))
    tables[50], tables[80] = sshd.table("db50", "no-such-octavo"), sshd.table("db80", "octavo", port=1)
    badness |= {"db50": (0, 0, 0, 0), "db80": (0, 0, 0, 0)}
    (tmp_path / "hosts.toml").write_text("".join(tables))
    done = subprocess.run(
        [sys.executable, "-m", "octavo", "doctor", "--hosts", tmp_path / "hosts.toml"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "150"},
    )  # fmt: skip
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("98 servers on 98 hosts: 10 errors, ")
    assert lines[0].endswith("; 2 hosts could not be examined")
    order = [line.split()[0] for line in lines if line.startswith("db")]
    assert order == sorted(badness, key=lambda name: (*badness[name], name))
    (row,) = [line for line in lines if line.startswith("db50")]
    assert "not examined: the command does not exist on the host" in row
    counted = [int(file.read_text()) for file in (tmp_path / "counted").iterdir()]
    assert len(counted) == 98
    assert max(counted) <= 20


def test_no_host_takes_more_time_or_room_than_it_may(sshd: Sshd, journal: Journal, tmp_path: Path) -> None:
    found = answers(sshd.table("sleeps", script(tmp_path, "sleeps", "exec sleep 1000")), journal, seconds=2)
    found |= answers(
        sshd.table("floods", script(tmp_path, "floods", "exec yes"))
        + sshd.table(
            "floods-errors", script(tmp_path, "errors", "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo fine")
        )
        + sshd.table("quick", script(tmp_path, "quick", "echo fine")),
        journal,
    )
    assert found["sleeps"].problem == "the command did not end in time"
    assert "more than 97.7 kB" in str(found["floods"].problem)
    assert found["floods-errors"].output == found["quick"].output == b"fine\n"
    assert found["quick"].problem is None


def test_so_many_at_a_time_and_no_more(sshd: Sshd, journal: Journal, tmp_path: Path) -> None:
    """Each counts how many others run, and waits until the maximum is reached."""
    (tmp_path / "here").mkdir()
    command = script(
        tmp_path, "count",
        f"mkdir {tmp_path}/here/$$; ls {tmp_path}/here | wc -l; sleep 0.2; rmdir {tmp_path}/here/$$",
    )  # fmt: skip
    hosts = "".join(sshd.table(f"h{number}", command) for number in range(24))
    counted = [int(answer.output) for answer in answers(hosts, journal, at_once=6).values()]
    assert len(counted) == 24
    assert max(counted) <= 6


def test_who_leaves_off_leaves_nothing(sshd: Sshd, journal: Journal, tmp_path: Path) -> None:
    sleeping = sshd.table("sleeps", script(tmp_path, "sleeps", "exec sleep 1000"))
    quick = sshd.table("quick", script(tmp_path, "quick", "echo fine"))
    hosts = parse_hosts(sleeping + quick, Path("/nowhere"))
    asked = on_each(hosts, lambda host: host.octavo, journal, seconds=60, most_bytes=1000)
    assert next(asked).host.name == "quick"
    asked.close()  # type: ignore[attr-defined]
    left = subprocess.run(
        ["pgrep", "-f", f"127.0.0.1 timeout 60 sh {tmp_path}/sleeps"], capture_output=True, check=False
    )
    assert left.stdout == b""


def test_what_a_host_says_is_made_harmless() -> None:
    (host,) = parse_hosts('[[host]]\nname = "a"', Path("/nowhere"))
    (row,) = rows_of(HostAnswer(host, 0, json.dumps(REPORT).encode()))
    assert row["worst"] == "evil \ufffd[31m\ufffdtext x"
    many = {**REPORT, "servers": REPORT["servers"] * 1000}  # type: ignore[operator]
    *rows, last = rows_of(HostAnswer(host, 0, json.dumps(many).encode()))
    assert (len(rows), last["problem"]) == (50, "950 servers more than 50, left out here")
