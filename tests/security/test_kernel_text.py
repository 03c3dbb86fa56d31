"""Names that other users choose (processes, mounts, files) are bytes: none of them stops a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.conftest import AsNobody, needs_root

from octavo.host import mounts, process, process_table
from octavo.host.journal import TOKEN_VARIABLE
from octavo.host.kernel_text import shown
from octavo.host.process import find_by_environment
from octavo.hugepages.groups import group_limits
from octavo.hugepages.postmaster_memory import read_postmaster
from octavo.knobs.zram_swap import swaps

_NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print("named", flush=True)
sys.stdin.read()
"""

NAMES = [b"\xff", b") S (", b"\x0c\x0b) ", b"\xc2\x85", b"a\nb"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_process_may_have_any_name(name: bytes) -> None:
    child = subprocess.Popen([sys.executable, "-c", _NAMED, name.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"named\n"
        assert process.identify(child.pid) is not None
        found = process_table.read_table()[child.pid]
        assert found.parent == os.getpid()
        assert found.name.isprintable()
        find_by_environment("OCTAVO_TOKEN", "nobody has this")
    finally:
        child.communicate()


def test_an_environment_of_any_bytes_is_looked_through() -> None:
    child = subprocess.Popen(["sleep", "600"], env={b"OTHER\xff": b"\xff\x0c", b"OCTAVO_TOKEN": b"tried"})
    try:
        while not (found := find_by_environment("OCTAVO_TOKEN", "tried")) and child.poll() is None:
            pass
        assert [one.pid for one in found] == [child.pid]
    finally:
        child.kill()
        child.wait()


_WAITS = 'import sys; print("waits", flush=True); sys.stdin.read()'
_UNDUMPABLE = f"import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); {_WAITS}"


@needs_root
@pytest.mark.parametrize("code", [_WAITS, _UNDUMPABLE], ids=["plain", "its files in /proc are root's"])
def test_a_strangers_process_with_the_token_is_not_ours(as_nobody: AsNobody, code: str) -> None:
    child = as_nobody(code, **{TOKEN_VARIABLE: "stolen"})
    assert child.stdout is not None
    assert child.stdout.readline() == "waits\n"
    assert find_by_environment(TOKEN_VARIABLE, "stolen") == []


# Each is a possible name of a directory on which a user can mount something (in a user namespace, by FUSE, by udisks).
_ODD = [b"/mnt/\xff", b"/mnt/a\x0cb", b"/mnt/\x0b", "/mnt/\x85".encode(), "/mnt/\u2028".encode(), b"/mnt/\x1c"]


@pytest.mark.parametrize("path", _ODD, ids=repr)
def test_a_mount_may_be_anywhere(tmp_path: Path, path: bytes) -> None:
    table = tmp_path / "self/mountinfo"
    table.parent.mkdir()
    table.write_bytes(
        b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        b"2 1 8:2 / " + path + b" rw,nosuid shared:1 - fuse  rw\n"
        b"3 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        b"garbage\n"
    )
    found = mounts.mounts(table)
    assert [os.fsencode(one.target) for one in found] == [b"/", path, b"/sys/fs/cgroup"]
    assert mounts.at(Path(os.fsdecode(path)), table) == found[1]
    assert shown(str(found[1].target)).isprintable()
    (tmp_path / "self/cgroup").write_bytes(b"0::/user/" + path + b"\n")
    assert group_limits(2 << 20, None, tmp_path) == []


def test_escapes_in_a_mount_are_bytes(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes(b"2 1 8:2 / /mnt/a\\040b\\012\\134\\303\\244 rw - ext4 /dev/with\\040blank rw\n")
    (found,) = mounts.mounts(table)
    assert (str(found.target), found.source) == ("/mnt/a b\n\\ä", "/dev/with blank")


def test_a_swap_file_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "swaps").write_bytes(
        b"Filename\tType\tSize\tUsed\tPriority\n/swap\xff\x0cfile  file\t\t1024\t0\t-2\n/dev/zram0 partition\t8\t0\t5\n"
    )
    assert swaps(tmp_path) == {os.fsdecode(b"/swap\xff\x0cfile"): 1024 * 1024, "/dev/zram0": 8 * 1024}


def test_a_mapped_file_cannot_add_lines(tmp_path: Path) -> None:
    (tmp_path / "7/task/7").mkdir(parents=True)
    (tmp_path / "7/task/7/children").write_text("")
    (tmp_path / "7/status").write_text("Name:\tpostgres\nVmPeak:\t 8 kB\nVmPTE:\t 4 kB\nHugetlbPages:\t 0 kB\n")
    (tmp_path / "7/smaps").write_bytes(
        b"7f0000000000-7f0000001000 rw-s 00000000 00:01 5 /tmp/x\x0cSize: nonsense\x85\xff\nSize: 4 kB\n"
        b"KernelPageSize: 4 kB\n"
    )
    assert read_postmaster(7, tmp_path) is not None


@needs_root
def test_a_real_mount_with_such_a_name(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.unshare(0x00020000) != 0: sys.exit(77)\n"  # a mount namespace of its own, gone with the process
        "libc.mount(b'none', b'/', None, 1 << 18 | 16384, None)\n"
        "path = os.fsencode(sys.argv[1]) + b'/\\xff\\x0c'\n"
        "os.mkdir(path)\n"
        "assert libc.mount(b'none', path, b'tmpfs', 0, None) == 0, ctypes.get_errno()\n"
        "from octavo.host import mounts\n"
        "from octavo.host.disks import disks\n"
        "from pathlib import Path\n"
        "print(mounts.at(Path(os.fsdecode(path))).kind)\n"
        "disks()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("no mount namespaces here")
    assert (done.returncode, done.stdout) == (0, "tmpfs\n"), done.stderr
