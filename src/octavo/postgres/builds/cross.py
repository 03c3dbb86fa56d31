"""Compilers for another machine, such as Debian's aarch64-linux-gnu-gcc: how to build with one, and how to run the
result.

Such a build is linked with the C library only, not with PostgreSQL's optional libraries (ICU, OpenSSL, lz4 …), because
these are not installed for the other machine. Sources: meson, "Cross compilation"; the kernel's
Documentation/admin-guide/binfmt-misc.rst.
"""

import os
import re
from pathlib import Path

from octavo.host.safe_read import read_text

_COMPILER = re.compile(r"((aarch64|riscv64|s390x|x86_64)-linux-gnu)-gcc(-[0-9]{1,2})?")
_BIG_ENDIAN = {"s390x"}
_HANDLERS = Path("/proc/sys/fs/binfmt_misc")
_MOST_BYTES = 4096
# Options of every build that are dropped.
OPTIONS = (
    "-Dicu=disabled", "-Dliburing=disabled", "-Dlibnuma=disabled", "-Dlz4=disabled", "-Dzstd=disabled",
    "-Dzlib=disabled", "-Dreadline=disabled", "-Dssl=none",
)  # fmt: skip


def machine_of(compiler: str) -> str | None:
    """The target machine of the compiler according to its name, as in uname(2); None if it is this host's.

    >>> machine_of("gcc-12")
    """
    found = _COMPILER.fullmatch(compiler)
    return found[2] if found and found[2] != os.uname().machine else None


def runs_here(machine: str, handlers: Path = _HANDLERS) -> bool:
    """Whether this kernel runs programs of the other machine with an emulator (qemu-user's names in binfmt_misc)."""
    try:
        return read_text(handlers / f"qemu-{machine}", _MOST_BYTES).startswith("enabled")
    except (OSError, ValueError):
        return False


def cannot_run(compiler: str) -> str | None:
    """Why programs that it compiles cannot run on this host, or None."""
    machine = machine_of(compiler)
    if machine is None or runs_here(machine):
        return None
    return f"{compiler} compiles for {machine}; this host is {os.uname().machine} and has no emulator in binfmt_misc"


def meson_file(compiler: str) -> str | None:
    """Meson's cross file for the compiler; None for a compiler of this host."""
    found = _COMPILER.fullmatch(compiler)
    machine = machine_of(compiler)
    if found is None or machine is None:
        return None
    tools = "".join(f"{name} = '{found[1]}-{name}'\n" for name in ("ar", "strip", "objcopy"))
    endian = "big" if machine in _BIG_ENDIAN else "little"
    return (
        f"[binaries]\nc = '{compiler}'\n{tools}pkg-config = 'false'\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{machine}'\ncpu = '{machine}'\nendian = '{endian}'\n"
    )
