"""What a child with the account's rights cannot get or leave behind, tested with small programs instead of servers."""

import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from octavo.errors import HostError, OctavoError
from octavo.home import lock_file
from octavo.host import child_group, children, confine, made_below, mode_filter, set_user_id
from octavo.host.children import Account
from octavo.host.journal import Journal, recover
from octavo.host.process import ProcessIdentity, end, identify, is_alive

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_groups = pytest.mark.skipif(child_group.hierarchy() is None, reason="no control groups may be made here")


@pytest.fixture
def place(shared: Path, account: Account) -> Path:
    """A directory of the account's."""
    os.chown(shared, account.uid, account.gid)
    return shared


def shell(script: str, journal: Journal, account: Account, *, network: bool = False) -> str:
    finished = children.run(["sh", "-c", script], journal, role="test", account=account, network=network)
    return children.check(finished, "the script").stdout


def test_a_child_has_no_new_privileges_and_no_capability(journal: Journal, account: Account) -> None:
    status = dict(line.split(":\t", 1) for line in shell("cat /proc/self/status", journal, account).splitlines())
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == [str(account.uid)] * 4
    if os.geteuid() == 0:
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == int(status["CapInh"], 16) == 0
        assert not status["Groups"].split()


_KEYS = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = (248, 250) if platform.machine() == "x86_64" else (217, 219)
SEARCH, SESSION, JOIN = 10, -3, 1
def called(*words):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return (libc.syscall(*words), ctypes.get_errno())
"""
_ASKS_FOR_A_KEY = _KEYS + 'print(*called(keyctl, SEARCH, SESSION, b"user", b"octavo-test", 0))'


@needs_root
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="other numbers of system calls")
def test_a_child_has_no_key_of_roots_session(journal: Journal, account: Account) -> None:
    """A session keyring is kept when the user changes: its holder can read root's tickets, and passphrases of disks."""
    asked: list[str] = []

    def ask() -> None:  # in a thread, whose session keyring is its own
        known: dict[str, Any] = {}
        exec(_KEYS, known)  # noqa: S102 (the lines above)
        called = known["called"]
        if called(known["keyctl"], known["JOIN"], None)[0] > 0:
            assert called(known["add_key"], b"user", b"octavo-test", b"root's", 6, known["SESSION"])[0] > 0
            for whose in (None, account):
                command = ["/usr/bin/python3", "-I", "-S", "-c", _ASKS_FOR_A_KEY]
                finished = children.run(command, journal, role="test", account=whose)
                asked.append(children.check(finished, "asking for the key").stdout.split()[0])

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    if not asked:
        pytest.skip("this host gives nobody keys")
    by_root, by_account = asked
    assert int(by_root) > 0
    assert by_account == "-1"


