"""The distribution and the kernel's page options, from planted files."""

import gzip
import platform
from pathlib import Path

from octavo.host.kernel_pages import distribution, options_about_pages, page_configuration

_ARM = """#
# Linux/arm64 4.18.0-305.el8.aarch64 Kernel Configuration
#
CONFIG_ARM64_64K_PAGES=y
# CONFIG_ARM64_4K_PAGES is not set
CONFIG_PGTABLE_LEVELS=3
CONFIG_ARM64_VA_BITS=48
CONFIG_TRANSPARENT_HUGEPAGE=y
CONFIG_HZ=100
"""
_SEEN = {"ARM64_64K_PAGES": "y", "PGTABLE_LEVELS": "3", "ARM64_VA_BITS": "48", "TRANSPARENT_HUGEPAGE": "y"}


def test_the_kernel_s_own_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(_ARM.encode()))
    assert page_configuration(tmp_path) == _SEEN


def test_the_distribution_s_file_serves_where_the_kernel_has_none(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/config-{platform.release()}").write_text(_ARM)
    assert page_configuration(tmp_path) == _SEEN


def test_what_is_damaged_or_absent_is_nothing(tmp_path: Path) -> None:
    assert page_configuration(tmp_path) == {}
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(b"\x1f\x8b nothing")
    assert page_configuration(tmp_path) == {}
    assert options_about_pages("CONFIG_PAGE_SHIFT\nPAGE_SHIFT=12\n=\n") == {}


def test_the_name_of_the_distribution(tmp_path: Path) -> None:
    assert distribution(tmp_path) == "unknown"
    (tmp_path / "etc").mkdir()
    release = tmp_path / "usr/lib/os-release"
    release.parent.mkdir(parents=True)
    release.write_text('NAME="Red Hat"\nPRETTY_NAME="Red Hat Enterprise Linux 8.4 (Ootpa)"\n')
    (tmp_path / "etc/os-release").symlink_to("../usr/lib/os-release")
    assert distribution(tmp_path) == "Red Hat Enterprise Linux 8.4 (Ootpa)"
