"""Recording from a tracing build (`octavo build --traced`): each backend appends to a file of its own.

The files are in the server's data directory, which others can write: they are opened below its descriptor, never
through a link, and must be the server's own.
"""

import ctypes
import os
import stat
import struct
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from octavo import _core
from octavo.errors import HostError
from octavo.host.owner import owner_of

DIRECTORY = "octavo_trace"
CONTROL = "control"
# The seconds after which backends stop by themselves if the recorder was killed.
_LEASE_NANOSECONDS = 5_000_000_000
_LOOK_SECONDS = 0.25
# The seconds after which backends that were interrupted within a record have completed it.
_SETTLE_SECONDS = 0.1
# Files are read one after the other: a record this much older than the latest one has certainly been read.
_KEEP_NANOSECONDS = 500_000_000
_PIECE = 1 << 20
# The limit for all files in one pass. The rest is read in the next one, so the recording ends whatever backends write.
_MOST_A_TURN = 64 << 20
# How long to read the backlog after backends have stopped.
_REST_SECONDS = 30.0
_CONTROL = struct.Struct("<QQQ")
_RECORD = 16
_NEW_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_FILES = 100_000
# fallocate(2): the file keeps its size, but the read part no longer uses disk space.
_PUNCH_HOLE = 0x02 | 0x01
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class _File:
    descriptor: int
    number: int
    backend: int
    offset: int = 0
    freed: int = 0
    ended: bool = False