@needs_root
def test_a_set_user_id_file_gives_nothing(journal: Journal, account: Account, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    program = tmp_path / "become-root"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    assert f"uid={account.uid}(" in (said := shell(str(program), journal, account))
    assert "euid=" not in said


_MODES = """
import ctypes, os, platform, stat
open("file", "w").close()
os.chmod("file", 0o755)
def tried(change):
    try: change()
    except OSError as error: print(error.errno, end=" ")
    else: print("changed", end=" ")
libc = ctypes.CDLL(None, use_errno=True)
def called(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
for mode in (0o4755, 0o2755, 0o6755):
    tried(lambda: os.chmod("file", mode))
    descriptor = os.open("file", os.O_RDWR)
    tried(lambda: os.fchmod(descriptor, mode))
    tried(lambda: os.chmod(os.path.abspath("file"), mode, follow_symlinks=True))
    tried(lambda: called(452, -100, b"file", mode, 0))
    tried(lambda: os.chmod("file", mode, dir_fd=os.open(".", os.O_RDONLY)))
    for flags in (os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TMPFILE, os.O_CREAT | os.O_APPEND):
        place = "." if flags == os.O_TMPFILE else "born"
        tried(lambda: os.open(place, os.O_RDWR | flags, mode))
        tried(lambda: os.open(place, os.O_RDWR | flags, mode, dir_fd=os.open(".", os.O_RDONLY)))
    tried(lambda: os.mknod("born", stat.S_IFREG | mode))
    tried(lambda: os.mknod("born", stat.S_IFIFO | mode, dir_fd=os.open(".", os.O_RDONLY)))
    if platform.machine() == "x86_64":
        tried(lambda: called(2, b"born", os.O_CREAT | os.O_WRONLY, mode))
        tried(lambda: called(85, b"born", mode))
        tried(lambda: called(133, b"born", stat.S_IFREG | mode, 0))
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o6755, 0)
tried(lambda: called(437, -100, b"born", how, 24))
tried(lambda: called(425, 1, (ctypes.c_uint32 * 30)()))
# What may be done: files without such bits, and a mode that is no mode, because nothing is made.
os.close(os.open("plain", os.O_RDWR | os.O_CREAT, 0o1755))
os.mknod("plain2", stat.S_IFREG | 0o644)
called(257 if platform.machine() == "x86_64" else 56, -100, b"file", os.O_RDWR, 0o6755)
os.mkdir("directory", 0o6755)
print()
print(*sorted((name, oct(os.stat(name).st_mode & 0o6000)) for name in os.listdir(".") if name != "try.py"))
"""
_SPACES = """
import ctypes, os, platform, signal, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
clone, unshare = (56, 272) if platform.machine() == "x86_64" else (220, 97)
NEW_USER, NEW_NET = 0x10000000, 0x40000000
def tried(*arguments):
    pid = libc.syscall(*arguments)
    if pid == 0 and arguments[0] != unshare: os._exit(0)
    print("made" if pid >= 0 else ctypes.get_errno(), end=" ")
tried(clone, NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
tried(clone, NEW_USER | NEW_NET | signal.SIGCHLD, 0, 0, 0, 0)
tried(435, (ctypes.c_uint64 * 11)(NEW_USER, 0, 0, 0, signal.SIGCHLD), 88)
tried(435, (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD), 88)
tried(unshare, NEW_USER)
# What may be done: threads and processes, as always.
seen = []
thread = threading.Thread(target=lambda: seen.append(subprocess.run(["sh", "-c", "exit 7"]).returncode))
thread.start()
thread.join()
print(*seen)
"""
_RINGS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 1, (ctypes.c_uint32 * 30)()) >= 0 or ctypes.get_errno())
"""


def _python(script: str, journal: Journal, account: Account, place: Path, *, rings: bool = False) -> str:
    (place / "try.py").write_text(script)
    finished = children.run(
        ["sh", "-c", f"exec /usr/bin/python3 -I {place}/try.py"],
        journal, role="test", account=account, directory=place, rings=rings,
    )  # fmt: skip
    return children.check(finished, "the script").stdout


@needs_root
@pytest.mark.skipif(not mode_filter.is_available(), reason="no filter of system calls here")
def test_no_child_of_the_accounts_makes_a_set_user_id_file(journal: Journal, account: Account, place: Path) -> None:
    """By no system call, nor in places that are not searched afterwards; not at creation, and not by a program it
    starts."""
    tried, left = _python(_MODES, journal, account, place).splitlines()
    refused = tried.split()
    assert set(refused) <= {str(errno.EPERM), str(errno.ENOSYS)}, tried  # no fchmodat2(2) before Linux 6.6
    assert refused[-2:] == [str(errno.ENOSYS)] * 2
    assert len(refused) == 3 * (18 if platform.machine() == "x86_64" else 15) + 2
    names = ("directory", "file", "plain", "plain2")
    assert left == " ".join(str((name, "0o0")) for name in names)
    # No process of ours has the filter.
    assert "Seccomp:\t0" in Path("/proc/self/status").read_text()


@needs_root
@pytest.mark.skipif(not mode_filter.is_available(), reason="no filter of system calls here")
def test_children_of_a_containers_root_have_the_filter_too() -> None:
    """It has no CAP_SYS_ADMIN, without which the kernel takes filters only from those who gain no privileges."""
    look = "from octavo.host import mode_filter; print(mode_filter.is_available())"
    command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable, "-c", look]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@needs_root
@pytest.mark.skipif(not mode_filter.is_available(), reason="no filter of system calls here")
def test_rings_are_for_children_that_need_them(journal: Journal, account: Account, place: Path) -> None:
    """They get the host's own result: many hosts have no rings at all (io_uring_disabled)."""
    ours = subprocess.run([sys.executable, "-I", "-c", _RINGS], capture_output=True, text=True, check=True).stdout
    assert _python(_RINGS, journal, account, place).strip() == str(errno.ENOSYS)
    allowed = _python(_RINGS, journal, account, place, rings=True).strip()
    assert allowed in {ours.strip(), str(errno.EPERM)}


