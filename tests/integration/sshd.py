"""An SSH server on loopback, or in a namespace, with keys of the test, removed at the end."""

import os
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.tools import found, reason

_PROGRAM = found("sshd")
_PRIVILEGE_SEPARATION = Path("/run/sshd")


@dataclass(frozen=True, slots=True)
class Sshd:
    """Whoever has the private key in `identity` may log in as the user that runs the tests."""

    address: str
    port: int
    identity: Path
    known_hosts: Path

    def table(self, name: str, command: str, **more: str | int) -> str:
        """An entry of hosts.toml for this server, with `command` in place of octavo's."""
        values = {"name": name, "address": self.address, "port": self.port, "octavo": command,
                  "identity": str(self.identity), "known_hosts": str(self.known_hosts), **more}  # fmt: skip
        lines = [f"{key} = {value if isinstance(value, int) else repr(value)}" for key, value in values.items()]
        return "\n".join(["[[host]]", *lines, ""])


@contextmanager
def ssh_server(place: Path, address: str = "127.0.0.1", through: Sequence[str] = ()) -> Generator[Sshd, None, None]:
    """A server whose files are in this directory; `through` is the prefix of commands that run where the address is.
    Without sshd the test is skipped, or fails (tests/tools.py)."""
    if _PROGRAM is None:
        pytest.skip(reason("sshd"))
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The default key exchange, which is post-quantum, takes several times as much CPU.
    (place / "config").write_text(
        f"ListenAddress {address}:{port}\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nMaxStartups 200\nPrintMotd no\nLogLevel INFO\n"
        "KexAlgorithms curve25519-sha256\n"
    )
    (place / "known").write_text(f"[{address}]:{port} {(place / 'host.pub').read_text()}")
    made = os.geteuid() == 0 and not _PRIVILEGE_SEPARATION.exists()
    if made:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    log = place / "log"
    server = subprocess.Popen([*through, _PROGRAM, "-D", "-e", "-f", place / "config"], stderr=log.open("w"))
    try:
        deadline = time.monotonic() + 300
        while "Server listening" not in log.read_text():  # until it listens or has ended
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield Sshd(address, port, place / "user", place / "known")
    finally:
        server.terminate()
        server.wait()
        if made:
            with suppress(OSError):
                _PRIVILEGE_SEPARATION.rmdir()
