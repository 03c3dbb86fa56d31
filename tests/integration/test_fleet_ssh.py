"""A fleet of one host that is reached over a real sshd on loopback, like a user's hosts."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import needs_root
from tests.integration.sshd import ssh_server

ROOT = Path(__file__).parents[2]
pytestmark = needs_root


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_certificates_workers_and_their_end_go_over_ssh(tmp_path: Path, home: Path) -> None:
    del home  # root's own directories are used, created like every test's
    homes = {name: tmp_path / name for name in ("coordinator", "host")}
    for one in homes.values():
        one.mkdir(mode=0o711)

    def octavo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OCTAVO_HOME": str(homes["coordinator"])}
        return subprocess.run(
            [sys.executable, "-m", "octavo", "fleet", *arguments],
            capture_output=True, text=True, check=False, env=environment, timeout=300,
        )  # fmt: skip

    (tmp_path / "sshd").mkdir()
    with ssh_server(tmp_path / "sshd") as sshd:
        there = f"env OCTAVO_HOME={homes['host']} PYTHONPATH={ROOT / 'src'} {sys.executable} -m octavo"
        file = tmp_path / "hosts.toml"
        file.write_text(
            sshd.table("alone", there, listen=free_address()) + f'[fleet]\nscheduler = "{free_address()}"\n'
        )
        before = octavo("check", file)
        assert before.returncode == 1
        assert "alone: no valid certificate" in before.stdout + before.stderr
        made = octavo("init", file)
        assert made.returncode == 0, made.stderr
        assert (homes["host"] / "fleet" / "host.key").stat().st_mode & 0o777 == 0o600
        assert "alone: can take part" in octavo("check", file).stdout
        started = octavo("run", file)
        try:
            assert started.returncode == 0, started.stderr
            assert "alone" in octavo("status", file).stdout
        finally:
            ended = octavo("stop", file)
        assert ended.returncode == 0, ended.stderr
        assert not list((homes["host"] / "fleet").glob("worker.json"))