@needs_root
@pytest.mark.skipif(not mode_filter.is_available(), reason="no filter of system calls here")
@pytest.mark.parametrize("rings", [False, True])
def test_no_child_of_the_accounts_is_root_in_a_namespace_of_its_own(
    rings: bool, journal: Journal, account: Account, place: Path
) -> None:
    """There it could mount a filesystem and have the kernel make the set-user-ID file that the filter prevents."""
    refused = [errno.EPERM, errno.EPERM, errno.ENOSYS, errno.ENOSYS, errno.EPERM, 7]
    assert _python(_SPACES, journal, account, place, rings=rings).split() == list(map(str, refused))


# A file made by io_uring_enter(2): IORING_OP_OPENAT with a mode, which the filter cannot see.
_MADE_BY_RING = """
import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
parameters = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, parameters)
if ring < 0:
    sys.exit(f"no ring: {ctypes.get_errno()}")
_, tail, mask, _, _, _, array = struct.unpack_from("7I", parameters, 40)
entries = struct.unpack_from("I", parameters)[0]
queue = mmap.mmap(ring, array + 4 * entries, offset=0)
requests = mmap.mmap(ring, 64 * entries, offset=0x10000000)
path = ctypes.create_string_buffer(sys.argv[1].encode())
struct.pack_into("BBHiQQII", requests, 0, 18, 0, 0, -100, 0, ctypes.addressof(path), 0o4755, os.O_CREAT | os.O_WRONLY)
struct.pack_into("I", queue, array, 0)
struct.pack_into("I", queue, tail, 1)
print(libc.syscall(426, ring, 1, 1, 1, None, 0), oct(os.stat(sys.argv[1]).st_mode))
"""


