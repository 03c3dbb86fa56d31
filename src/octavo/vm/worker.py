"""The process that makes an image: `python -I -m octavo.vm.worker REQUEST`.

Packages are unpacked and read as the account, which this process becomes at once; the process that started it does not
trust its output, and takes from its tree only what `copy_out` accepts.
"""

import hashlib
import json
import lzma
import os
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path
from typing import IO, Any

from octavo.errors import OctavoError
from octavo.host import confine
from octavo.host.careful_open import open_file
from octavo.vm.initramfs import DIRECTORY, FILE, PROGRAM, Entry, in_order, modules_in, pack, read_regular

for _name in ("lzma", "encodings.ascii"):
    import_module(_name)

# What disks, their filesystems and checksums need, and count-stripes. crc32c is asked for by its algorithm, which no
# module names.
_MODULES = (
    "crc32c_generic", "crc32c_cryptoapi", "crc32c_intel", "virtio_pci", "virtio_blk", "ext4", "xfs", "loop", "raid0",
)  # fmt: skip
_TOOL_SECONDS = 300
_CHUNK_BYTES = 1024**2
# A kernel has 10 to 40 MB.
_MOST_KERNEL = 256 * 1024**2
_USERS = "root:x:0:0:root:/scratch:/bin/sh\npostgres:x:26:26:PostgreSQL:/scratch:/bin/sh\n"
_GROUPS = "root:x:0:\npostgres:x:26:\n"
_DIRECTORIES = (
    "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/local/bin", "usr/local/sbin", "usr/local/lib/octavo", "etc",
    "proc", "sys", "dev", "tmp", "run", "scratch", "var",
)  # fmt: skip
OUTPUT = "image"


def main(request: Path) -> int:
    """Executes the request. Returns the exit code."""
    asked: dict[str, Any] = json.loads(request.read_text())
    guest = {file.name: file.read_bytes() for file in resources.files("octavo.vm").joinpath("guest").iterdir()}
    os.umask(0o022)
    tree, packages = Path(asked["directory"]), Path(asked["packages"])
    with _opened(asked["own_kernel"]) as own:  # what only its owner may read, perhaps
        confine.become(asked["uid"], asked["gid"])
        return _made(asked, tree, packages, own, guest)


def _opened(own_kernel: str | None) -> IO[bytes]:
    """The user's package, never through a link that others could have put there."""
    return os.fdopen(open_file(Path(own_kernel)), "rb") if own_kernel else Path(os.devnull).open("rb")


def _made(asked: dict[str, Any], tree: Path, packages: Path, own: IO[bytes], guest: dict[str, bytes]) -> int:
    kernel = packages / (asked["kernel"] or "kernel.deb")
    try:
        if asked["kernel"] is None:
            _bring(own, kernel, asked["sha256"])
        _make(tree, packages, kernel, asked["postgres"], guest)
    except OctavoError as error:
        print(error)
    except (OSError, ValueError, lzma.LZMAError, RecursionError, subprocess.SubprocessError) as error:
        print(f"making the image failed: {error}")
    else:
        return 0
    return 1


def _bring(own: IO[bytes], kernel: Path, sha256: str) -> None:
    """Copies the user's package among Debian's."""
    digest = hashlib.sha256()
    with kernel.open("xb") as copy:
        while chunk := own.read(_CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
    if digest.hexdigest() != sha256:
        raise OctavoError("the kernel's package changed while it was used; try again")


def _make(tree: Path, packages: Path, kernel: Path, postgres: str, guest: dict[str, bytes]) -> None:
    output = tree / OUTPUT
    output.mkdir()
    unpacked = tree / "kernel"
    _run("dpkg-deb", "--extract", str(kernel), str(unpacked))
    starts = sorted(unpacked.glob("boot/vmlinuz-*"))
    if len(starts) != 1:
        raise OctavoError(f"the kernel's package has {len(starts)} files boot/vmlinuz-… instead of one")
    (start,) = starts
    (output / "kernel").write_bytes(read_regular(start, _MOST_KERNEL))
    configuration = next(iter(sorted(unpacked.glob("boot/config-*"))), None)
    (output / "config").write_bytes(read_regular(configuration, _MOST_KERNEL) if configuration else b"")

    root = tree / "root"
    _lay_out(root)
    for package in sorted(packages.glob("*.deb")):
        if package != kernel:
            _run("dpkg-deb", "--extract", str(package), str(root))
    busybox = root / "usr/bin/busybox"
    _complete(root, postgres, guest)
    (output / "initrd").write_bytes(_first_filesystem(busybox.read_bytes(), unpacked, guest["init.sh"]))
    size = sum(file.lstat().st_size for file in root.rglob("*") if not file.is_dir()) // 1024
    _run(
        "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-E", "root_owner=0:0,nodiscard", "-O", "^has_journal",
        "-m", "0", "-d", str(root), str(output / "root"), f"{size * 5 // 4 + 32768}k",
    )  # fmt: skip


def _lay_out(root: Path) -> None:
    """Directories as Debian's packages expect them: /bin and the like lead into /usr."""
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("../run")


def _complete(root: Path, postgres: str, guest: dict[str, bytes]) -> None:
    """What no package has: users, a shell, our own scripts."""
    (root / "usr/bin/sh").symlink_to("busybox")
    (root / "usr/lib/postgresql/current").symlink_to(postgres)
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text(_GROUPS)
    # One is the first process, the first filesystem has another; all others are commands.
    for name in sorted(guest.keys() - {"init.sh"}):
        path = root / ("usr/local/sbin" if name == "octavo-guest" else "usr/local/lib/octavo") / name
        path.write_bytes(guest[name])
        path.chmod(0o755)


def _first_filesystem(busybox: bytes, kernel: Path, init: bytes) -> bytes:
    modules = in_order(_MODULES, modules_in(kernel))
    return pack(
        [
            *(Entry(name, DIRECTORY) for name in ("bin", "modules")),
            Entry("bin/busybox", PROGRAM, busybox),
            Entry("init", PROGRAM, init),
            Entry("modules/order", FILE, "".join(f"{name}.ko\n" for name, _ in modules).encode()),
            *(Entry(f"modules/{name}.ko", FILE, content) for name, content in modules),
        ]
    )


def _run(*command: str) -> None:
    finished = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=_TOOL_SECONDS
    )
    if finished.returncode != 0:
        message = (finished.stderr.strip() or finished.stdout.strip()).splitlines()
        raise OctavoError(
            f"{command[0]} failed (exit {finished.returncode}): {message[-1] if message else 'no output'}"
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
