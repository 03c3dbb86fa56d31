"""A child of root's that runs as another account makes no set-user-ID or set-group-ID file, wherever it may write.

PR_SET_NO_NEW_PRIVS (prctl(2)) keeps it from gaining rights by such a file, but not from making one: whoever ran that
later would have the account's rights. So chmod(2) with these bits, and making a file with them (open(2), mknod(2)), is
refused by a system call filter (seccomp(2)), which the child and its descendants keep permanently. A filter cannot read
memory, so calls that pass such arguments in memory do not exist for it: openat2(2), and io_uring_setup(2), but for a
child that needs `rings`: a server with io_method = io_uring, and PostgreSQL's own tests.

Nor does it make a user namespace, in which it would have all capabilities: there it could mount a filesystem in user
space with such a file in it, below an overlay, and have the kernel copy that up to where it may write
(Documentation/filesystems/overlayfs.rst). The filter cannot see the arguments of clone3(2) either.

A child on root's terminal, such as psql of `octavo shell`, could insert input that root's shell reads afterwards; that
ioctl(2) is refused too. The child also lacks the keys of root's session (`session_keys`).

Where it does not see everything, `made_below` limits where files are made.

Both are done in a thread that then starts the child and ends: nothing of ours keeps the filter, or loses its keys.
"""

import ctypes
import errno
import functools
import platform
import stat
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass

from octavo.host import made_below, session_keys


@dataclass(frozen=True, slots=True)
class _Machine:
    """Numbers of system calls: the kernel's arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h;
    `name` is AUDIT_ARCH_* (include/uapi/linux/audit.h). `modes` has the argument that is the mode, by call, `opens`
    those that are flags and mode, of a call that uses its mode only when it makes a file; `spaces` has the
    argument that has the flags for namespaces.
    """

    name: int
    seccomp: int
    modes: dict[int, int]
    opens: dict[int, tuple[int, int]]
    spaces: dict[int, int]
    ioctl: int


_FCHMODAT2 = 452
_MACHINES = {
    # chmod, fchmod, fchmodat, creat, mknod, mknodat; open, openat; clone, unshare
    "x86_64": _Machine(
        0xC000003E, 317, {90: 1, 91: 1, 268: 2, _FCHMODAT2: 2, 85: 1, 133: 1, 259: 2}, {2: (1, 2), 257: (2, 3)},
        {56: 0, 272: 0}, 16,
    ),
    # fchmod, fchmodat, mknodat; openat; clone, unshare
    "aarch64": _Machine(
        0xC00000B7, 277, {52: 1, 53: 2, _FCHMODAT2: 2, 33: 2}, {56: (2, 3)}, {220: 0, 97: 0}, 29
    ),
    "riscv64": _Machine(
        0xC00000F3, 277, {52: 1, 53: 2, _FCHMODAT2: 2, 33: 2}, {56: (2, 3)}, {220: 0, 97: 0}, 29
    ),
}  # fmt: skip
_OPENAT2, _IO_URING_SETUP, _CLONE3 = 437, 425, 435  # on every machine
_NEW_USER = 0x10000000  # CLONE_NEWUSER
_MAKING = 0o100 | 0o20000000  # O_CREAT and what O_TMPFILE has beside O_DIRECTORY, alike on these machines
# Typing into the terminal, and on the console pasting into it (ioctl_tty(2), ioctl_console(2)).
_TYPE, _CONSOLE = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX
_BITS = stat.S_ISUID | stat.S_ISGID
# Classic BPF (include/uapi/linux/bpf_common.h) on struct seccomp_data: number, machine, address, six arguments.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # SECCOMP_RET_*; the error is in the lower half
_X32 = 0x40000000  # __X32_SYSCALL_BIT: the same calls by other numbers
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_SET_FILTER, _SPECULATE = 1, 4  # SECCOMP_FILTER_FLAG_SPEC_ALLOW: the CPU works as it does without a filter

_libc = ctypes.CDLL(None, use_errno=True)
# How many children had io_uring so far.
_with_rings = 0


