"""The offers of sources' archives: apt's listings, upstream's directory, and digests."""

# pyright: reportPrivateUsage=false
# Some parsers are private to their module.

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.host import apt
from octavo.host.children import Finished
from octavo.postgres import versions
from octavo.postgres.sources import debian, upstream

_SHOWSRC = b"""\
Package: postgresql-19
Version: 19~beta1-2
Binary: postgresql-19

Package: postgresql-18
Version: 18.1-1~deb13u1
"""
_APT = b"W: Failed to fetch http://x\nE: Unable to locate package postgresql-99\n"
_DIRECTORY = b'<a href="v18.0/">v18.0/</a>\n<a href="v18.1/">v18.1/</a> <a href="v18beta1/">v18beta1/</a>\n'
_DIGEST = b"b0c1d2e3f4a5968778695a4b3c2d1e0fb0c1d2e3f4a5968778695a4b3c2d1e0f  postgresql-18.1.tar.bz2\n"


def _offered(text: bytes, _: Path) -> object:
    offered = debian._offered(text.decode(errors="replace"))
    return sorted(offered, key=lambda offer: versions.order_of(offer[0]))


def _problem(text: bytes, _: Path) -> object:
    return apt.problem(Finished(100, "", text.decode(errors="replace"), 0.0))


def _newest(text: bytes, _: Path) -> object:
    with patch.object(upstream, "_read", return_value=text):
        return upstream._newest("18")


def _digest(text: bytes, _: Path) -> object:
    with patch.object(upstream, "_read", return_value=text):
        return upstream._published_digest("https://example.invalid/a.tar.bz2")


def _version(text: bytes, _: Path) -> object:
    said = text.decode(errors="replace")
    return versions.is_version(said) and (versions.order_of(said), versions.answers(said, "18"))


PARSERS: Sequence[Parser] = (
    Parser("apt listing", _offered, (_SHOWSRC,)),
    Parser("apt's words", _problem, (_APT,), ()),
    Parser("upstream listing", _newest, (_DIRECTORY,)),
    Parser("upstream digest", _digest, (_DIGEST,)),
    Parser("version", _version, (b"18.6", b"19devel", b"19beta1"), (ValueError,)),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
