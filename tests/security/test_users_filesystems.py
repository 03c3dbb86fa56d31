"""A filesystem that a user has mounted can report anything about its files: nothing in it counts as root's."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.doctor.collect import find
from octavo.errors import HostError
from octavo.host.mounts import Mount
from octavo.host.owner import mounted_by_users
from octavo.postgres.builds import usage
from octavo.postgres.builds.cache import Build

_FAKE = Path(__file__).with_name("fake_fuse.py")
_NOT_OFFERED = 77
_TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:44 / /sys/fs/fuse/connections rw - fusectl fusectl rw
41 27 0:45 / /home/eve/a\\040b rw,nosuid,nodev - fuse.sshfs x,user_id=0 rw,user_id=1000,group_id=1000,allow_other
42 27 0:46 / /mnt/roots rw - fuse.sshfs host: rw,user_id=0,group_id=0,allow_other
43 27 0:47 / /mnt/host rw - virtiofs share rw
44 27 8:17 / /media/eve/stick rw,nosuid,nodev - fuseblk /dev/sdb1 rw,user_id=1000,group_id=1000
48 27 8:33 / /media/eve/NTFS rw,nosuid,nodev - fuseblk /dev/sdc1 rw,user_id=0,group_id=0,allow_other
45 27 7:3 / /run/media/eve/IMAGE rw,nosuid,nodev - ext4 /dev/loop3 rw
46 27 7:4 / /mnt/nobodys rw,nosuid,nodev - ext4 /dev/loop4 rw
47 27 7:5 / /mnt/admins rw - ext4 /dev/loop5 rw
"""
_NOTES = """\
ID=45 SRC=/dev/loop3 TARGET=/run/media/eve/IMAGE ROOT=/ OPTS=uhelper=udisks2
ID=48 SRC=/dev/sdc1 TARGET=/media/eve/NTFS ROOT=/ OPTS=uhelper=udisks2
ID=46 SRC=/dev/loop4 TARGET=/mnt/nobodys ROOT=/ OPTS=noauto,user=nobody
ID=47 SRC=/dev/loop5 TARGET=/mnt/admins ROOT=/ OPTS=_netdev,x-user=eve
"""


