"""Attacks on a fleet: hosts that answer without end, and anybody who can reach the ports on which it listens."""

# pyright: reportPrivateUsage=false

import asyncio
import json
import os
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.security.test_endless import in_time

from octavo.fleet import certificates, daemon, launch, listener
from octavo.fleet.listener import GuardedBackend, most_strangers
from octavo.fleet.tls import security
from octavo.host.journal import Journal
from octavo.remote import ssh
from octavo.remote.hosts_file import RemoteHost


def asked(code: str, seconds: int = 60, text: bytes | None = None) -> ssh.HostAnswer:
    """The answer of a host that runs this code."""
    host = RemoteHost("a", "a", octavo=(sys.executable, "-c", code), through=("env",))

    def ask() -> ssh.HostAnswer:
        with Journal() as journal:
            (found,) = ssh.on_each(
                [host], lambda one: one.octavo, journal, seconds=seconds, most_bytes=1 << 20,
                inputs=None if text is None else {"a": text},
            )  # fmt: skip
            return found

    found = in_time(ask)
    assert isinstance(found, ssh.HostAnswer)
    return found


def test_an_answer_without_end_is_left(own_home: Path) -> None:
    assert asked("import sys\nwhile True: sys.stdout.write('x' * 65536)").failure == "its answer has more than 1 MB"
    said = asked("import sys\nwhile True: sys.stderr.write('x' * 65536)", seconds=1)
    assert said.failure == "the command did not end in time"


def test_what_a_host_is_told_and_says_comes_whole(own_home: Path) -> None:
    text = b"a" * 200_000
    found = asked("import sys; sys.stdout.write(sys.stdin.read()); sys.stderr.write('e'); sys.exit(3)", text=text)
    assert (found.output, found.failure, found.code) == (text, "e", 3)


@pytest.mark.parametrize(
    "said",
    ["[" * 100_000, "{}", "[]", "5", '{"versions": {"a": 1}, "disturbed": 5, "certificate": 1}',
     '{"versions": {"a": 1}, "disturbed": {"x": 1}}'],
)  # fmt: skip
def test_an_answer_that_is_none_of_octavos_is_that_hosts_problem(said: str) -> None:
    answer = ssh.HostAnswer(RemoteHost("a", "a"), 0, said.encode())
    assert launch._facts_of(answer, {"a": "1"}).problem == "the output is not Octavo's"


def test_what_a_host_says_of_itself_has_a_bound() -> None:
    said = json.dumps({"versions": {"a": "1" * 10_000}, "disturbed": ["x" * 10_000] * 10_000, "certificate": True})
    found = launch._facts_of(ssh.HostAnswer(RemoteHost("a", "a"), 0, said.encode()), {"a": "1"})
    assert len(str(found)) < 20_000


def test_a_log_that_strangers_fill_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_LARGEST_LOG", 1000)
    monkeypatch.setattr(daemon, "_KEPT_OF_LOG", 10)
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        for _ in range(3):
            os.write(log, b"TLS handshake failed\n" * 100)
            daemon.cut_log(log)
            os.write(log, b"more\n")
    finally:
        os.close(log)
    assert (tmp_path / "log").read_bytes() == b"[...]\nke failed\nmore\n"


def test_who_shows_no_certificate_holds_few_connections_and_not_for_long(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's own listener waits for ever, and has no room for the fleet once all descriptors are in use."""
    pytest.importorskip("cryptography")
    certificates.make_authority()
    secured: Any = security(certificates.COORDINATOR)

    async def visit() -> None:
        async def serve(comm: Any) -> None:
            await comm.close()

        backend: Any = GuardedBackend()
        guarded: Any = backend.get_listener("127.0.0.1:0", serve, True, **secured.get_listen_args("scheduler"))
        await guarded.start()
        place: tuple[str, int] = guarded.get_host_port()
        try:
            loop = asyncio.get_running_loop()
            strangers = [await _connected(loop, place) for _ in range(most_strangers() + 20)]
            for gone in strangers[:20]:
                assert await asyncio.wait_for(loop.sock_recv(gone, 1), 30) == b""
            assert len(guarded._strangers) == most_strangers()
            # A host of the fleet is still accepted.
            context: ssl.SSLContext = secured.get_connection_args("client")["ssl_context"]
            _, writer = await asyncio.wait_for(asyncio.open_connection(*place, ssl=context), 30)
            writer.close()
            monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.05)
            late = await _connected(loop, place)
            assert await asyncio.wait_for(loop.sock_recv(late, 1), 30) == b""
            for one in (*strangers, late):
                one.close()
        finally:
            guarded.stop()

    asyncio.run(visit())


def test_a_fleet_that_comes_at_one_moment_gets_in(own_home: Path) -> None:
    """None of it is treated as the oldest of too many strangers: 200 hosts whose scheduler was restarted."""
    pytest.importorskip("cryptography")
    certificates.make_authority()
    secured: Any = security(certificates.COORDINATOR)
    hosts = min(200, most_strangers())

    async def visit() -> None:
        came: list[Any] = []

        async def serve(comm: Any) -> None:
            came.append(comm)

        backend: Any = GuardedBackend()
        guarded: Any = backend.get_listener("127.0.0.1:0", serve, True, **secured.get_listen_args("scheduler"))
        await guarded.start()
        place: tuple[str, int] = guarded.get_host_port()
        context: ssl.SSLContext = secured.get_connection_args("client")["ssl_context"]
        try:
            # All are connected before any of them has sent anything.
            loop = asyncio.get_running_loop()
            waiting = [await _connected(loop, place) for _ in range(hosts)]
            opened = await asyncio.gather(
                *(asyncio.open_connection(sock=one, ssl=context, server_hostname="") for one in waiting)
            )
            for _, writer in opened:
                writer.close()
        finally:
            guarded.stop()
            for comm in came:
                comm.abort()

    asyncio.run(visit())


async def _connected(loop: asyncio.AbstractEventLoop, place: tuple[str, int]) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    await loop.sock_connect(one, place)
    return one
