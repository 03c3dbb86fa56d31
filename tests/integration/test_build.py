"""Real builds: their contents, that they are complete or absent, that concurrent requests do not collide."""

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.thorough import in_thorough_tests

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.journal import Journal, recover
from octavo.postgres.builds.cache import Build, find_build, list_builds
from octavo.postgres.builds.findings import shipped
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.prove import prove
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.worker_client import COMPILER_CACHE, work_directory

from . import tiny_postgres

pytestmark = pytest.mark.beside


def output(journal: Journal, *arguments: str | Path) -> str:
    return children.check(children.run(arguments, journal, role="test"), "asking").stdout


def test_a_build_has_what_the_laboratory_needs(build: Build, journal: Journal) -> None:
    for program in ("postgres", "initdb", "pgbench", "psql", "pg_ctl", "pg_waldump", "pg_controldata", "pg_checksums"):
        assert "PostgreSQL" in output(journal, build.program(program), "--version")
    # pg_config finds its files relative to its own location, wherever the build was moved.
    share = Path(output(journal, build.program("pg_config"), "--sharedir").strip())
    assert share.is_relative_to(build.prefix.resolve())
    for extension in ("pageinspect", "pg_buffercache", "pg_prewarm", "pg_walinspect", "pg_visibility"):
        assert (share / "extension" / f"{extension}.control").exists()
    assert "/opt/octavo/postgresql" not in output(journal, "ldd", build.program("pgbench"))


def test_the_manifest_names_every_file_and_where_it_all_came_from(build: Build) -> None:
    files = {str(p.relative_to(build.prefix)) for p in build.prefix.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(build.manifest["files"]) == files
    assert build.manifest["origin"]
    assert len(build.manifest["source_sha256"]) == 64


def test_nothing_in_it_tells_where_it_was_compiled(build: Build) -> None:
    place = re.compile(rb"/[^\0\n]*/work/18\.6-")
    files = [path for path in build.prefix.rglob("*") if path.is_file()]
    assert [path for path in files if place.search(path.read_bytes())] == []


def test_a_second_call_finds_it(build: Build, journal: Journal) -> None:
    spec = BuildSpec("18", build.manifest["data_block"], build.manifest["wal_block"])
    steps: list[int] = []
    again = ensure_build(spec, journal, progress=lambda step: steps.append(step.done))
    assert (again.prefix, steps) == (build.prefix, [])
    assert find_build(spec) == build


@pytest.fixture
def empty_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory without builds, but with the source and the compiler cache."""
    directory = home / "empty"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name in ("sources", COMPILER_CACHE):
        (directory / name).symlink_to((home / name).resolve())
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    return directory


# Requests a build of a tarball, and reports how many steps of the compilation are done.
_BUILDER = """
import sys
from pathlib import Path
from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec

def tell(step):
    if step.doing == "compilation":
        print(step.done, step.total, flush=True)

with Journal() as journal:
    ensure_build(BuildSpec("18", "8kB", "8kB"), journal, local=Path(sys.argv[1]), progress=tell)
"""
# A tool of the build that runs as long as a file exists.
_HELD = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    while (access("%s", F_OK) == 0) usleep(10000);
    FILE *file = fopen(argv[argc - 1], "w");
    fputs("made\\n", file);
    return 0;
}
"""


def test_a_killed_build_leaves_nothing_that_looks_finished(own_home: Path, tmp_path: Path) -> None:
    hold = own_home / "hold"
    hold.touch()
    tarball = tiny_postgres.write_tarball(tmp_path, maker=_HELD % hold)
    with subprocess.Popen([sys.executable, "-c", _BUILDER, tarball], stdout=subprocess.PIPE, text=True) as builder:
        assert builder.stdout is not None
        steps = (map(int, line.split()) for line in builder.stdout)
        assert any(done == total - 1 for done, total in steps)  # the step that does not end is left
        builder.kill()
    assert list_builds() == []
    told = recover()
    assert any("build of PostgreSQL" in line for line in told)  # ninja was still running
    assert list(work_directory().iterdir()) == []
    hold.unlink()
    with Journal() as journal:
        build = ensure_build(BuildSpec("18", "8kB", "8kB"), journal, local=tarball)
    assert build.manifest["reported"] == "postgres (PostgreSQL) 18.99"  # and the next one succeeds


def test_two_separate_builds_are_the_same_byte_for_byte(builds: dict[str, Build], empty_home: Path) -> None:
    """More than a minute: PostgreSQL is configured, linked and installed once more, with the source and the compiler
    cache of the others."""
    with Journal() as journal:
        apart = ensure_build(BuildSpec("18", "8kB", "8kB"), journal)
    here = builds["8kB"]
    assert apart.prefix != here.prefix
    assert apart.manifest["files"] == here.manifest["files"]
    shutil.rmtree(empty_home)


@in_thorough_tests
def test_what_ships_about_the_sizes_gives_the_builds_of_the_sources(builds: dict[str, Build], journal: Journal) -> None:
    """Minutes: PostgreSQL is compiled without the compiler cache, and everything compared with the shared tree's."""
    assert shipped("18.6")
    spec = BuildSpec("18", "4kB", "16kB")
    assert builds["4kB"].manifest["version"] == "18.6"
    assert prove(spec, journal).differing == ()


def test_two_who_ask_at_once_get_one_build(empty_home: Path, tmp_path: Path) -> None:
    compiled: list[str] = []
    found: list[Build] = []
    tarball = tiny_postgres.write_tarball(tmp_path)

    def ask(name: str) -> None:
        with Journal() as journal:
            spec = BuildSpec("18", "8kB", "8kB")
            found.append(ensure_build(spec, journal, local=tarball, progress=lambda step: compiled.append(name)))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(set(compiled)) == 1  # the second one waited, and compiled nothing
    shutil.rmtree(empty_home)


def test_a_source_that_is_none_fails_with_one_line(empty_home: Path) -> None:
    broken = empty_home / "postgresql-18.6.tar.bz2"
    broken.write_bytes(b"no tarball")
    with Journal() as journal, pytest.raises(OctavoError, match="cannot be unpacked"):
        ensure_build(BuildSpec("18", "8kB", "8kB"), journal, local=broken)
    assert list_builds() == []
    shutil.rmtree(empty_home)
