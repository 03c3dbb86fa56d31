"""Variables, paths and plans with unusual text: an error is one line, and nothing is written elsewhere."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from octavo.errors import UsageError
from octavo.packaging.deb import control_file
from octavo.postgres.user_connection import SessionLimits, connect
from octavo.store.address import server_address
from octavo.store.listing import list_runs
from octavo.store.store import Store
from octavo.workload_support import files

_NO_TEXT = "/\udcff"
_SAYS = """
from pathlib import Path
import sys
from octavo.cli.app import files_are_utf8
from octavo.text import guarded
files_are_utf8()
Path(sys.argv[1]).write_text("\\u2013")
guarded(sys.stdout).write("\\u2013 \\x1b[1m")
"""


def test_files_are_utf8_and_any_terminal_can_show_what_is_said(tmp_path: Path) -> None:
    """As in a locale such as de_DE.ISO-8859-1, which may not be installed."""
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    said = subprocess.run(
        [sys.executable, "-c", _SAYS, tmp_path / "file"],
        capture_output=True, check=True, env={**os.environ, **plain}, timeout=60,
    )  # fmt: skip
    assert (said.stdout, said.stderr) == (b"\\u2013 \\ufffd[1m", b"")
    assert (tmp_path / "file").read_bytes() == "\u2013".encode()


@pytest.mark.parametrize("name", ["PGUSER", "PGPASSFILE"])
def test_a_variable_of_libpqs_that_is_no_text_is_a_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, _NO_TEXT)
    with pytest.raises(UsageError, match=r"a PG\* variable in the environment or a service is not text"):
        server_address(f"postgresql://h/{name.lower()}")


def test_options_that_are_no_text_are_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", _NO_TEXT)
    with pytest.raises(UsageError, match="PGOPTIONS in the environment is not text"):
        connect(f"host={tmp_path}", "octavo test", SessionLimits("1s", "1s"))


@pytest.mark.parametrize("path", ["~nobody-has-this-name/x", "~\0/x", "x\0"])
def test_a_path_in_a_plan_that_leads_nowhere_is_a_line(path: str) -> None:
    with pytest.raises(UsageError, match=r"no such home directory|null character"):
        files.absolute(path)


def test_a_store_is_in_its_directory_whatever_that_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a?mode=memory&b#%2e\udcff"
    monkeypatch.setenv("OCTAVO_HOME", str(home))
    with closing(Store.open(home / "octavo.sqlite")):
        pass
    assert list_runs(home / "octavo.sqlite") == []
    assert (home / "octavo.sqlite").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


def test_a_packages_maintainer_is_one_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBEMAIL", raising=False)
    monkeypatch.setenv("DEBFULLNAME", "A\nDepends: everything \udcff")
    text = control_file(MagicMock(data_block="8kB", wal_block="8kB"), "amd64", "", 1)
    assert "Maintainer: A Depends: everything \ufffd <octavo@localhost>\n" in text
    assert text.count("\nDepends: ") == 1
    assert text.encode()
