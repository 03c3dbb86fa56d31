"""A scheduler in a process of its own: only one, however many start it, with nothing inherited from its starter."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from octavo.errors import HostError, UsageError
from octavo.fleet import certificates, daemon, launch
from octavo.fleet.launch import start, start_scheduler
from octavo.host.journal import Journal
from octavo.remote.hosts_file import FleetFile, RemoteHost

_LISTEN = "127.0.0.1:0"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pytest.importorskip("distributed")
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    yield tmp_path
    daemon.stop(daemon.SCHEDULER)


def test_it_is_started_once_and_inherits_nothing(own_home: Path) -> None:
    """A coordinator restarts it in the middle of a run: otherwise the scheduler would hold the lock of its journal."""
    certificates.make_authority()
    with Journal() as journal, ThreadPoolExecutor(3) as threads:
        pids = set(threads.map(start_scheduler, [_LISTEN] * 3))
        (pid,) = pids
        files = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        assert str(journal.path) not in files
        ours = {file for file in files if file.startswith(str(own_home)) and "dask-scheduler" not in file}
        assert ours == {str(own_home / "fleet/scheduler.log")}
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"PPid:\t{os.getpid()}\n" not in status  # otherwise it would remain as a zombie until this process ends
    found = daemon.running(daemon.SCHEDULER)
    assert found is not None and found.pid == pid
    assert daemon.stop(daemon.SCHEDULER)
    assert not daemon.stop(daemon.SCHEDULER)


def test_one_that_runs_for_another_address_is_not_taken_for_ours() -> None:
    """After a change of the hosts file: the hosts would wait for a scheduler that listens elsewhere."""
    certificates.make_authority()
    pid = start_scheduler(_LISTEN)
    with pytest.raises(
        HostError, match=rf"the scheduler \(pid {pid}\) was started with {_LISTEN} instead of \[::1\]:0; "
    ):
        start_scheduler("[::1]:0")
    assert start_scheduler(_LISTEN) == pid


def test_it_listens_at_an_ipv6_address() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    certificates.make_authority()
    for listen in ("[::1]:0", "::1:0"):
        start_scheduler(listen)
        assert daemon.stop(daemon.SCHEDULER)


def test_what_ends_before_it_is_ready_is_told_in_its_words() -> None:
    certificates.make_authority()
    with pytest.raises(HostError, match=r"the scheduler did not start: octavo: .*write an address and a port"):
        start_scheduler("nowhere")


def test_the_log_keeps_what_an_earlier_one_said(own_home: Path) -> None:
    """A worker that dies is started again within seconds: why it had died was lost with its log."""
    certificates.make_authority()
    for address in ("nowhere", "elsewhere"):
        with pytest.raises(HostError, match=f"the scheduler did not start: octavo: {address}: write an address"):
            start_scheduler(address)
    log = (own_home / "fleet/scheduler.log").read_text()
    assert -1 < log.find("nowhere") < log.find("elsewhere")


def test_a_defect_in_it_is_told_too() -> None:
    with pytest.raises(HostError, match="the scheduler did not start: ValueError: not enough values to unpack"):
        daemon.start(daemon.SCHEDULER)  # without the address on which it listens


def answering(directory: Path, name: str, code: int) -> RemoteHost:
    """A host on which each command ends with this exit code, and is recorded in a file of the host's name."""
    script = directory / f"{name}.sh"
    script.write_text(f'echo "$@" >> {directory / name}\nexit {code}\n')
    return RemoteHost(name, name, through=("sh", str(script)))


def asked(directory: Path, name: str) -> list[str]:
    """The commands that a host got, without their arguments."""
    lines = (directory / name).read_text().splitlines()
    return [line.partition(" fleet host ")[2].split()[0] for line in lines]


def test_a_fleet_that_is_not_started_whole_is_stopped(own_home: Path) -> None:
    """A host that answered too late may have its worker; and a user who presses Ctrl-C wants none of them."""
    certificates.make_authority()
    with pytest.raises(HostError, match="no host of the fleet could be started"):
        start(FleetFile((answering(own_home, "late", 124),), _LISTEN, 10.0), lambda _: None)
    assert asked(own_home, "late") == ["start", "stop"]
    hosts = answering(own_home, "good", 0), answering(own_home, "bad", 1)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(FleetFile(hosts, _LISTEN, 10.0), interrupt)
    assert asked(own_home, "good") == asked(own_home, "bad") == ["start", "stop"]
    assert daemon.running(daemon.SCHEDULER) is None
    assert start(FleetFile(hosts, _LISTEN, 10.0), lambda _: None)  # one of two is enough
    assert asked(own_home, "good")[2:] == ["start"]
    # A scheduler that ran before continues, with its workers.
    with pytest.raises(KeyboardInterrupt):
        start(FleetFile(hosts, _LISTEN, 10.0), interrupt)
    assert asked(own_home, "good")[3:] == ["start"]
    assert daemon.running(daemon.SCHEDULER) is not None


def test_a_fleet_of_which_no_host_can_be_started_leaves_no_scheduler(own_home: Path) -> None:
    certificates.make_authority()
    host = RemoteHost("alone", "alone", through=("false",))
    with pytest.raises(HostError, match="no host of the fleet could be started"):
        start(FleetFile((host,), _LISTEN, 10.0), lambda _: None)
    assert daemon.running(daemon.SCHEDULER) is None
    # A scheduler that was there before continues: it may be in the middle of a run.
    start_scheduler(_LISTEN)
    with pytest.raises(HostError):
        start(FleetFile((host,), _LISTEN, 10.0), lambda _: None)
    assert daemon.running(daemon.SCHEDULER) is not None


def test_a_fleet_that_a_run_uses_is_not_stopped(own_home: Path) -> None:
    """The run started it again within seconds, after octavo fleet stop had said that it was stopped."""
    fleet = FleetFile((answering(own_home, "good", 0),), _LISTEN, 10.0)
    certificates.make_authority()
    with launch.used():
        start(fleet, lambda _: None)
        with launch.used(), pytest.raises(UsageError, match="a run uses the fleet"):
            launch.stop(fleet)
        assert asked(own_home, "good") == ["start"]
        assert daemon.running(daemon.SCHEDULER) is not None
    assert launch.stop(fleet) == {}
    assert asked(own_home, "good") == ["start", "stop"]
    assert daemon.running(daemon.SCHEDULER) is None
