"""Making an image: Debian's packages downloaded and put together as the build account, the result kept as ours."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host import children, trees
from octavo.host.careful_open import open_file
from octavo.host.children import build_account
from octavo.host.copy_out import copy_out
from octavo.host.journal import Journal
from octavo.text import one_line
from octavo.vm import images, packages
from octavo.vm.images import Image
from octavo.vm.kernels import POSTGRES, SUITE, Machine, kernel_package
from octavo.vm.worker import OUTPUT

# Raised when the same packages give another image than before.
_REVISION = 1
# Packages, unpacked and as an image.
_NEEDED_BYTES = 1536 * 1024**2
_TOOLS = {"dpkg-deb": "dpkg", "mke2fs": "e2fsprogs", "apt-get": "apt"}
_PAGE_CONFIGURATION = re.compile(r"^CONFIG_(?:ARM64_(\d{1,2})K_PAGES|PAGE_SIZE_(\d{1,2})KB)=y$", re.MULTILINE)
_MOST_TEXT = 4 * 1024**2


def ensure(
    machine: Machine, page: str, journal: Journal, tell: Callable[[str], None], own_kernel: Path | None = None
) -> tuple[Image, bool]:
    """The image of a machine with this kernel page from the newest packages, and whether it was made now.

    `own_kernel`: a kernel package (.deb) of the user's instead of Debian's; `tell` gets the current step. Raises
    HostError when packages, tools or room are missing, OctavoError when the image cannot be made.
    """
    meta = None if own_kernel else kernel_package(machine, page)
    for tool, package in _TOOLS.items():
        if shutil.which(tool, path=children.PLAIN_PATH) is None:
            raise HostError(f"{tool} is missing; install {package}")
    images.check_room(_NEEDED_BYTES)
    with images.unpublished(f"vm-{machine.name}-{page}", journal) as work:
        tell("reading Debian's package lists")
        archive = packages.open_archive(machine, work, journal)
        system = archive.system()
        kernel = archive.kernel(meta) if meta else None
        content = _digest(own_kernel) if own_kernel else ""
        wanted = [*system, *([kernel] if kernel else [])]
        key = packages.identity(wanted, content, f"revision {_REVISION}", _guest())
        name = f"vm-{machine.name}-{page}-{key}"
        if (made := images.read(name)) is not None:
            return made, False
        download = packages.downloads(work)
        total = sum(package.size for package in wanted)
        tell(f"downloading {len(wanted)} packages, {total // 1024**2} MB")
        archive.fetch(wanted, download)
        tell("making the image")
        digests = _make(work, download, journal, kernel.file if kernel else None, own_kernel, content)
        _check_page(work / OUTPUT / "config", machine, page)
        manifest = {
            "machine": machine.name,
            "kernel_page": page,
            "kernel": f"{kernel.name} {kernel.version}" if kernel else f"{own_kernel} (sha256 {content[:12]})",
            "postgres": next(p.version for p in system if p.name == f"postgresql-{POSTGRES}"),
            "suite": SUITE,
            "packages": [f"{package.name} {package.version}" for package in wanted],
            "sha256": digests,
            "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return images.publish(work / OUTPUT, name, manifest), True


def _make(
    work: Path, download: Path, journal: Journal, kernel: str | None, own_kernel: Path | None, sha256: str
) -> dict[str, str]:
    """Has the worker make the files, and copies them to where they are ours. Returns their sha256."""
    account = build_account()
    tree = trees.make_for(work / "tree", account)
    request = work / "request.json"
    request.touch(0o600)
    request.write_text(
        json.dumps(
            {
                "uid": account.uid, "gid": account.gid, "directory": str(tree), "packages": str(download),
                "kernel": kernel, "postgres": POSTGRES,
                "own_kernel": str(own_kernel.absolute()) if own_kernel else None, "sha256": sha256,
            }
        )
    )  # fmt: skip
    finished = children.run(
        [sys.executable, "-I", "-m", "octavo.vm.worker", request], journal, role="image", account=account, becomes=True
    )
    if finished.returncode != 0:
        message = (finished.stdout.strip() or finished.stderr.strip() or "no output").splitlines()[-1]
        raise OctavoError(f"the image was not made: {one_line(message)[:1000]}")
    return copy_out(tree, OUTPUT, work / OUTPUT, account)


def _check_page(configuration: Path, machine: Machine, page: str) -> None:
    """Raises OctavoError when the kernel's own configuration says another page. x86-64 before 6.9 says none, and has
    4 kB."""
    with configuration.open(errors="replace") as file:
        match = _PAGE_CONFIGURATION.search(file.read(_MOST_TEXT))
    own = (match[1] or match[2]) if match else "4" if machine.name == "x86-64" else None
    if own is not None and f"{own}kB" != page:
        raise OctavoError(f"the kernel has pages of {own} kB and not of {page}")


def _guest() -> str:
    """What we ourselves put into an image."""
    files = sorted(resources.files("octavo.vm").joinpath("guest").iterdir(), key=lambda file: file.name)
    return "\0".join(f"{file.name}\n{file.read_text()}" for file in files)


def _digest(path: Path) -> str:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HostError(f"--kernel-package {path}: {error.strerror}") from None
