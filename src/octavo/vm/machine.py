"""qemu's command line: a machine without a network that ends by itself, its console and one port for output."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.vm.images import Image
from octavo.vm.kernels import Machine

_MB = 1024**2
# qemu's translated code, its own memory and its libraries, beside the machine's memory.
_TRANSLATED_MB = 256
_OWN_BYTES = 2048 * _MB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a machine: memory and data disk in bytes, processors, and seconds until it is killed."""

    memory: int
    disk: int
    cpus: int
    seconds: float


def command(
    machine: Machine,
    image: Image,
    disk: Path,
    job: Path,
    limits: Limits,
    *,
    cpu: str | None = None,
    kernel_arguments: Sequence[str] = (),
    plugin: str | None = None,
) -> list[str]:
    """The command line of qemu, limited by prlimit(1) and ended by timeout(1).

    The output of the command in the machine goes to standard output, the console to standard error. Files that qemu
    writes cannot grow beyond the size of the data disk. `plugin`: qemu's plugin with its arguments.
    """
    boot = [f"console={machine.console}", "quiet", "panic=-1", "oops=panic", *kernel_arguments]
    return [
        "prlimit", f"--as={limits.memory + _OWN_BYTES}", f"--fsize={max(limits.disk, _MB)}", "--core=0", "--",
        "timeout", "--kill-after=5", str(math.ceil(limits.seconds)),
        # qemu takes no descriptor below 3.
        "/bin/sh", "-c", 'exec "$@" 3>&1 4>&2', "sh",
        machine.qemu, *machine.board, "-cpu", cpu or machine.cpu,
        "-accel", f"tcg,thread=multi,tb-size={_TRANSLATED_MB}",
        "-smp", str(limits.cpus), "-m", f"{limits.memory // _MB}M",
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none", "-monitor", "none",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-kernel", str(image.path / "kernel"), "-initrd", str(image.path / "initrd"), "-append", " ".join(boot),
        *_disk("system", image.path / "root", "readonly=on"),
        *_disk("data", disk, "cache=unsafe"),
        *_disk("job", job, "readonly=on"),
        *_written("out", 3), *_written("console", 4),
        "-serial", "chardev:console",
        "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=out,name=octavo.out",
        *(["-plugin", plugin, "-d", "plugin"] if plugin else []),
    ]  # fmt: skip


def _written(name: str, descriptor: int) -> list[str]:
    """Where something is written to: one of the descriptors that qemu is started with. (What reads its standard input
    closes when that ends.)"""
    return [
        "-add-fd", f"fd={descriptor},set={descriptor}",
        "-chardev", f"file,id={name},path=/dev/fdset/{descriptor},append=on",
    ]  # fmt: skip


def _disk(name: str, path: Path, how: str) -> list[str]:
    """A virtio disk; the machine has them in the order in which they are named. A comma in a path is doubled."""
    place = str(path).replace(",", ",,")
    return [
        "-drive", f"if=none,id={name},format=raw,file={place},{how}", "-device", f"virtio-blk-pci,drive={name}",
    ]  # fmt: skip
