"""The outbox, the certificates and the options of ssh."""

import json
import sqlite3
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dask import config

from octavo.errors import HostError, UsageError
from octavo.fleet import certificates, daemon, launch, runs
from octavo.fleet.outbox import Outbox
from octavo.fleet.tls import configured_security, split_address, tls_address
from octavo.host.process import ProcessIdentity, itself
from octavo.remote.hosts_file import FleetFile, RemoteHost, parse_fleet
from octavo.remote.ssh import HostAnswer, command_line
from octavo.store.records import TrialRecord
from octavo.store.set_aside import SetAside


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Not below a directory that others can write, which is not accepted for root's files.
    monkeypatch.setattr(certificates, "octavo_home", lambda: tmp_path)
    monkeypatch.setattr("octavo.fleet.outbox.octavo_home", lambda: tmp_path)
    monkeypatch.setattr("octavo.store.set_aside.octavo_home", lambda: tmp_path)
    return tmp_path


def trial(number: int) -> TrialRecord:
    return TrialRecord("cell", number, 1, 1, 1, "ok", None, 0.0, 1.0, 1)


def test_what_was_committed_is_sent_until_it_is_there() -> None:
    first = Outbox("run")
    assert first.last() == 0
    for number in (1, 2, 3):
        first.add(trial(number))
    assert first.last() == 3
    assert [number for number, _ in first.undelivered({first.name: 2})] == [3]
    first.close()
    again = Outbox("run")
    assert again.name == first.name
    assert [record.round for _, record in again.undelivered({})] == [1, 2, 3]
    assert again.path.stat().st_mode & 0o777 == 0o600
    again.remove()
    assert not list(again.path.parent.iterdir())
    assert Outbox("run").name != first.name


def test_a_row_that_cannot_be_read_is_set_aside_and_those_behind_it_are_sent() -> None:
    told: list[str] = []
    outbox = Outbox("run", told.append)
    for number in (1, 2, 3):
        outbox.add(trial(number))
    with closing(sqlite3.connect(outbox.path, isolation_level=None)) as other:
        other.execute("UPDATE trial SET record = x'7b' WHERE number = 2")
    assert [number for number, _ in outbox.undelivered({})] == [1, 3]
    assert [number for number, _ in outbox.undelivered({})] == [1, 3]
    (one,) = SetAside.of_this_home().listed()
    assert (one.run, Path(one.file).read_bytes()) == ("run", b"{")
    assert len(told) == 1


def test_the_number_of_a_row_that_was_set_aside_is_not_given_again() -> None:
    outbox = Outbox("run")
    for number in (1, 2):
        outbox.add(trial(number))
    with closing(sqlite3.connect(outbox.path, isolation_level=None)) as other:
        other.execute("UPDATE trial SET record = x'7b' WHERE number = 2")
    outbox.trials()
    outbox.add(trial(3))
    # A coordinator that already has the second one, from before it was damaged, gets the third.
    assert [record.round for _, record in outbox.undelivered({outbox.name: 2})] == [3]


def test_certificates_are_secret_and_of_one_authority() -> None:
    certificates.make_authority()
    made = certificates.issue("alpha")
    certificates.install(made)
    for path in certificates.directory().iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert certificates.directory().stat().st_mode & 0o777 == 0o700
    authority, certificate, key = certificates.paths_of(certificates.HOST)
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    Path(key).chmod(0o644)
    with pytest.raises(HostError, match="may be read by others"):
        certificates.paths_of(certificates.HOST)


