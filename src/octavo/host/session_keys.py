"""The kernel keys of the user who started Octavo (keyrings(7)): children of another account get none of them.

Children inherit a session keyring and keep it when their user changes. They can then read its keys and those of the
keyrings that it links, whoever owns these. Root's may hold Kerberos tickets or disk passphrases.
"""

import ctypes
import errno
import os
import platform

# The number of keyctl(2): the kernel's arch/*/syscalls/syscall*.tbl and include/uapi/asm-generic/unistd.h.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1
# A kernel without keys, and a container in which nobody may ask for them: there is nothing to leave.
_NO_KEYS = (errno.ENOSYS, errno.EPERM)

_libc = ctypes.CDLL(None, use_errno=True)


def leave() -> None:
    """Gives the calling thread, and its children, a new, empty session keyring. Raises OSError."""
    number = _KEYCTL.get(platform.machine())
    if number is None:
        return
    if _libc.syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None) < 0:
        code = ctypes.get_errno()
        if code not in _NO_KEYS:
            raise OSError(code, f"a new session keyring: {os.strerror(code)}")
