"""The server's program, its libraries and modules are cached before a server starts in its memory group."""

import os
import shutil
from pathlib import Path

import pytest

from octavo.host.journal import Journal
from octavo.host.page_cache import cached_bytes, forget
from octavo.postgres.program_pages import libraries, read_first


def _cached(directory: Path) -> int:
    try:
        return cached_bytes(directory)
    except OSError as error:
        pytest.skip(str(error))


def test_program_and_modules_are_read_to_their_last_page(tmp_path: Path, home: Path) -> None:
    there = shutil.which("sh")
    assert there is not None
    bin_, lib = tmp_path / "bin", tmp_path / "lib"
    bin_.mkdir()
    lib.mkdir()
    shutil.copy(there, bin_ / "server")
    (lib / "module.so").write_bytes(b"x" * 3_000_001)
    os.sync()
    forget(tmp_path)
    if _cached(tmp_path):
        pytest.skip("this filesystem keeps its files in memory")
    with Journal() as journal:
        read_first(bin_ / "server", lib, journal)
    pages = [-(-path.stat().st_size // os.sysconf("SC_PAGE_SIZE")) for path in (bin_ / "server", lib / "module.so")]
    assert _cached(tmp_path) == sum(pages) * os.sysconf("SC_PAGE_SIZE")


def test_a_program_without_libraries_has_none() -> None:
    assert libraries("\tnot a dynamic executable\n") == []
    assert libraries("\tlibmissing.so.1 => not found\n") == []
