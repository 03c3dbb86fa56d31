"""The options of `build_options`, on a tiny PostgreSQL at two sizes from one tree: how the programs were made."""

import struct
from pathlib import Path

import pytest

from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.variants import made_with

from . import tiny_postgres

pytestmark = pytest.mark.beside

_LOAD, _EXECUTABLE = 1, 1


def alignment_of_instructions(program: Path) -> int:
    """The alignment of the executable segment (elf(5), the program header of a 64-bit file)."""
    content = program.read_bytes()
    (offset,) = struct.unpack_from("=Q", content, 32)
    size, count = struct.unpack_from("=HH", content, 54)
    headers = (struct.unpack_from("=IIQQQQQQ", content, offset + number * size) for number in range(count))
    (found,) = [header[7] for header in headers if header[0] == _LOAD and header[1] & _EXECUTABLE]
    return int(found)


@pytest.mark.parametrize("words", ["lto", "no-plt", "aligned-text", "O3+lto+no-plt+aligned-text"])
def test_programs_are_made_with_them(own_home: Path, tmp_path: Path, words: str) -> None:
    del own_home
    flags, options = made_with(words, "18")
    specs = [BuildSpec("18", data, flags=flags, options=options) for data in ("8kB", "32kB")]
    with Journal() as journal:
        builds = ensure_builds(specs, journal, local=tiny_postgres.write_tarball(tmp_path))
    for build in builds:
        aligned = alignment_of_instructions(build.prefix / "bin" / "postgres") == 2 * 1024**2
        assert aligned == ("aligned-text" in words)
