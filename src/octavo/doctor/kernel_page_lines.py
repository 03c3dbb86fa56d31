"""The lines for a smaller unit of storage reads: another kernel, another filesystem, or a larger data block."""

from octavo.doctor.amounts import least_read
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size, human_size

_LARGEST_BLOCK = 32768
_SMALL_PAGE = 4096
# What puts another block size into effect, and how to verify it.
_AFTER_BUILD = ("dump and restore", "SHOW block_size;")


def lines_for_smaller_pages(asked: RuleFacts) -> tuple[tuple[str, ...], str, str]:
    """The lines to write, what puts them into effect, and how to verify it."""
    unit, page, block = least_read(asked), asked.whole("host.memory.page_bytes"), asked.whole("setting.block_size")
    if unit == page:
        larger = f"octavo build --data-block {format_size(min(unit, _LARGEST_BLOCK))}"
        if page <= _SMALL_PAGE:
            return ("# a build with data blocks of a memory page; no kernel has smaller ones", larger), *_AFTER_BUILD
        if asked.text_or_none("host.machine") != "aarch64":
            lines = (
                "# a kernel with 4 kB pages, where the distribution has one; or a build with larger data blocks:",
                larger,
            )
            return lines, *_AFTER_BUILD
        lines = (
            *_cannot_be_mounted(asked),
            "# RHEL 9, Oracle Linux 9 and later on Arm: the 4 kB kernel is a package of its own",
            "dnf install kernel-core kernel-modules && grubby --set-default /boot/vmlinuz-$(rpm -q --qf "
            "'%{version}-%{release}.%{arch}\\n' kernel-core | tail -1)",
            "# Ubuntu: linux-generic for linux-generic-64k; Raspberry Pi OS: kernel=kernel8.img in config.txt",
            "# RHEL 8 on Arm has 64 kB pages only: another distribution, or a build with larger data blocks",
            larger,
        )
        return lines, "reboot", "getconf PAGESIZE"
    if asked.text_or_none("host.fs.type") == "zfs":
        size = format_size(block).removesuffix("B")
        return (
            (f"zfs set recordsize={size} DATASET   # for files written from now on",),
            "dump and restore (files keep their record size)",
            "zfs get recordsize DATASET",
        )
    return (
        (
            f"# a filesystem with blocks no larger than this kernel's pages ({human_size(page)}), on another device, "
            "whose content is lost; copy the files there",
            f"mkfs.xfs -b size={_SMALL_PAGE} DEVICE   # every kernel can mount it",
        ),
        "restart",
        "stat -f -c %s DATA_DIRECTORY",
    )


def _cannot_be_mounted(asked: RuleFacts) -> tuple[str, ...]:
    """A warning if the filesystem's blocks are larger than the pages of the other kernel, which then cannot mount
    it."""
    block = asked.whole_or_none("host.fs.block_bytes") or 0
    if block <= _SMALL_PAGE:
        return ()
    return (
        f"# first copy the files: their filesystem has blocks of {human_size(block)}, which few kernels with "
        "pages of 4 kB mount",
    )
