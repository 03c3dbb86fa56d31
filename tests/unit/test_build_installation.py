"""An installation made independent of the place where it was built."""

from pathlib import Path

import pytest

from octavo.postgres.builds.installation import make_portable


@pytest.mark.parametrize(
    "written",
    [
        "LDFLAGS = -Wl,--as-needed -Wl,-rpath,$ORIGIN/../lib\n",  # meson
        "LDFLAGS = -Wl,--as-needed -Wl,-rpath,'$$ORIGIN'/../lib\n",  # configure
    ],
)
def test_an_extension_gets_the_run_path_from_makefile_global(tmp_path: Path, written: str) -> None:
    makefile = tmp_path / "lib/pgxs/src/Makefile.global"
    makefile.parent.mkdir(parents=True)
    makefile.write_text(written)
    make_portable(tmp_path, tmp_path / "work")
    assert makefile.read_text() == "LDFLAGS = -Wl,--as-needed -Wl,-rpath,'$$ORIGIN'/../lib\n"
