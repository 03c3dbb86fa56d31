"""Programs, packages and archives from anybody, up to the verdict. (Rust has its own properties.)"""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized
from tests.unit.elf_files import CASAL, LDAXR, STLXR, X86_64, call, elf, helper, words

from octavo.binary.listing import document, lines
from octavo.binary.read import read
from octavo.binary.render import show
from octavo.cli.output import console

_ARM = elf(helper(CASAL, LDAXR, STLXR) + call(32, 0) + words(LDAXR, STLXR), comment=b"GCC: (GNU) 9.3.1 2020\0")
_X86 = elf(bytes.fromhex("0fa2f00fc1078707f30fb8c7c4e2f9f7c0c3"), X86_64, b"GCC: (Debian 12.2.0-14) 12.2.0\0")
_ARCHIVE = b"!<arch>\n" + f"{'a.o/':16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(_ARM):<10}`\n".encode() + _ARM


def _seen(text: bytes, place: Path) -> object:
    (place / "x").write_bytes(text)
    found = read(place / "x")
    with redirect_stdout(StringIO()):
        show(found, console(), verbose=True)
    json.dumps(document(found), allow_nan=False)
    return [lines(one) for one in found]


PARSERS = [Parser("binary", _seen, (_ARM, _X86, _ARCHIVE))]


@parametrized(PARSERS)
def test_any_program_is_read_or_refused(parser: Parser) -> None:
    check(parser)
