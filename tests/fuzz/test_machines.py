"""Output of an emulated machine, of apt about its packages, and a kernel's modules."""

from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.host import published
from octavo.text import UNPRINTABLE
from octavo.vm import images, output
from octavo.vm.initramfs import depends_on
from octavo.vm.packages import listed

_WORD = "00112233445566778899aabbccddeeff"
_URIS = (
    b"Reading package lists...\n"
    b"'http://archive/pool/main/g/glibc/libc6_2.41-12%2bdeb13u5_arm64.deb' libc6_2.41-12%2bdeb13u5_arm64.deb 2488872 "
    b"SHA256:00\n'http://x/zlib1g_1%3a1.3-1_arm64.deb' zlib1g_1%3a1.3-1_arm64.deb 85028 MD5Sum:00\n"
)
_CONSOLES = (b"[ 1.2] Kernel panic - not syncing: VFS: Unable to mount\n", b"\xd8\x80", b"\xf3\xa0\x81\x81")
_MANIFEST = b"""{"machine": "aarch64", "kernel_page": "16kB", "kernel": "linux-image-6.12-arm64-16k 6.12.38-1",
 "postgres": "17.5-1", "suite": "trixie", "packages": ["busybox-static 1.37"], "sha256": {"root": "00"},
 "made": "2026-11-25T10:00:00Z"}"""


def _outcome(text: bytes, _: Path) -> object:
    found = output.outcome(text.decode(errors="replace"), _WORD)
    assert found is None or "\x1b" not in found.text
    return found


def _why_not(text: bytes, _: Path) -> object:
    said = str(output.why_not(text.decode(errors="replace"), 1, 60.0, 5.0, 10**12))
    assert len(said) < 2000 and not UNPRINTABLE.search(said)
    return said


def _listed(text: bytes, _: Path) -> object:
    return listed(text.decode(errors="replace"))


def _manifest(text: bytes, _: Path) -> object:
    found = published.parse(text.decode(errors="replace"))
    if not images.is_manifest(found):
        return None
    return ", ".join(found[word] for word in ("kernel", "postgres", "machine", "kernel_page", "made"))


def _depends_on(text: bytes, _: Path) -> object:
    return depends_on(text)


PARSERS: Sequence[Parser] = (
    Parser("machine's output", _outcome, (f"16384\n\n{_WORD} 0\n".encode(), f"\n{_WORD} 255\n".encode()), ()),
    Parser("machine's console", _why_not, _CONSOLES, ()),
    Parser("apt's addresses", _listed, (_URIS,)),
    Parser("manifest of an image", _manifest, (_MANIFEST,), (ValueError,)),
    Parser("module's needs", _depends_on, (b"\x7fELF\0depends=mbcache,jbd2\0name=ext4\0",), ()),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
