"""How the running kernel was configured for pages, and the distribution that it came with."""

import os
import platform
import re
import zlib
from pathlib import Path

from octavo.host.kernel_text import shown
from octavo.host.safe_read import read_text

_MOST_BYTES = 2 * 1024**2
# Of kernel Kconfig files: the memory page (arm64's names before 6.9, then everyone's), its tables, and huge pages.
_ABOUT_PAGES = re.compile(
    r"CONFIG_(?:ARM64_(?:4K|16K|64K)_PAGES|PPC_(?:4K|64K)_PAGES|PAGE_SIZE_\d+KB|PAGE_SHIFT|PGTABLE_LEVELS|"
    r"ARM64_VA_BITS|TRANSPARENT_HUGEPAGE(?:_ALWAYS|_MADVISE|_NEVER)?|HUGETLB_PAGE|HUGETLBFS|"
    r"ARCH_FORCE_MAX_ORDER|READ_ONLY_THP_FOR_FS)"
)


def distribution(root: Path = Path("/")) -> str:
    """The name of the distribution (os-release(5), PRETTY_NAME); `unknown` without one."""
    for place in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = read_text(root / place, 65536)
        except (OSError, ValueError):
            continue
        match = re.search(r"^PRETTY_NAME=(['\"]?)(.*)\1$", text, re.MULTILINE)
        if match:
            return shown(match[2])
    return "unknown"


def page_configuration(root: Path = Path("/")) -> dict[str, str]:
    """The kernel's build options about pages by name, without CONFIG_; empty if the kernel does not show them.

    From /proc/config.gz (CONFIG_IKCONFIG_PROC), else the file that distributions put beside the kernel.
    """
    return options_about_pages(_configuration(root))


def options_about_pages(text: str) -> dict[str, str]:
    """The options of a kernel's configuration that are about pages; one that is not set is none.

    >>> options_about_pages("CONFIG_ARM64_64K_PAGES=y\\nCONFIG_PGTABLE_LEVELS=3\\n# CONFIG_HUGETLBFS is not set")
    {'ARM64_64K_PAGES': 'y', 'PGTABLE_LEVELS': '3'}
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and _ABOUT_PAGES.fullmatch(name):
            found[name.removeprefix("CONFIG_")] = shown(value.strip().strip('"')[:64])
    return found


def _configuration(root: Path) -> str:
    try:
        with (root / "proc/config.gz").open("rb") as packed:
            # 16: with the header of gzip (zlib.h, inflateInit2).
            unpacked = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(packed.read(_MOST_BYTES), _MOST_BYTES)
        return os.fsdecode(unpacked)
    except (OSError, zlib.error):
        pass
    try:
        return read_text(root / f"boot/config-{platform.release()}", _MOST_BYTES)
    except (OSError, ValueError):
        return ""
