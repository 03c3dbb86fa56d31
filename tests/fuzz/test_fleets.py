"""Input of fleets: the file of hosts, hosts' answers, certificates that are sent, a process's notes about itself."""

import json
import os
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.fleet import certificates, daemon, launch
from octavo.remote import hosts_file, ssh
from octavo.remote.hosts_file import RemoteHost

_HOSTS = b"""[defaults]
user = "octavo"
octavo = "/opt/octavo/octavo"
identity = "keys/fleet"
known_hosts = "keys/known"

[[host]]
name = "db1"
address = "db1.example.com"
port = 2222
class = "x86-nvme"
listen = "10.0.0.7:8790"

[[host]]
name = "db2"
through = "ip netns exec db2"

[fleet]
scheduler = "[::1]:8786"
patience = "10min"
"""
_VERSIONS = {"octavo": "1.0", "package": "00" * 32, "python": "3.11.2", "distributed": "2025.5.0"}
_FACTS = json.dumps({"versions": _VERSIONS, "certificate": True, "disturbed": ["steal: 3 %", "swap is used"]}).encode()
_SENT = json.dumps(dict.fromkeys(("ca.pem", "certificate", "key"), "-----BEGIN X-----")).encode()
_NOTE = b'{"pid": 7, "start_time": 12345, "boot_id": "5f0ab1b1-62ba-4a4f-8a7e-0e6e1d1b8a01"}\n'


def _fleet(text: bytes, place: Path) -> object:
    found = hosts_file.parse_fleet(text.decode(errors="replace"), place / "hosts.toml")
    for host in found.hosts:
        words = ssh.command_line(host, ["octavo", "fleet"], 9)
        assert not any("\0" in word or "\n" in word for word in words)
        # Nothing in the file may be an option of ssh's.
        assert host.through or (words[-2] == host.address and not host.address.startswith("-"))
    return found


def _answer(text: bytes, _: Path) -> object:
    answer = ssh.HostAnswer(RemoteHost("a", "a"), 0, text)
    found = launch._facts_of(answer, _VERSIONS)  # pyright: ignore[reportPrivateUsage]
    shown = [found.problem or "", *found.disturbed, *found.versions.values()]
    assert not any("\x1b" in one or "\n" in one for one in shown)
    return found


def _failure(text: bytes, _: Path) -> object:
    last = ssh._last_line(text)  # pyright: ignore[reportPrivateUsage]
    failure = ssh.HostAnswer(RemoteHost("a", "a"), 1, text, None, last).failure or ""
    assert len(failure) <= 300 and "\x1b" not in failure
    return failure


def _certificate(text: bytes, place: Path) -> object:
    try:
        sent = json.loads(text)
    except (ValueError, RecursionError):  # raised as by the command
        return None
    with patch.dict(os.environ, OCTAVO_HOME=str(place / "home")):
        certificates.install(sent)
    return sent


def _noted(text: bytes, place: Path) -> object:
    with patch.dict(os.environ, OCTAVO_HOME=str(place / "home")):
        (certificates.directory() / "worker.json").write_bytes(text)
        return daemon.running("worker")


PARSERS = (
    Parser("file of hosts", _fleet, (_HOSTS,)),
    Parser("answer to fleet check", _answer, (_FACTS,), ()),
    Parser(
        "failure of a host", _failure, (b"octavo: no such user\n", b"ssh: connect to host a port 22: timed out\n"), ()
    ),
    Parser("certificate of a fleet", _certificate, (_SENT,)),
    Parser("note of a daemon", _noted, (_NOTE,), ()),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