def test_a_certificate_that_has_expired_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a failed handshake after two years."""
    monkeypatch.setattr(certificates, "_DAYS", 0)
    certificates.make_authority()
    certificates.install(certificates.issue("alpha"))
    for role, file in ((certificates.COORDINATOR, "coordinator.pem"), (certificates.HOST, "host.pem")):
        with pytest.raises(HostError, match=rf"{file} expired on \d{{4}}-\d\d-\d\d; .* octavo fleet init hosts.toml"):
            certificates.paths_of(role)


def test_init_renews_the_certificate_of_the_coordinator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.make_authority()
    before = (certificates.directory() / "coordinator.pem").read_text()
    sent: dict[str, bytes] = {}

    def ask(hosts: Sequence[RemoteHost], words: object, inputs: dict[str, bytes]) -> list[HostAnswer]:
        sent.update(inputs)
        return []

    monkeypatch.setattr(launch, "ask_hosts", ask)
    launch.send_certificates([RemoteHost("coordinator", "10.0.0.7")])
    certificates.paths_of(certificates.COORDINATOR)
    after = (certificates.directory() / "coordinator.pem").read_text()
    assert after not in (before, json.loads(sent["coordinator"])["certificate"])  # whatever the host's name is


def test_halves_of_two_authorities_issue_nothing() -> None:
    """As after a kill between the writing of the two files."""
    certificates.make_authority()
    key = certificates.directory() / "ca.key"
    before = key.read_bytes()
    certificates.make_authority()
    key.write_bytes(before)
    with pytest.raises(HostError, match=r"do not match; .*: octavo fleet init --renew hosts\.toml"):
        certificates.issue("alpha")
    key.write_bytes(before[:60])
    with pytest.raises(HostError, match=r"damaged; .*: octavo fleet init --renew hosts\.toml"):
        certificates.issue("alpha")


def test_an_authority_is_renewed_when_nothing_runs_that_accepts_the_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def ask(hosts: Sequence[RemoteHost], words: Callable[[RemoteHost], list[str]]) -> list[HostAnswer]:
        asked.extend(words(host) for host in hosts)
        return []

    monkeypatch.setattr(launch, "ask_hosts", ask)
    fleet = FleetFile((RemoteHost("a", "a"), RemoteHost("b", "b")), "10.0.0.1:8786", 60.0)
    launch.renew_authority(fleet)
    assert not asked  # there was none before
    first = certificates.authority_digest()
    scheduler: list[ProcessIdentity | None] = [itself()]

    def running(name: str) -> ProcessIdentity | None:
        return scheduler[-1]

    monkeypatch.setattr(daemon, "running", running)
    with pytest.raises(UsageError, match="stop it first: octavo fleet stop"):
        launch.renew_authority(fleet)
    assert certificates.authority_digest() == first
    scheduler.append(None)
    launch.renew_authority(fleet)
    assert asked == [["stop"], ["stop"]]
    assert certificates.authority_digest() != first


def test_a_certificate_of_another_authority_is_a_problem() -> None:
    def problem(certificate: str | None) -> str | None:
        facts: dict[str, Any] = {"versions": {"octavo": "1"}, "certificate": certificate, "disturbed": []}
        answer = HostAnswer(RemoteHost("a", "a"), 0, json.dumps(facts).encode())
        found = launch._facts_of(answer, {"octavo": "1"}, "of ours")  # pyright: ignore[reportPrivateUsage]
        return found.problem

    assert problem("of ours") is None
    assert "no valid certificate; octavo fleet init" in (problem(None) or "")
    assert "of another authority; octavo fleet init" in (problem("of an earlier one") or "")


def test_the_program_that_differs_is_the_one_to_install() -> None:
    facts: dict[str, Any] = {"versions": {"octavo": "1", "python": "3.11.2"}, "certificate": "x", "disturbed": []}
    answer = HostAnswer(RemoteHost("a", "a"), 0, json.dumps(facts).encode())
    ours = {"octavo": "1", "python": "3.12.1"}
    found = launch._facts_of(answer, ours)  # pyright: ignore[reportPrivateUsage]
    assert found.problem == "another python: 3.11.2, here 3.12.1; install the same Python"


def test_certificates_of_dask_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message was that the scheduler does not respond."""
    key = tmp_path / "me.key"
    key.touch(mode=0o600)
    files = {"ca-file": str(tmp_path / "ca.pem"), "client": {"cert": str(key), "key": str(key)}}
    dask: Any = config  # its types are partly unknown
    with dask.set({"distributed.comm.tls": files}), pytest.raises(HostError, match=r"ca\.pem, .* cannot be read"):
        configured_security()


def test_without_certificates_nothing_is_opened() -> None:
    with pytest.raises(HostError, match="octavo fleet init"):
        certificates.paths_of(certificates.COORDINATOR)


@pytest.mark.parametrize("texts", [{}, {"ca.pem": "x", "certificate": "y", "key": "z"}, {"ca.pem": 1}])
def test_only_certificates_are_installed(texts: dict[str, str]) -> None:
    with pytest.raises(HostError, match="not a certificate"):
        certificates.install(texts)


