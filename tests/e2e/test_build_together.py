"""`octavo build` on many sizes as a user runs it, on a source that compiles in seconds."""

import json
from pathlib import Path

import pytest
from tests.e2e.conftest import Octavo
from tests.integration import tiny_postgres

from octavo.home import make_directory

pytestmark = pytest.mark.beside


@pytest.fixture
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = make_directory(home / tmp_path.name)
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    return directory


def test_the_matrix_is_built_proved_and_listed(octavo: Octavo, own_home: Path, tmp_path: Path) -> None:
    tarball = tiny_postgres.write_tarball(tmp_path)
    ended = octavo("build", "--matrix", "--prove", "2", "--source", tarball)
    assert ended.returncode == 0, ended.stderr
    prefixes = ended.stdout.split()
    assert len(prefixes) == 42
    assert all(Path(prefix, "bin", "postgres").exists() for prefix in prefixes)
    assert "42 built in" in ended.stderr
    assert ended.stderr.count("proved 18.99-b") == 2
    again = octavo("build", "--matrix", "--source", tarball)
    assert "0 built in" in again.stderr
    assert "42 cached" in again.stderr
    assert again.stdout == ended.stdout
    row = octavo("build", "--matrix", "--data-block", "8kB", "--source", tarball)
    assert len(row.stdout.split()) == 7  # named builds are kept
    listed = json.loads(octavo("build", "ls", "--format", "json").stdout)
    assert {(row["data_block"], row["wal_block"]) for row in listed} > {("1kB", "64kB"), ("32kB", "1kB")}
    assert sorted(row["path"] for row in listed) == sorted(prefixes)


def test_a_refuted_build_ends_with_one_and_is_replaced(octavo: Octavo, own_home: Path, tmp_path: Path) -> None:
    tarball = tiny_postgres.write_tarball(tmp_path)
    sizes = ("--data-block", "4kB,8kB", "--source", tarball)
    first, _ = octavo("build", *sizes).stdout.split()
    program = Path(first, "bin", "sized_program")
    content = program.read_bytes()
    program.unlink()
    program.write_bytes(content + b"\0")
    ended = octavo("build", *sizes, "--prove", "2")
    assert ended.returncode == 1
    assert "REFUTED 18.99-b" in ended.stderr
    assert "bin/sized_program differ" in ended.stderr
    assert "2 builds from a shared tree were discarded and rebuilt from scratch" in ended.stderr
    assert octavo("build", *sizes, "--prove", "2").returncode == 0


def test_a_build_that_cannot_serve_fails_its_smoke_test_in_one_line(
    octavo: Octavo, own_home: Path, tmp_path: Path
) -> None:
    ended = octavo("build", "--smoke-test", "--source", tiny_postgres.write_tarball(tmp_path))
    assert ended.returncode != 0
    assert ended.stderr.splitlines()[-1].startswith("octavo: ")
    assert "initdb" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--data-block", "4kB,5kB"), "--data-block: invalid level '5kB'; allowed: 1kB, 2kB, 4kB, 8kB, 16kB, 32kB"),
        (("--wal-block", "128kB"), "--wal-block: invalid level '128kB'; allowed: 1kB"),
        (("--data-segment", "3GB"), "--data-segment: invalid level '3GB'; allowed: 1GB"),
        (("--pg", "9.6"), "--pg: invalid level '9'; allowed: 18, 17"),
        (("--prove", "-1"), "--prove"),
        (("--package", "rpm"), "--package"),
        (("--source", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_options_are_told_in_one_line(octavo: Octavo, home: Path, arguments: tuple[str, ...], part: str) -> None:
    ended = octavo("build", *arguments)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert part in ended.stderr


def test_a_missing_compiler_is_told_in_one_line(octavo: Octavo, own_home: Path, tmp_path: Path) -> None:
    ended = octavo("build", "--compiler", "no-such-cc", "--source", tiny_postgres.write_tarball(tmp_path))
    assert ended.returncode == 3
    assert "the compiler no-such-cc is missing" in ended.stderr


def test_what_does_not_compile_is_one_line_with_the_place_of_the_log(
    octavo: Octavo, own_home: Path, tmp_path: Path
) -> None:
    ended = octavo("build", "--source", tiny_postgres.write_tarball(tmp_path, plain="int plain(void) { return }\n"))
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "compilation of PostgreSQL 18.99 failed" in last
    assert Path(last.rpartition("see ")[2]).exists()
