"""The available kernels: Debian's packages, by machine and memory page."""

from dataclasses import dataclass

from octavo.errors import HostError, UsageError

SUITE = "trixie"
POSTGRES = "17"
# What kernels for these machines can be built with (arch/arm64/Kconfig).
PAGES = ("4kB", "16kB", "64kB")


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of machine: Debian's name, qemu's program, arguments and package, the serial console, kernel packages.

    `kernels` are Debian's meta packages by memory page.
    """

    name: str
    debian: str
    qemu: str
    qemu_package: str
    board: tuple[str, ...]
    cpu: str
    console: str
    kernels: dict[str, str]


MACHINES = {
    machine.name: machine
    for machine in (
        # Pointer authentication by qemu's own quick algorithm: the architected one is most of an emulated boot.
        Machine(
            "aarch64", "arm64", "qemu-system-aarch64", "qemu-system-arm", ("-machine", "virt"), "max,pauth-impdef=on",
            "ttyAMA0", {"4kB": "linux-image-cloud-arm64", "16kB": "linux-image-arm64-16k"},
        ),
        Machine(
            "x86-64", "amd64", "qemu-system-x86_64", "qemu-system-x86", ("-machine", "q35"), "max", "ttyS0",
            {"4kB": "linux-image-cloud-amd64"},
        ),
    )
}  # fmt: skip


def machine_of(name: str) -> Machine:
    """The machine of this name. Raises UsageError when there is none."""
    if name not in MACHINES:
        raise UsageError(f"no machine {name!r}; choose one of {', '.join(MACHINES)}")
    return MACHINES[name]


def page_of(text: str) -> str:
    """A kernel page. Raises UsageError when there is none of this size."""
    if text not in PAGES:
        raise UsageError(f"no kernel page {text}; choose one of {', '.join(PAGES)}")
    return text


def kernel_package(machine: Machine, page: str) -> str:
    """Debian's meta package of the kernel with this memory page.

    Raises HostError when Debian has none, UsageError when the machine knows no such page.
    """
    if package := machine.kernels.get(page):
        return package
    if machine.name == "aarch64" and page == "64kB":
        raise HostError(
            "Debian builds no arm64 kernel with 64 kB pages (it has linux-image-arm64 and linux-image-arm64-16k); "
            "give one with --kernel-package FILE.deb"
        )
    has = ", ".join(machine.kernels)
    raise UsageError(f"{machine.name} has no kernel page of {page!r}; it has {has}")
