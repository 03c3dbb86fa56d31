"""The pool sizes that the next boot will set: sysctl files and the kernel's command line.

Sources: sysctl.d(5) (files in order of their names; one in /etc/sysctl.d hides its namesakes), sysctl(8) (--system
reads /etc/sysctl.conf last; systemd-sysctl reads it only where a link in sysctl.d leads to it, and then by that name)
and kernel Documentation/admin-guide/kernel-parameters.txt. Pools set by a unit or a script of the machine are not
visible.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import UsageError
from octavo.units import parse_size

_DIRECTORIES = ("usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d")
_SETTING = re.compile(r"^[ \t]*-?[ \t]*vm[./]nr_hugepages[ \t]*=[ \t]*(\d{1,18})[ \t\r]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AtBoot:
    """Pages of one size, and the file that sets them."""

    pages: int
    said_by: str


def at_boot(page: int, default: int, root: Path = Path("/")) -> AtBoot | None:
    """The number set for this page size at boot, None if there is none. A sysctl overrides the command line."""
    found = _command_line(page, default, root)
    if page != default:
        return found
    files: dict[str, Path] = {}
    for directory in _DIRECTORIES:
        files |= {path.name: path for path in sorted((root / directory).glob("*.conf"))}
    last = [] if (root / "run/systemd/system").is_dir() else [root / "etc/sysctl.conf"]  # sd_booted(3)
    for path in (*(files[name] for name in sorted(files)), *last):
        try:
            values = _SETTING.findall(path.read_text(errors="replace"))
        except OSError:
            continue
        if values:
            found = AtBoot(int(values[-1]), str(path))
    return found


def is_read_after(said_by: str, file: str) -> bool:
    """Whether what a setting comes from is a sysctl file whose value replaces that of another file at boot.

    >>> [is_read_after(by, "/etc/sysctl.d/60-x.conf") for by in ("/etc/sysctl.conf", "/run/sysctl.d/50-y.conf", "the…")]
    [True, False, False]
    """
    return said_by.startswith("/") and Path(said_by).name > Path(file).name


def _command_line(page: int, default: int, root: Path) -> AtBoot | None:
    """hugepages=N counts pages of the hugepagesz= or default_hugepagesz= before it, else of the default size; 0:N,1:N
    is by memory node."""
    try:
        words = (root / "proc/cmdline").read_text(errors="replace").split()
    except OSError:
        return None
    found, size = None, default
    for word in words:
        name, _, value = word.partition("=")
        if name in ("hugepagesz", "default_hugepagesz"):
            size = _bytes(value)
        elif name == "hugepages" and size == page and (numbers := re.findall(r"(?:^|[:,])(\d{1,18})(?=,|$)", value)):
            found = AtBoot(sum(map(int, numbers)), "the kernel's command line")
    return found


def _bytes(text: str) -> int | None:
    """A size as the kernel takes it (memparse() in lib/cmdline.c), None for what is none.

    >>> _bytes("2M"), _bytes("1G"), _bytes("2097152"), _bytes("x")
    (2097152, 1073741824, 2097152, None)
    """
    unit = {"K": "kB", "M": "MB", "G": "GB"}.get(text[-1:].upper())
    try:
        return parse_size(f"{text}B" if unit is None else f"{text[:-1]}{unit}")
    except UsageError:
        return None
