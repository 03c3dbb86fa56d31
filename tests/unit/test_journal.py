"""Objects that a killed Octavo leaves behind are identified and removed; those of others are left alone."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from octavo.host import children, process
from octavo.host.journal import TOKEN_VARIABLE, Journal, recover, restore

# Starts a child through the journal, makes a directory, reports it, and is then killed.
_VICTIM = """
import os, signal, sys
from pathlib import Path
from octavo.host import children
from octavo.host.journal import Journal
journal = Journal()
scratch = Path(sys.argv[1])
journal.record("directory", path=str(scratch))
scratch.mkdir()
child, _ = children.start(["sleep", "600"], journal, role="server")
if len(sys.argv) > 2:  # killed before the pid was written down
    lines = journal.path.read_text().splitlines()
    journal.path.write_text("".join(line + "\\n" for line in lines if "pid" not in line))
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path


def killed(*arguments: str) -> int:
    """The pid of the child that a killed Octavo process left behind."""
    finished = subprocess.run(
        [sys.executable, "-c", _VICTIM, *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    assert finished.returncode == -signal.SIGKILL
    return int(finished.stdout)


# Becomes a program with the token on request, like a child that was being forked when its parent was killed.
_UNBORN = """
import os, sys
sys.stdin.readline()
os.execve("/bin/sleep", ["sleep", "600"], {sys.argv[1]: sys.argv[2]})
"""


def test_a_child_that_was_not_yet_its_own_program_is_ended_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "journal").mkdir()
    (home / "journal" / "abc.jsonl").touch()
    unborn = subprocess.Popen([sys.executable, "-c", _UNBORN, TOKEN_VARIABLE, "abc"], stdin=subprocess.PIPE, text=True)

    def let_it_be_born(_: float) -> None:
        assert unborn.stdin is not None
        if not unborn.stdin.closed:
            unborn.stdin.write("now\n")
            unborn.stdin.close()
        while unborn.poll() is None and not process.find_by_environment(TOKEN_VARIABLE, "abc"):
            pass

    monkeypatch.setattr("octavo.host.journal.time.sleep", let_it_be_born)
    assert recover() == [f"ended process {unborn.pid}, left by a command that was killed"]
    assert unborn.wait() == -signal.SIGQUIT


def test_a_directory_that_late_children_make_anew_is_removed_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = home / "scratch"
    scratch.mkdir()
    entry = {"number": 1, "kind": "directory", "path": str(scratch)}
    (home / "journal").mkdir()
    (home / "journal" / "abc.jsonl").write_text(json.dumps(entry) + "\n")
    late: list[subprocess.Popen[bytes]] = []

    def let_one_make_its_directory(_: float) -> None:
        if len(late) < 2:  # the second one appears once the first one has been ended
            assert not scratch.exists()
            late.append(subprocess.Popen(["sleep", "600"], env={TOKEN_VARIABLE: "abc"}))
            scratch.mkdir()
            while not process.find_by_environment(TOKEN_VARIABLE, "abc"):
                pass

    monkeypatch.setattr("octavo.host.journal.time.sleep", let_one_make_its_directory)
    told = recover()
    assert [child.wait() for child in late] == [-signal.SIGQUIT] * 2
    assert not scratch.exists()
    assert {f"ended process {child.pid}, left by a command that was killed" for child in late} < set(told)


# Like a process that was just forked, its child has its parent's open files and so the lock of its journal.
_FORKED = """
import os, signal, sys
from octavo.host.journal import Journal
journal = Journal()
journal.record("directory", path=sys.argv[1])
os.mkdir(sys.argv[1])
if os.fork() == 0:
    sys.stdin.readline()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_still_holds_the_dead_owners_lock_is_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = home / "scratch"
    victim = subprocess.Popen([sys.executable, "-c", _FORKED, scratch], stdin=subprocess.PIPE)
    assert victim.wait() == -signal.SIGKILL
    assert victim.stdin is not None
    waits: list[float] = []

    def let_it_go_on(seconds: float) -> None:
        waits.append(seconds)
        assert victim.stdin is not None
        victim.stdin.close()

    monkeypatch.setattr("octavo.host.journal.time.sleep", let_it_go_on)
    assert recover() == [f"removed {scratch}"]
    assert not scratch.exists()
    assert len(waits) > 1


@pytest.mark.parametrize("arguments", [(), ("before the pid is known",)])
def test_an_orphan_is_ended_and_its_directory_removed(home: Path, arguments: tuple[str, ...]) -> None:
    scratch = home / "scratch"
    pid = killed(str(scratch), *arguments)
    assert process.identify(pid) is not None
    told = recover()
    assert process.identify(pid) is None
    assert not scratch.exists()
    assert any(str(pid) in line for line in told)
    assert recover() == []
    assert list((home / "journal").iterdir()) == []


def test_a_process_that_lives_is_not_disturbed(home: Path) -> None:
    with Journal() as journal:
        child, number = children.start(["sleep", "600"], journal, role="server")
        assert recover() == []
        assert child.poll() is None
        child.kill()
        child.wait()
        journal.done(number)


def test_a_pid_that_passed_to_another_process_is_left_alone(home: Path) -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        identity = process.identify(stranger.pid)
        assert identity is not None
        directory = home / "journal"
        directory.mkdir()
        for name, change in (
            ("a", {"start_time": identity.start_time - 1}),
            ("b", {"boot_id": "another boot"}),
        ):
            entry = {
                "number": 1, "kind": "process", "role": "server", "pid": stranger.pid, "signal": int(signal.SIGQUIT),
                "start_time": identity.start_time, "boot_id": identity.boot_id, **change,
            }  # fmt: skip
            (directory / f"{name}.jsonl").write_text(json.dumps(entry) + "\n")
        assert recover() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_line_that_was_cut_off_does_not_hinder(home: Path) -> None:
    (home / "journal").mkdir()
    (home / "journal" / "a.jsonl").write_text('{"number": 1, "kind": "direc')
    (told,) = recover()
    assert "line 1" in told and "direc" in told
    assert recover() == []


def test_what_is_open_at_the_end_is_undone_and_what_is_done_is_kept(tmp_path: Path) -> None:
    with Journal() as journal:
        for name in ("kept", "undone"):
            number = journal.record("directory", path=str(tmp_path / name))
            (tmp_path / name).mkdir()
            if name == "kept":
                journal.done(number)
    assert (tmp_path / "kept").exists()
    assert not (tmp_path / "undone").exists()


def test_a_stubborn_process_is_killed(home: Path) -> None:
    with Journal() as journal:
        child, number = children.start(
            [sys.executable, "-c", _STUBBORN],
            journal, role="client",
        )  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        identity = process.identify(child.pid)
        assert identity is not None
        process.end(identity, signal.SIGTERM, patience_seconds=0.2)
        assert child.wait() == -signal.SIGKILL
        journal.done(number)


def test_children_know_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    with Journal() as journal:
        finished = children.run(["env"], journal, role="client")
        names = {line.partition("=")[0] for line in finished.stdout.splitlines()}
    assert names == {"PATH", "LC_ALL", TOKEN_VARIABLE}
    assert os.environ["PGPASSWORD"] == "secret"


def test_a_journal_that_was_never_born_is_removed(home: Path) -> None:
    """Its process was killed before the journal had its name: nothing was changed yet."""
    with Journal() as journal:
        names = (f".{'a' * 32}", f".{'c' * 16}.new", f".{'b' * 32}", ".note")
        left, shortened, alive, other = (journal.path.with_name(name) for name in names)
        for path in (left, shortened, alive, other):
            path.touch(0o600)
        with alive.open("ab") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            assert restore() == []
            assert not left.exists() and not shortened.exists()
            assert alive.exists() and other.exists(), "a live process's, and somebody's own"


def test_a_journal_that_finds_no_room_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Journal, _line: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "_write", full)
    with pytest.raises(OSError, match="No space"):
        Journal()
    assert list((home / "journal").iterdir()) == []


def test_a_note_that_a_full_disk_refuses_is_no_error_at_the_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()
    number = journal.record("directory", path=str(home / "scratch"))
    with Path("/dev/full").open("a") as full, monkeypatch.context() as patched:
        patched.setattr(journal, "_file", full)
        with journal:
            journal.done(number)
        assert full.closed
        assert list((home / "journal").iterdir()) == []
    with journal:  # closes its own file
        pass


def dead(home: Path, name: str, *entries: dict[str, object]) -> Path:
    """The journal of a killed process."""
    (home / "journal").mkdir(exist_ok=True)
    path = home / "journal" / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"number": at, **one}) + "\n" for at, one in enumerate(entries, 1)))
    return path


def test_a_journal_that_cannot_be_shortened_stays_and_hinders_no_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    scratches = [home / "one", home / "two"]
    for scratch in scratches:
        scratch.mkdir()
    first = dead(home, "a", {"kind": "directory", "path": str(scratches[0])}, {"kind": "of a later version"})
    second = dead(home, "b", {"kind": "directory", "path": str(scratches[1])})
    content = first.read_text()
    monkeypatch.setattr("octavo.host.journal.replace_file", full)
    assert [one.what for one in restore()] == ["put back", "failed", "put back"]
    assert not any(scratch.exists() for scratch in scratches)
    assert (first.read_text(), second.exists()) == (content, False)


@pytest.mark.parametrize(("on_the_way", "what"), [("file", []), ("x" * 300, ["failed"])])
def test_a_directory_that_can_no_longer_be_there_hinders_nothing_else(
    home: Path, on_the_way: str, what: list[str]
) -> None:
    scratch = home / "scratch"
    scratch.mkdir()
    (home / "file").touch()
    dead(home, "a", {"kind": "directory", "path": str(home / on_the_way / "data")})
    dead(home, "b", {"kind": "directory", "path": str(scratch)})
    assert [one.what for one in restore()] == [*what, "put back"]
    assert not scratch.exists()


def test_a_journal_that_another_command_has_shortened_meanwhile_is_not_replayed_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = home / "scratch"
    scratch.mkdir()
    path = dead(home, "a", {"kind": "directory", "path": str(scratch)}, {"kind": "of a later version"})
    lock = fcntl.flock
    waiting: list[str] = []

    def late(file: Any, operation: int) -> None:
        if not waiting:
            waiting.append("")
            waiting.extend(one.what for one in restore())
            scratch.mkdir()  # that is a third command's
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert restore() == []
    assert waiting == ["", "put back", "failed"]
    assert scratch.exists()
    assert len(path.read_text().splitlines()) == 1


def test_a_journal_that_was_taken_for_a_dead_ones_is_begun_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock
    taken: list[Path] = []

    def late(file: Any, operation: int) -> None:
        if not taken:
            taken.extend((home / "journal").glob(".*"))
            taken[0].unlink()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with Journal() as journal:
        assert len(taken) == 1
        assert journal.path.exists()
    assert list((home / "journal").iterdir()) == []


def test_a_user_without_a_name_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any user. PostgreSQL says itself that its initdb needs one."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(os, "getegid", lambda: 54321)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert children.server_account() == children.Account("user 12345", 12345, 54321)
