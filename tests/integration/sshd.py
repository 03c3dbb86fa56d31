"""An SSH server on loopback with keys of the test's own, gone at the end."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_PROGRAM = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
_PRIVILEGE_SEPARATION = Path("/run/sshd")


@dataclass(frozen=True, slots=True)
class Sshd:
    """Who has the private key in `identity` is let in as the user that runs the tests."""

    port: int
    identity: Path
    known_hosts: Path

    def table(self, name: str, command: str, **more: str | int) -> str:
        """A host of hosts.toml that this server is, with this command for octavo's."""
        values = {"name": name, "address": "127.0.0.1", "port": self.port, "octavo": command,
                  "identity": str(self.identity), "known_hosts": str(self.known_hosts), **more}  # fmt: skip
        lines = [f"{key} = {value if isinstance(value, int) else repr(value)}" for key, value in values.items()]
        return "\n".join(["[[host]]", *lines, ""])


@contextmanager
def ssh_server(place: Path) -> Generator[Sshd, None, None]:
    """A server whose files are in this directory; skips where there is no sshd."""
    if _PROGRAM is None:
        pytest.skip("openssh-server is not installed; script/bootstrap --for-tests installs it")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The default key exchange, post-quantum, takes several times as much CPU.
    (place / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nMaxStartups 200\nPrintMotd no\nLogLevel ERROR\n"
        "KexAlgorithms curve25519-sha256\n"
    )
    (place / "known").write_text(f"[127.0.0.1]:{port} {(place / 'host.pub').read_text()}")
    made = os.geteuid() == 0 and not _PRIVILEGE_SEPARATION.exists()
    if made:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    server = subprocess.Popen([_PROGRAM, "-D", "-e", "-f", place / "config"], stderr=(place / "log").open("w"))
    try:
        deadline = time.monotonic() + 300
        while True:  # it listens, or has ended
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5) as connection:
                if connection.recv(4) == b"SSH-":
                    break
            assert server.poll() is None, (place / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield Sshd(port, place / "user", place / "known")
    finally:
        server.terminate()
        server.wait()
        if made:
            with suppress(OSError):
                _PRIVILEGE_SEPARATION.rmdir()