def started(start: Callable[[], "subprocess.Popen[str]"], *, rings: bool = False) -> "subprocess.Popen[str]":
    """The child that `start` starts, without root's keys, and with the filter where this kernel has one. Raises what
    `start` raises."""
    global _with_rings
    _with_rings += rings
    found: list[subprocess.Popen[str] | BaseException] = []
    places = made_below.where_octavo_looks()

    def run() -> None:
        try:
            session_keys.leave()
            _gain_no_privileges()
            if not install(rings=rings) or rings:
                made_below.restrict(places)
            found.append(start())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, name="start")
    thread.start()
    try:
        thread.join()
    except BaseException:  # an interrupt: what was started meanwhile is nobody's yet
        thread.join()
        if isinstance(found[0], subprocess.Popen):
            found[0].kill()
            found[0].wait()
        raise
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@functools.cache
def is_available() -> bool:
    """Whether children that run as an account get the filter here: on a kernel and a machine that have it."""
    found: list[bool] = []

    def run() -> None:
        _gain_no_privileges()
        found.append(install())

    thread = threading.Thread(target=run, name="try")
    thread.start()
    thread.join()
    return found == [True]


def with_rings() -> int:
    """How many children that this process has started until now may make files by io_uring, which no filter sees."""
    return _with_rings


def _gain_no_privileges() -> None:
    """Sets PR_SET_NO_NEW_PRIVS for the calling thread and its children. Then the kernel also takes filters from root in
    a container, which has no CAP_SYS_ADMIN."""
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def install(*, rings: bool = False) -> bool:
    """Sets the filter permanently for the calling thread and its children; returns whether it is set. With `rings` they
    may use io_uring.

    Needs CAP_SYS_ADMIN or no new privileges. If it cannot be set, `set_user_id.none_left` finds such files in the usual
    places.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    program = _program(machine, rings=rings)
    filter_ = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where.
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(filter_)))
    number = ctypes.c_long(machine.seccomp)
    return _libc.syscall(number, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(_SPECULATE), ctypes.byref(head)) == 0


def _program(machine: _Machine, *, rings: bool) -> bytes:
    """Calls for another machine (32 bits on 64, x32) do not exist, nor those whose mode or flags are not seen. A mode
    with one of the bits is not permitted, nor are a user namespace and typing."""
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, machine.name, 1, 0),
        _instruction(_RETURN, _FAIL | errno.ENOSYS),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32, 0, 1),
        _instruction(_RETURN, _FAIL | errno.ENOSYS),
    ]
    for number in (_OPENAT2, _CLONE3) if rings else (_OPENAT2, _CLONE3, _IO_URING_SETUP):
        program += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _FAIL | errno.ENOSYS)]
    for number, (flags, argument) in machine.opens.items():
        program += [
            _instruction(_EQUAL, number, 0, 6),
            _instruction(_LOAD, _ARGUMENTS + 8 * flags),
            _instruction(_ANY_BIT, _MAKING, 0, 3),
            _instruction(_LOAD, _ARGUMENTS + 8 * argument),
            _instruction(_ANY_BIT, _BITS, 0, 1),
            _instruction(_RETURN, _FAIL | errno.EPERM),
            _instruction(_RETURN, _ALLOW),
        ]
    refused = [(*one, _BITS) for one in machine.modes.items()] + [(*one, _NEW_USER) for one in machine.spaces.items()]
    for number, argument, bits in refused:
        program += [
            _instruction(_EQUAL, number, 0, 4),
            _instruction(_LOAD, _ARGUMENTS + 8 * argument),  # the lower half: these machines are little-endian
            _instruction(_ANY_BIT, bits, 0, 1),
            _instruction(_RETURN, _FAIL | errno.EPERM),
            _instruction(_RETURN, _ALLOW),
        ]
    program += [
        _instruction(_EQUAL, machine.ioctl, 0, 4),
        _instruction(_LOAD, _ARGUMENTS + 8),
        _instruction(_EQUAL, _TYPE, 1, 0),
        _instruction(_EQUAL, _CONSOLE, 0, 1),
        _instruction(_RETURN, _FAIL | errno.EPERM),
    ]
    return b"".join([*program, _instruction(_RETURN, _ALLOW)])


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