def test_the_coordinator_of_a_fleet_does_not_join_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own fleet would then accept the certificates of the other one, and no longer its own."""
    certificates.make_authority()
    own = (certificates.directory() / "ca.pem").read_text()
    certificates.install(certificates.issue("itself"))
    with monkeypatch.context() as other:
        other.setattr(certificates, "octavo_home", lambda: tmp_path / "other")
        certificates.make_authority()
        strange = certificates.issue("alpha")
    with pytest.raises(HostError, match=r"the coordinator of another fleet; .* rm .*/fleet/ca\.key"):
        certificates.install(strange)
    assert (certificates.directory() / "ca.pem").read_text() == own
    (certificates.directory() / "ca.key").unlink()
    certificates.install(strange)
    assert (certificates.directory() / "ca.pem").read_text() == strange["ca.pem"]


def test_workers_are_started_again_after_an_attempt_that_failed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    again = threading.Event()
    failing = [OSError(28, "No space left on device"), HostError("the journal cannot be written")]

    def start_workers(*_: object) -> dict[str, str]:
        if failing:
            raise failing.pop()
        again.set()
        return {}

    monkeypatch.setattr(launch, "start_workers", start_workers)
    monkeypatch.setattr(runs, "_BETWEEN_STARTS", 0.01)
    fleet = FleetFile((RemoteHost("a", "a"),), "10.0.0.1:8786", 60.0)
    nobody: Any = SimpleNamespace(present=frozenset[str])
    with runs._kept_up(fleet, nobody):  # pyright: ignore[reportPrivateUsage]
        assert again.wait(30)


def test_addresses_are_of_tls() -> None:
    assert tls_address("10.0.0.1:8786") == tls_address("tls://10.0.0.1:8786") == "tls://10.0.0.1:8786"
    assert tls_address("[fe80::1]:8786") == tls_address("fe80::1:8786") == "tls://[fe80::1]:8786"  # Dask needs them
    assert split_address("tls://[fe80::1]:8786") == ("fe80::1", 8786)
    with pytest.raises(UsageError, match="TLS only"):
        tls_address("tcp://10.0.0.1:8786")
    for wrong in ("10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:99999", "10.0.0.1:-1"):
        with pytest.raises(UsageError, match="write an address and a port"):
            split_address(wrong)


def test_a_command_goes_over_ssh_as_one_word_and_through_other_words_as_it_is() -> None:
    host = RemoteHost("a", "10.0.0.7", "root", 2222, ("python3", "/opt/o c.pyz"), identity=Path("/keys/fleet"))
    words = command_line(host, [*host.octavo, "fleet", "check"], 9)
    assert words[0] == "ssh"
    assert words[-1] == "timeout 9 python3 '/opt/o c.pyz' fleet check"
    # Whatever the user's configuration says: no prompt, no host with an unknown key, no shared connection left behind.
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ControlMaster=no"} <= set(words)
    inside = RemoteHost("a", "a", through=("ip", "netns", "exec", "a"))
    words = command_line(inside, [*inside.octavo, "fleet", "check"], 9)
    assert words[:4] == ["ip", "netns", "exec", "a"]
    assert words[-5:] == ["timeout", "9", "octavo", "fleet", "check"]


def test_what_a_host_says_reaches_no_terminal_as_it_is() -> None:
    said = HostAnswer(RemoteHost("a", "a"), 1, "first\noctavo: \x1b[31mno\u202e room\n".encode()).failure
    assert said is not None
    assert "no" in said and "\x1b" not in said and "\u202e" not in said


def test_the_file_names_the_scheduler_and_how_long_a_host_is_waited_for() -> None:
    text = '[fleet]\nscheduler = "10.0.0.1:8786"\npatience = "2min"\n[[host]]\nname = "a"\nlisten = "10.0.0.7:8790"'
    fleet = parse_fleet(text, Path("hosts.toml"))
    assert (fleet.scheduler, fleet.patience, fleet.hosts[0].listen) == ("10.0.0.1:8786", 120.0, "10.0.0.7:8790")
    anywhere = ("scheduler = '0.0.0.0:8786'", "scheduler = '[::]:8786'")
    for wrong in ("scheduler = 'x'", "scheduler = 'a:0'", *anywhere, "patience = 'soon'", "port = 1"):
        with pytest.raises(UsageError, match="fleet"):
            parse_fleet(f"[fleet]\n{wrong}\n[[host]]\nname = 'a'", Path("hosts.toml"))