@needs_root
@pytest.mark.skipif(not mode_filter.is_available(), reason="no filter of system calls here")
def test_what_a_child_with_rings_has_made_loses_its_bits(journal: Journal, account: Account, place: Path) -> None:
    place.chmod(0o1777)
    script = place / "try.py"
    script.write_text(_MADE_BY_RING)
    made = place / "made"

    def run(*, rings: bool) -> children.Finished:
        command = ["/usr/bin/python3", "-I", script, made]
        return children.run(command, journal, role="test", account=account, rings=rings)

    with set_user_id.none_left(account, [place]):
        assert "no ring" in run(rings=False).stderr
    told = f"made was made a set-user-ID file of {account.name}"
    finished = run(rings=True)
    if "no ring" in finished.stderr:
        pytest.skip(finished.stderr)
    assert finished.stdout == "1 0o104755\n", finished
    made.unlink()
    with pytest.raises(OctavoError, match=told), set_user_id.none_left(account, [place]):
        run(rings=True)
    assert made.stat().st_mode & 0o7777 == 0o755


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that is writable for everybody and is not searched."""
    path = Path("/var/lib") / f"octavo-test-{os.getpid()}"
    path.mkdir()
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


@needs_root
@pytest.mark.skipif(not made_below.is_available(), reason="no Landlock that lets files be renamed")
@pytest.mark.parametrize("without_filter", [False, True])
def test_what_the_filter_cannot_see_is_made_only_where_it_is_looked_for(
    journal: Journal, account: Account, place: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch,
    *, without_filter: bool,
) -> None:  # fmt: skip
    """By io_uring, without it, and by linking and renaming; the places themselves are as usable as before."""
    if without_filter:

        def not_installed(**_: bool) -> bool:
            return False

        monkeypatch.setattr(mode_filter, "install", not_installed)
    script = place / "try.py"
    script.write_text(_MADE_BY_RING)
    python = f"/usr/bin/python3 -I {script}"
    for command in (f"{python} {elsewhere}/made", f"touch {elsewhere}/made", "ln made {0}/made", "mv made {0}/made"):
        commands = f"cd {place}; touch made; {command.format(elsewhere)}"
        finished = children.run(["sh", "-c", commands], journal, role="test", account=account, rings=not without_filter)
        assert finished.returncode != 0, (command, finished)
        assert not list(elsewhere.iterdir())
    usual = f"cd {place}; mkdir sub; touch made; mv made sub/moved; ln sub/moved again; mktemp"
    finished = children.run(["sh", "-c", usual], journal, role="test", account=account, rings=not without_filter)
    assert children.check(finished, "what is usual").stdout.startswith("/tmp/")  # noqa: S108
    Path(finished.stdout.strip()).unlink()


@needs_root
@pytest.mark.skipif(not confine.can_unshare_network(), reason="no network namespaces here")
def test_a_child_has_no_network_unless_it_is_given_one(journal: Journal, account: Account) -> None:
    look = "cut -d: -f1 /proc/net/dev | tail -n +3; cat /proc/net/route | tail -n +2; readlink /proc/self/ns/net"
    namespace = str(Path("/proc/self/ns/net").readlink())
    alone = shell(look, journal, account).split()
    assert alone[0] == "lo"
    assert len(alone) == 2
    assert alone[1] != namespace
    assert shell(look, journal, account, network=True).split()[-1] == namespace


_DETACH = 'env -i setsid sh -c "echo \\$\\$; exec sleep 600 >/dev/null 2>&1"'


@needs_root
@needs_groups
def test_what_a_child_leaves_behind_is_killed_with_it(journal: Journal, account: Account) -> None:
    """A process without our environment, in a session of its own, whose parent has gone."""
    until_it_runs = f"({_DETACH} &) | {{ read pid; echo $pid; }}"
    finished = children.run(["sh", "-c", until_it_runs], journal, role="test", account=account)
    assert identify(int(finished.stdout)) is None
    assert journal.groups == {}


_ENDS_SLOWLY = """
trap 'sleep 1; echo whole >"$0"; exit' TERM
echo ready
while :; do sleep 0.1; done
"""


@needs_root
@needs_groups
@pytest.mark.parametrize("restoring", [False, True])
def test_what_a_child_has_started_is_given_the_time_to_end(
    journal: Journal, account: Account, place: Path, *, restoring: bool
) -> None:
    """The server of initdb needs time to release its shared memory after initdb itself has ended."""
    child, number = children.start(
        ["sh", "-c", 'sh -c "$0" "$1" & wait', _ENDS_SLOWLY, place / "end"], journal, role="test", account=account
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    if restoring:
        identity = identify(child.pid)
        assert identity is not None
        Thread(target=child.wait, daemon=True).start()  # as init would after the parent's end
        end(identity, signal.SIGTERM)
    else:
        children.end(child)
    children.ended(journal, number)
    assert (place / "end").read_text() == "whole\n"
    child.wait()


@needs_root
@needs_groups
def test_a_killed_owner_leaves_no_process(home: Path, account: Account) -> None:
    script = (
        "import sys\n"
        "from octavo.host import children\n"
        "from octavo.host.journal import Journal\n"
        "journal = Journal()\n"
        "account = children.server_account()\n"
        "child, _ = children.start(['sh', '-c', sys.argv[1]], journal, role='test', account=account)\n"
        "print(child.stdout.readline().strip(), flush=True)\n"
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    victim = subprocess.run(
        [sys.executable, "-c", script, f"({_DETACH} &) ; exec sleep 600"], capture_output=True, text=True, check=False
    )
    survivor = identify(int(victim.stdout))
    assert survivor is not None
    recover()
    assert _gone(survivor)


def _gone(identity: ProcessIdentity) -> bool:
    deadline = time.monotonic() + 60
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_program_that_is_not_there_is_named(journal: Journal, account: Account) -> None:
    with pytest.raises(HostError, match="cannot start /no/such/program"):
        children.run(["/no/such/program"], journal, role="test", account=account)


def test_neither_the_current_directory_nor_a_variable_says_what_is_run(tmp_path: Path) -> None:
    """Root runs octavo in /tmp, where anybody may have put an octavo, a typer or a json module of his own."""
    for name in ("octavo.py", "typer.py", "json.py", "sitecustomize.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    launcher = Path(__file__).parents[2] / "octavo"
    finished = subprocess.run(
        [launcher, "--help"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert not (tmp_path / "ran").exists()


@needs_root
def test_a_lock_cannot_be_held_by_others(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch(0o644)  # as earlier versions created it
    with lock_file(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_child_that_hears_no_signal_is_ended(journal: Journal, account: Account) -> None:
    def interrupted(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "_PATIENCE_SECONDS", 0.1)
        with pytest.raises(KeyboardInterrupt):
            children.run(
                ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"],
                journal, role="test", account=account, on_line=interrupted,
            )  # fmt: skip
