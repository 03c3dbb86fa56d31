"""The run lock: one for the host, root's for root alone; others are reported, and cannot stop root."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.conftest import AsNobody, needs_root

from octavo.errors import HostError
from octavo.host import lock
from octavo.host.lock import host_lock


@pytest.fixture
def runtime(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory with root's permissions, separate from the host's."""
    directory = shared / "run"
    directory.mkdir()
    directory.chmod(0o711)
    monkeypatch.setattr(lock, "runtime_directory", lambda: directory)
    monkeypatch.setattr(lock, "_ROOTS", directory)
    monkeypatch.setattr(lock, "_TOLD", f"\0octavo-test-{os.getpid()}")
    return directory


def test_the_second_is_told_who_has_it(runtime: Path) -> None:
    with host_lock():
        assert stat.S_IMODE((runtime / "run.lock").stat().st_mode) == 0o600
        with (
            pytest.raises(HostError, match=rf"another run \(pid {os.getpid()}\) is measuring on this host"),
            host_lock(),
        ):
            raise AssertionError("not reached")
    with host_lock():
        pass


_HOLDS = """
import os, sys
from pathlib import Path
from octavo.host import lock
lock.runtime_directory = lambda: Path(sys.argv[1])
with lock.host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_it_is_gone_with_its_process(runtime: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, runtime], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostError, match=f"pid {holder.pid}"), host_lock():
            raise AssertionError("not reached")
    finally:
        holder.kill()
        holder.communicate()
    with host_lock():
        pass


def test_it_is_the_same_in_every_network_namespace(runtime: Path) -> None:
    with host_lock():
        tried = subprocess.run(
            ["unshare", "--net", "--map-root-user", sys.executable, "-c", _HOLDS, runtime],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if "unshare" in tried.stderr:
        pytest.skip("no namespaces here")
    assert f"another run (pid {os.getpid()}" in tried.stderr


@needs_root
def test_nobody_can_hold_roots(runtime: Path, as_nobody: AsNobody) -> None:
    with host_lock():
        pass
    tries = (
        "import fcntl, os, sys\n"
        "for name, how in (('run.lock', os.O_RDONLY), ('run.lock', os.O_RDWR), ('other', os.O_RDWR | os.O_CREAT)):\n"
        "    try: fcntl.flock(os.open(sys.argv[1] + '/' + name, how), fcntl.LOCK_EX)\n"
        "    except PermissionError: print('refused')\n"
        "try: os.unlink(sys.argv[1] + '/run.lock')\n"
        "except PermissionError: print('refused', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = as_nobody(tries, runtime)
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(4)] == ["refused\n"] * 4
    with host_lock():
        pass


@needs_root
def test_what_nobody_measures_is_told_and_does_not_stop_root(
    runtime: Path, as_nobody: AsNobody, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"octavo-test-{os.getpid()}"
    child = as_nobody(
        "import socket, sys\n"
        "told = socket.socket(socket.AF_UNIX); told.bind('\\0' + sys.argv[1]); told.listen()\n"
        "print('told', flush=True); sys.stdin.read()",
        name,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "told\n"
    with host_lock():
        assert f"pid {child.pid} of user 65534 is also measuring here" in capsys.readouterr().err


@needs_root
def test_others_respect_a_run_of_roots(runtime: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with host_lock():
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        monkeypatch.setattr(lock, "runtime_directory", lambda: tmp_path)
        with pytest.raises(HostError, match=rf"pid {os.getpid()}, user 0"), host_lock():
            raise AssertionError("not reached")
        monkeypatch.undo()


@pytest.mark.parametrize("content", [b"", b"x y z", b"\xff", b"1", b"9" * 10_000])
def test_a_damaged_note_says_nothing(runtime: Path, content: bytes) -> None:
    (runtime / "run.owner").write_bytes(content)
    with host_lock():
        pass


def test_a_link_in_its_place_is_not_followed(runtime: Path, tmp_path: Path) -> None:
    (runtime / "run.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), host_lock():
        raise AssertionError("not reached")
    assert not (tmp_path / "elsewhere").exists()