def test_who_has_mounted_what(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(_TABLE)
    (tmp_path / "utab").write_text(_NOTES)
    found = mounted_by_users(tmp_path / "mountinfo", tmp_path / "utab")
    assert [(str(mount.target), user) for mount, user in found] == [
        ("/home/eve/a b", 1000), ("/media/eve/stick", 1000), ("/media/eve/NTFS", 65534),
        ("/run/media/eve/IMAGE", 65534), ("/mnt/nobodys", 65534),
    ]  # fmt: skip
    assert len(mounted_by_users(tmp_path / "mountinfo", tmp_path / "missing")) == 2


# The last mount is a notification from the kernel, not a file.
_CHANGES = """
import subprocess, sys
from pathlib import Path
from octavo.host.owner import MountedByUsers
place = Path(sys.argv[1])
(place / "utab").write_text(f"ID=1 SRC=none TARGET={place}/theirs ROOT=/ OPTS=user=nobody\\n")
asked = MountedByUsers(notes=place / "utab")
print(len(asked.by_device()))
for command in ("mount -t tmpfs none", "umount"):
    subprocess.run([*command.split(), place / "theirs"], check=True)
    print(asked.by_device().get((place / "theirs").stat().st_dev), asked.by_device() is asked.by_device())
(place / "utab").unlink()
print(len(asked.by_device()))
"""


@needs_root
def test_a_mount_is_seen_at_once_and_the_table_read_again_for_nothing_else(tmp_path: Path) -> None:
    """A user's thousand mounts would slow down each command of root's: only the path of the home is checked step by
    step."""
    (tmp_path / "theirs").mkdir()
    command = ["unshare", "--mount", sys.executable, "-c", _CHANGES, tmp_path]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    nothing, mounted, gone, without_notes = finished.stdout.splitlines()
    assert mounted == "65534 True"
    assert gone == "None True"
    assert nothing == without_notes


# Each line has a question and the answer to it; "root's" is what the filesystem reports for all of it.
_ASK = """
import os, sys
from pathlib import Path
from octavo.errors import OctavoError
from octavo.home import changer_of_file, octavo_home
from octavo.host import careful_open, journal, trees, trusted_paths
from octavo.host.owner import owner_of
from octavo.hugepages import stopped
from octavo.postgres.sources import git
from octavo.remote import hosts_file
from octavo.report import site_directory
place = Path(sys.argv[1])
program, directory = place / "postgres", place / "directory"
facts = program.stat()
assert (facts.st_uid, facts.st_mode & 0o777) == (0, 0o755)
def tell(what, ask):
    try: print(what, ask(), sep=": ")
    except (OctavoError, OSError) as error: print(what, type(error).__name__, error, sep=": ")
tell("owner", lambda: owner_of(facts))
tell("program", lambda: changer_of_file(facts, {0}))
tell("link", lambda: careful_open.read_text(place / "link"))
os.environ["OCTAVO_HOME"] = str(directory)
tell("home", octavo_home)
del os.environ["OCTAVO_HOME"]
tell("parent", lambda: trees._check_ours(directory))
tell("journal", lambda: journal._not_ours(directory.stat()))
tell("site", lambda: site_directory._refuse_changeable(directory))
tell("git", lambda: git._owner(os.open(directory, os.O_RDONLY)).uid)
tell("cluster", lambda: stopped._owner(directory).uid)
tell("hosts", lambda: hosts_file._read(program))
"""


@needs_root
def test_nothing_in_it_is_roots(shared: Path) -> None:
    (shared / "mounted").mkdir()
    command = ["unshare", "--mount", sys.executable, _FAKE, shared / "mounted"]
    asked = [sys.executable, "-c", _ASK, shared / "mounted"]
    finished = subprocess.run([*command, *asked], capture_output=True, text=True, check=False, timeout=60)
    if finished.returncode == _NOT_OFFERED:
        pytest.skip("this host has no filesystems in user space")
    assert finished.returncode == 0, finished.stderr
    told = dict(line.split(": ", 1) for line in finished.stdout.splitlines())
    theirs = "in a filesystem that user 65534 mounted"
    assert told["owner"] == told["git"] == told["cluster"] == "65534"
    assert theirs in told["program"]
    assert theirs in told["home"]
    assert theirs in told["site"]
    assert told["link"].startswith("OSError")  # a link of root's, according to stat(2)
    assert "can be written by others" in told["parent"]
    assert told["journal"] == "belongs to user 65534"
    assert "UsageError" in told["hosts"] or theirs in told["hosts"]


def _rows(*paths: Path) -> str:
    rows = [f"0: 2 0 00010000 0001 01 1 {path}" for path in paths]
    return "\n".join(["Num RefCount Protocol Flags Type St Inode Path", *rows])


def test_the_doctor_goes_into_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by its name nor by a link: a filesystem that does not answer would block the doctor for ever."""
    theirs, proc = tmp_path / "theirs", tmp_path / "proc"
    theirs.mkdir()
    (tmp_path / "link").symlink_to(theirs)
    (tmp_path / "open").symlink_to("/proc/self/fd")  # where one is open, its text says nothing of where it leads
    (proc / "net").mkdir(parents=True)
    (proc / "net/unix").write_text(
        _rows(
            *(tmp_path / name for name in ("theirs/.s.PGSQL.1", "link/.s.PGSQL.2", "open/0/.s.PGSQL.4", ".s.PGSQL.3"))
        )
    )
    asked: list[Path] = []
    real = Path.stat

    def stat(path: Path, **options: bool) -> object:
        asked.append(path)
        return real(path, **options)

    def mounted_by_users(*_: object) -> list[tuple[Mount, int]]:
        return [(Mount("0:45", theirs, "fuse", "x"), 1000)]

    monkeypatch.setattr(find, "mounted_by_users", mounted_by_users)
    monkeypatch.setattr(Path, "stat", stat)
    assert find.listeners(proc) == []
    assert [path for path in asked if path.name.startswith(".s.")] == [tmp_path / ".s.PGSQL.3"]


def test_the_doctor_goes_into_no_user_namespace_of_others(tmp_path: Path) -> None:
    """Its user mounts there a filesystem that does not answer, below an overlay, and is root in the table of mounts."""
    proc = tmp_path / "proc"
    for name, mounts, users in (("self", 1, 1), ("7", 2, 1), ("8", 3, 2)):
        process = proc / name
        for place in ("net", "ns"):
            (process / place).mkdir(parents=True)
        (process / "stat").write_text(f"{name} (postgres) S 1 {' '.join(['0'] * 48)}\n")
        (process / "mountinfo").write_text("66 43 0:40 / / rw - overlay overlay rw,lowerdir=/tmp/theirs:/usr\n")
        (process / "net/unix").write_text(_rows(Path(f"/run/{name}/.s.PGSQL.5432")))
        (process / "ns/mnt").symlink_to(f"mnt:[{mounts}]")
        (process / "ns/user").symlink_to(f"user:[{users}]")
        (process / "root").symlink_to("/")
    (proc / "net").symlink_to("self/net")
    found = list(find._places(proc))  # pyright: ignore[reportPrivateUsage]
    assert (proc / "7/net/unix", proc / "7/root") in found  # a container of root's
    assert not any(root.is_relative_to(proc / "8") for _, root in found)
    find.avoid_users_mounts(proc / "7/root/run", proc)
    # As a server's user may write it in postmaster.pid.
    for path in (proc / "8/root/run", proc / "7/cwd/run", proc / "7/fd/3", proc / "7", proc):
        with pytest.raises(HostError, match="may lead into a filesystem that a user mounted"):
            find.avoid_users_mounts(path, proc)


def test_what_others_run_is_known_by_its_name_alone(tmp_path: Path) -> None:
    """A program may be in a filesystem that does not answer; here there is none at all."""
    build = Build("one", tmp_path / "builds/one", {})
    for pid, program in ((7, "/home/eve/theirs/postgres"), (8, build.program("postgres"))):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/exe").symlink_to(program)
    assert usage.running_from(build, tmp_path / "proc") == 8


def test_many_processes_cost_no_more_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can have thousands of processes called postgres, and as many sockets: each would be queried for each."""
    proc = tmp_path / "proc"
    (proc / "net").mkdir(parents=True)
    (proc / "net/unix").write_text(_rows())
    for pid in range(2, 200):
        (proc / str(pid) / "net").mkdir(parents=True)
        (proc / str(pid) / "stat").write_text(f"{pid} (postgres) S 1 {' '.join(['0'] * 48)}\n")
        (proc / str(pid) / "net/unix").hardlink_to(proc / "net/unix")  # one network namespace
        (proc / str(pid) / "root").symlink_to("/")
    assert list(find._places(proc)) == [(proc / "net/unix", Path("/"))]  # pyright: ignore[reportPrivateUsage]
    (proc / "7/net/unix").unlink()
    (proc / "7/net/unix").write_text(_rows(tmp_path / ".s.PGSQL.3", tmp_path / ".s.PGSQL.4"))
    assert (proc / "7/net/unix", Path("/")) in list(find._places(proc))  # pyright: ignore[reportPrivateUsage]
    looked_at: list[Path] = []

    def avoid(path: Path, _: object) -> None:
        looked_at.append(path)

    monkeypatch.setattr(find, "_avoid", avoid)
    monkeypatch.setattr(find, "_MOST_LOOKED_AT", 1)
    assert find.listeners(proc) == []
    assert looked_at == [tmp_path / ".s.PGSQL.3"]
