"""A real kernel with pages of 16 kB, booted from Debian's packages, which are fetched from the archive.

Making the image takes about 40 s, and a boot 10 to 20 s, on a quiet machine with 2 cores.
"""

import os
from pathlib import Path

import pytest
from tests.conftest import Octavo
from tests.tools import needs

from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home
from octavo.host.journal import Journal
from octavo.vm import images
from octavo.vm.build import ensure
from octavo.vm.images import Image
from octavo.vm.kernels import MACHINES
from octavo.vm.machine import Limits
from octavo.vm.run import run

pytestmark = [
    pytest.mark.beside,
    needs("qemu-system-aarch64"),
]
_MB = 1024**2
_LIMITS = Limits(memory=512 * _MB, disk=256 * _MB, cpus=2, seconds=400)


@pytest.fixture(scope="module")
def image(home: Path) -> Image:
    del home
    told: list[str] = []
    with Journal() as journal:
        try:
            found, is_new = ensure(MACHINES["aarch64"], "16kB", journal, told.append)
        except HostError as error:
            if str(error).startswith("Debian: "):
                pytest.skip(str(error))
            raise
    assert is_new and "making the image" in told
    return found


def test_an_image_is_roots_and_whole(image: Image) -> None:
    for name in images.FILES:
        facts = (image.path / name).stat()
        assert facts.st_uid == octavo_home().stat().st_uid and not facts.st_mode & 0o6022 and facts.st_size
    assert image.manifest["sha256"].keys() >= set(images.FILES)
    assert [path.name for path in images.directory().iterdir()] == [image.name]


def test_the_kernel_has_pages_of_16_kb(image: Image, journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("from outside\n")
    script = (
        "getconf PAGESIZE; cat given; ls /sys/class/net; echo Hugepagesize $(grep Hugepagesize /proc/meminfo); "
        "postgres --version; printf '\\033[2J'; dd if=/dev/zero of=/dev/vda bs=512 count=1; exit 7"
    )
    found = run(image, ["sh", "-c", script], journal, _LIMITS, files={"given": tmp_path / "given"})
    assert found.returncode == 7
    lines = found.text.splitlines()
    assert lines[:4] == ["16384", "from outside", "lo", "Hugepagesize Hugepagesize: 32768 kB"]
    assert lines[4].startswith("postgres (PostgreSQL) 17.")
    assert "\x1b" not in found.text
    assert "Operation not permitted" in found.text or "Read-only" in found.text or "can't open" in found.text
    assert not list((octavo_home() / "scratch").iterdir())


def test_a_stripe_cuts_requests_at_its_chunks(image: Image, journal: Journal) -> None:
    script = "count-stripes 2 16 128; echo loop devices: $(losetup | wc -l), files: $(ls -A /scratch | grep -c stripe)"
    found = run(image, ["sh", "-c", script], journal, _LIMITS)
    assert found.returncode == 0
    lines = [line.strip() for line in found.text.splitlines()]
    assert "2 disks, chunk 16 kB, stripe 32 kB: readahead 128 kB" in lines
    second = lines.index("2 disks, chunk 128 kB, stripe 256 kB: readahead 512 kB")
    assert "64 direct reads of 32 kB: 128 requests of 16 kB at the disks" in lines[:second]
    assert "64 direct reads of 128 kB: 512 requests of 16 kB at the disks" in lines[:second]
    assert "64 direct reads of 128 kB: 64 requests of 128 kB at the disks" in lines[second:]
    assert lines[-1] == "loop devices: 0, files: 0"


def test_a_machine_that_does_not_end_is_ended(image: Image, journal: Journal) -> None:
    limits = Limits(memory=512 * _MB, disk=256 * _MB, cpus=1, seconds=2)
    with pytest.raises(OctavoError, match=r"ended after 2 s; give it more with --timeout"):
        run(image, ["sleep", "1000"], journal, limits)
    assert not list((octavo_home() / "scratch").iterdir())


def test_files_that_fill_the_data_disk_end_the_machine(image: Image, journal: Journal, tmp_path: Path) -> None:
    """They have as many bytes as the disk, which has its own structures, too."""
    (tmp_path / "files").write_bytes(os.urandom(16 * _MB))
    limits = Limits(memory=512 * _MB, disk=16 * _MB, cpus=1, seconds=600)
    with pytest.raises(OctavoError, match=r"cannot be unpacked on the data disk; give it more with --disk"):
        run(image, ["true"], journal, limits, files={"files": tmp_path / "files"})


def test_what_is_asked_wrongly_is_answered_in_a_line(octavo: Octavo, image: Image) -> None:
    del image
    for arguments, said in (
        (("vm", "build", "--kernel-page", "64kB"), "Debian builds no arm64 kernel with 64 kB pages"),
        (("vm", "run", "--kernel-page", "4kB", "--", "true"), "octavo vm build --kernel-page 4kB makes one"),
        (("vm", "run", "--copy", "/nowhere", "--", "true"), "--copy /nowhere: No such file or directory"),
    ):
        asked = octavo(*arguments)
        assert asked.returncode == 3
        assert said in asked.stderr and asked.stderr.count("\n") == 1
