"""Which server a connection leads to: one of this host, or one behind a port of this host."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octavo.postgres.user_connection import UsersConnection
from octavo.watch.connect import target_of

POSTMASTER, BACKEND = 42, 75


def connected(host: str, started: float | None, directory: Path) -> UsersConnection:
    """A connection whose server tells this."""
    row: dict[str, Any] = {"data_directory": str(directory), "backend": BACKEND, "backend_start": started}
    answer = SimpleNamespace(fetchall=lambda: [dict(row)])

    def execute(_: bytes) -> SimpleNamespace:
        return answer

    return cast(
        UsersConnection,
        SimpleNamespace(
            info=SimpleNamespace(server_version=180001, host=host, hostaddr=host, backend_pid=BACKEND),
            limits=None,
            execute=execute,
        ),
    )


def process(proc: Path, name: str, seconds_ago: float) -> None:
    """A process with our backend's pid, started so long ago."""
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds_ago) * os.sysconf("SC_CLK_TCK"))
    directory = proc / str(BACKEND)
    directory.mkdir()
    fields = ["S", str(POSTMASTER), *["0"] * 17, str(ticks), "0", "0"]
    (directory / "stat").write_text(f"{BACKEND} ({name}) {' '.join(fields)}\n")
    (directory / "status").write_text(f"Name:\t{name}\nNSpid:\t{BACKEND}\n")


@pytest.mark.parametrize(
    ("host", "name", "seconds_ago", "postmaster"),
    [
        ("127.0.0.1", "postgres", 1.0, POSTMASTER),
        ("::1", "postgres", 1.0, POSTMASTER),
        # A tunnel to another host, whose backend has the pid of a backend here.
        ("127.0.0.1", "postgres", 30.0, None),
        ("127.0.0.1", "kworker/0:1", 1.0, None),
        ("192.0.2.7", "postgres", 1.0, None),
    ],
)
def test_processes_are_the_servers_if_its_backend_is_one_of_them(
    host: str, name: str, seconds_ago: float, postmaster: int | None, tmp_path: Path
) -> None:
    process(tmp_path, name, seconds_ago)
    target, server = target_of(connected(host, time.time() - 1.0, tmp_path), tmp_path)
    assert (target.postmaster, server["postmaster"]) == (postmaster, postmaster)
    assert (target.directory, target.backend) == ((tmp_path, BACKEND) if postmaster else (None, None))
    assert "backend_start" not in server


def test_a_server_that_does_not_tell_when_its_backend_began_is_elsewhere(tmp_path: Path) -> None:
    process(tmp_path, "postgres", 1.0)
    target, _ = target_of(connected("127.0.0.1", None, tmp_path), tmp_path)
    assert target.postmaster is None and target.no_processes


@pytest.mark.parametrize(
    ("mounts", "working", "seen"),
    [
        ("mnt:[1]", "data", True),
        ("mnt:[2]", "data", True),  # a unit with ProtectSystem=
        ("mnt:[2]", "other", False),  # a container with the PIDs of this host
        ("mnt:[2]", "gone", True),  # not ours to see
    ],
)
def test_a_directory_of_the_same_name_is_not_the_servers(mounts: str, working: str, seen: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "other").mkdir()
    process(tmp_path, "postgres", 1.0)
    for who, namespace in (("self", "mnt:[1]"), (str(POSTMASTER), mounts)):
        (tmp_path / who / "ns").mkdir(parents=True)
        (tmp_path / who / "ns/mnt").symlink_to(namespace)
    (tmp_path / str(POSTMASTER) / "cwd").symlink_to(tmp_path / working)
    target, _ = target_of(connected("127.0.0.1", time.time() - 1.0, data), tmp_path)
    assert target.postmaster == POSTMASTER
    assert target.directory == (data if seen else None)
    assert bool(target.no_directory) is not seen
