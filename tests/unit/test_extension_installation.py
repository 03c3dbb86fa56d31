"""Extensions: what of a source counts; an installation that was killed in the middle, whose files are known, and that
touches nobody else's."""

# pyright: reportPrivateUsage=false

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import extension
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.usage import added_files, not_postgresqls

_RELEASE: dict[str, Any] = {"files": {}, "origin": "https://example.org/a, sha256 known to Octavo"}


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """A build without files, in which installing syncs nothing."""
    monkeypatch.setattr(os, "sync", lambda: None)
    (tmp_path / "build").mkdir()
    return Build("18", tmp_path / "build", dict(_RELEASE))


def install(build: Build, name: str, *files: str) -> None:
    stage = {file: build.prefix.with_name(f"{name}-{Path(file).name}") for file in files}
    for path in stage.values():
        path.write_text(name)
    extension._install(build, stage, {"name": name, "files": dict.fromkeys(files, "digest")})


def kill(build: Build, monkeypatch: pytest.MonkeyPatch, name: str, *files: str) -> None:
    """Starts the installation, and is killed when its first file is about to get its name."""
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target.suffix == ".so":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", killed)
        install(build, name, *files)


def test_a_server_that_does_not_start_with_the_extension_is_its_problem(
    build: Build, journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise octavo build ls would list it as one that works."""
    record: dict[str, Any] = {"name": "vector", "source_sha256": "1", "extensions": {"vector": "1"}, "libraries": []}
    (build.prefix / "extensions").mkdir()
    (build.prefix / "extensions" / "vector.json").write_text(json.dumps(record))
    monkeypatch.setattr(extension, "scratch_server", Mock(side_effect=OctavoError("the server did not start")))
    installed = extension.InstalledExtension(build, record, False, 0.0)
    assert extension.try_extension(installed, journal, account) == "the server did not start"
    assert extension.installed_extensions(build)[0]["problem"] == "the server did not start"


def test_no_file_of_a_killed_installation_counts_as_postgresqls(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(build, monkeypatch, "vector", "lib/vector.so")
    files = {str(path.relative_to(build.prefix)) for path in build.prefix.rglob("*") if path.is_file()}
    assert len(files) == 2 and files <= added_files(build)
    assert not_postgresqls(build) == ["the extension vector"]


def test_a_killed_installation_owns_no_file_that_another_extension_has_installed_since(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(build, monkeypatch, "first", "lib/shared.so")
    install(build, "second", "lib/shared.so")
    with pytest.raises(OctavoError, match="belongs to the extension second"):
        install(build, "first", "lib/shared.so")
    install(build, "first", "lib/first.so")
    assert (build.prefix / "lib" / "shared.so").read_text() == "second"
    assert not_postgresqls(build) == ["the extension first", "the extension second"]


def test_what_tests_leave_is_no_source_and_directories_of_these_names_further_down_are(tmp_path: Path) -> None:
    for name in ("log/regress.log", "results/out", "src/log/log.c", "src/log/log.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = extension.source_digest(tmp_path)
    for name in ("log/regress.log", "results/out", "src/log/log.o"):
        (tmp_path / name).write_text("2")
        assert extension.source_digest(tmp_path) == before
    (tmp_path / "src/log/log.c").write_text("2")
    assert extension.source_digest(tmp_path) != before