@dataclass
class TracedRecording:
    """An active recording in a server's data directory."""

    directory: int
    control: int
    owner: tuple[int, int]
    number: int
    proc: Path
    files: dict[str, _File] = field(default_factory=dict[str, _File])
    opened: int = 0
    strays: int = 0
    until: int | None = None
    """Nanoseconds of the monotonic clock until which backends record."""

    def extend(self) -> int:
        """Allows backends to record for the next seconds. Returns the nanoseconds for which they did not, because this
        is called too late: the recorder had to wait for the server or for its disk, or was stopped."""
        now, before = time.monotonic_ns(), self.until
        self.until = now + _LEASE_NANOSECONDS
        self._write(self.until, 0)
        return 0 if before is None else max(0, now - before)

    def stop(self, *, let_go: bool = False) -> None:
        """Stops recording in the backends; with `let_go` they close their files at their next access."""
        self.until = None
        self._write(0, int(let_go))

    def _write(self, until: int, let_go: int) -> None:
        os.pwrite(self.control, _CONTROL.pack(until, self.number, let_go), 0)

    def take(self, writer: _core.TraceWriter) -> bool:
        """Reads what backends have written since the last call, up to a limit. Returns whether that is all.

        Raises HostError when a backend could not continue.
        """
        for name in _names(self.directory):
            if name == f"{self.number}.failed":
                raise HostError(
                    "a backend could not extend its file in octavo_trace: check that the server's disk has room"
                )
            if name.startswith(f"{self.number}.") and name not in self.files:
                self._open(name)
        left = _MOST_A_TURN
        for name, file in list(self.files.items()):
            file.ended = file.ended or not (self.proc / str(file.backend)).exists()
            taken, is_all = self._read(file, writer, left)
            left -= taken
            if taken:
                self.files[name] = self.files.pop(name)  # behind those that have no turn this time
            if file.ended and is_all:
                self._forget(name, writer)
        return left > 0

    def _forget(self, name: str, writer: _core.TraceWriter) -> None:
        """Removes the file of a backend that has ended, so that any number of them can come and go."""
        file = self.files.pop(name)
        writer.forget_records(file.number)
        os.close(file.descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def unread(self) -> int:
        """An upper bound of the number of unread records."""
        return sum(max(0, os.fstat(file.descriptor).st_size - file.offset) // _RECORD for file in self.files.values())

    def _open(self, name: str) -> None:
        backend = name.split(".")[1]
        if len(self.files) >= _MOST_FILES or not (backend.isdecimal() and len(backend) < 10):
            return
        descriptor = _opened(name, self.directory, self.owner[0], os.O_RDWR)
        self.files[name] = _File(descriptor, self.opened, int(backend))
        self.opened += 1

    def _read(self, file: _File, writer: _core.TraceWriter, most: int) -> tuple[int, bool]:
        """Reads at most about so many bytes. Returns the number of records, and whether all that was written is
        read."""
        read, is_all = 0, False
        while read < most and not is_all:
            piece = os.pread(file.descriptor, _PIECE, file.offset)
            taken, strays = writer.push_records(file.number, file.backend, piece)
            self.strays += strays
            file.offset += taken
            read += taken
            is_all = taken < len(piece) or not piece
        whole = file.offset // _PIECE * _PIECE
        if whole > file.freed:
            length = whole - file.freed
            _libc.fallocate(file.descriptor, _PUNCH_HOLE, ctypes.c_long(file.freed), ctypes.c_long(length))
            file.freed = whole
        return read, is_all


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _opened(name: str, directory: int, owner: int, flags: int) -> int:
    """Opens a regular file of the server's own with a single link. Raises HostError for any other file.

    Files of our own are refused as well: the server can rename root's files in its directories, but not write to them.
    """
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        raise HostError(
            f"{DIRECTORY}/{name} cannot be opened: {error.strerror}; record as root or as the server"
        ) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != owner:
        os.close(descriptor)
        raise HostError(f"{DIRECTORY}/{name} is not a file of the server; remove {DIRECTORY} from its data directory")
    return descriptor


@contextmanager
def recording(postmaster: int, proc: Path = Path("/proc")) -> Generator[TracedRecording, None, None]:
    """Makes backends record, and removes their files afterwards. Raises HostError if that is not possible."""
    try:
        found = (proc / str(postmaster)).stat()
        data = os.open(proc / str(postmaster) / "cwd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"the server's data directory cannot be opened: {error.strerror}; record as root") from error
    owner = (found.st_uid, found.st_gid)
    try:
        if owner_of(os.fstat(data)) != owner[0]:  # the server may have changed to any directory that it may enter
            raise HostError("the server's working directory is not its data directory; nothing is written there")
        with suppress(FileExistsError):
            os.mkdir(DIRECTORY, 0o700, dir_fd=data)
        directory = os.open(DIRECTORY, _NEW_DIRECTORY, dir_fd=data)
        try:
            yield from _recording(directory, owner, proc)
        finally:
            os.close(directory)
            with suppress(OSError):
                os.rmdir(DIRECTORY, dir_fd=data)
    except OSError as error:
        raise HostError(f"{DIRECTORY} in the server's data directory: {error.strerror}; record as root") from error
    finally:
        os.close(data)


def _recording(directory: int, owner: tuple[int, int], proc: Path) -> Generator[TracedRecording, None, None]:
    whose = os.fstat(directory).st_uid
    if whose != owner[0] and (whose != os.geteuid() or _names(directory)):  # ours must be new
        raise HostError(f"{DIRECTORY} is not a directory of the server; remove it from its data directory")
    for name in _names(directory):
        if name != CONTROL:  # from a recorder that was killed
            os.unlink(name, dir_fd=directory)
    control = _control(directory, owner)
    found = TracedRecording(directory, control, owner, time.time_ns(), proc)
    try:
        found.stop()
        os.fchown(directory, *owner)
        yield found
    finally:
        found.stop(let_go=True)
        for file in found.files.values():
            os.close(file.descriptor)
        for name in _names(directory):
            os.unlink(name, dir_fd=directory)
        os.close(control)


def _control(directory: int, owner: tuple[int, int]) -> int:
    """Opens the control file, which backends may still have mapped from a recorder that was killed; creates a new one
    if the file is not the server's. Raises HostError and OSError.
    """
    with suppress(FileNotFoundError):
        if os.stat(CONTROL, dir_fd=directory, follow_symlinks=False).st_uid == owner[0]:
            return _opened(CONTROL, directory, owner[0], os.O_RDWR)
        os.unlink(CONTROL, dir_fd=directory)
    made = os.open(CONTROL, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    os.fchown(made, *owner)
    return made


def record(
    recording: TracedRecording, writer: _core.TraceWriter, seconds: float, began: int, each_second: Callable[[], object]
) -> int:
    """Records for so many seconds. Returns the number of lost records: invalid ones, and those written faster than
    read.

    `each_second` is called about once a second. If it takes longer than backends record by themselves, the trace has a
    pause.
    """
    end = time.monotonic() + seconds
    called, is_all = time.monotonic(), True
    while (left := end - time.monotonic()) > 0:
        if missed := recording.extend():
            writer.event((time.monotonic_ns() - missed - began) // 1000, "pause_microseconds", missed // 1000)
        time.sleep(min(left, _LOOK_SECONDS) if is_all else 0)
        is_all = recording.take(writer)
        writer.push_probes(b"", began, _KEEP_NANOSECONDS)
        if time.monotonic() - called >= 1:
            called = time.monotonic()
            each_second()
        writer.flush()
    recording.stop()
    time.sleep(_SETTLE_SECONDS)
    deadline = time.monotonic() + _REST_SECONDS
    while not (is_all := recording.take(writer)) and time.monotonic() < deadline:
        writer.push_probes(b"", began, _KEEP_NANOSECONDS)
    writer.push_probes(b"", began, 0)
    lost = recording.strays + (0 if is_all else recording.unread())
    if lost:
        writer.event((time.monotonic_ns() - began) // 1000, "lost", lost)
    writer.flush()
    return lost
