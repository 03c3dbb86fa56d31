"""The instrument `profile`: perf's errors, and whether it can profile one server alone."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.planted import plant

from octavo.host import children
from octavo.host.journal import Journal
from octavo.instruments import perf_events, profile
from octavo.instruments.base import UnavailableError
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_V2 = "30 20 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
_V1 = "31 20 0:27 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n"
_NOTHING = WorkloadResult((), 1.0, 1)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    with Journal() as opened:
        yield opened


@pytest.fixture
def server(tmp_path: Path, journal: Journal) -> Server:
    """The parts of a server that perf needs."""
    found = SimpleNamespace(
        log=tmp_path / "1.server.log", journal=journal, below=None, group=None, process=SimpleNamespace(pid=1)
    )
    return cast(Server, found)


def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A fake perf, and a kernel that has events."""
    plant(tmp_path, {"bin/perf": f"#!/bin/sh\n{script}\n"})
    (tmp_path / "bin/perf").chmod(0o755)
    monkeypatch.setattr(children, "PLAIN_PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setitem(children._PLAIN_ENVIRONMENT, "PATH", f"{tmp_path}/bin:/usr/bin:/bin")  # pyright: ignore[reportPrivateUsage]

    def opened(*_: object, **__: object) -> int:
        return subprocess.DEVNULL

    def closed(_: int) -> None:
        pass

    monkeypatch.setattr(perf_events, "open_event", opened)
    monkeypatch.setattr(perf_events, "close", closed)


def test_a_perf_that_does_not_fit_the_kernel_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    perf(tmp_path, monkeypatch, "echo 'E: linux-perf-6.18 is not installed.' >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"match the kernel: E: linux-perf-6\.18 is not installed\.$"):
        profile.INSTRUMENT.start(server)


def test_a_perf_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    said = "Error:\\nAccess to performance monitoring is limited.\\nConsider adjusting it.\\n"
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    perf(
        tmp_path, monkeypatch, f"[ $1 = version ] && exit 0; trap '' INT; echo >{begun}; printf '{said}' >&2; exit 255"
    )
    stop = profile.INSTRUMENT.start(server)
    begun.read_text()  # from here on our signal does not end it
    with pytest.raises(UnavailableError, match=r"^perf record failed: Access to performance monitoring is limited\.$"):
        stop(_NOTHING)


def test_it_is_of_one_server_where_perf_looks_at_the_groups_that_servers_are_in(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    plant(tmp_path, {"both/self/mountinfo": _V1 + _V2, "second/self/mountinfo": _V2, "cgroup/freezer/cgroup.procs": ""})
    assert "version 2" in str(profile.cannot_restrict(tmp_path / "second", root))
    plant(root, {"unified/cgroup.controllers": ""})
    assert profile.cannot_restrict(tmp_path / "second", root) is None
    assert "version 1" in str(profile.cannot_restrict(tmp_path / "both", root))


def test_perf_is_told_the_group_of_all_that_is_the_servers(tmp_path: Path, journal: Journal, server: Server) -> None:
    restricted = profile._restricted  # pyright: ignore[reportPrivateUsage]
    plant(tmp_path, {"self/mountinfo": _V2, "1/cgroup": "3:memory:/x\n0::/octavo-children-1/together-2/3\n"})
    assert restricted(server, tmp_path) == []
    journal.children = Path("/sys/fs/cgroup/unified/octavo-children-1")
    assert restricted(server, tmp_path) == ["-G", "octavo-children-1"]
    server.below = journal.children / "together-2"
    assert restricted(server, tmp_path) == ["-G", "octavo-children-1/together-2"]
    plant(tmp_path, {"1/cgroup": "0::/\n"})
    assert restricted(server, tmp_path) == []
    journal.children = None
