"""The cache of builds, with empty builds: sizes, last use, choosing, removing."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from octavo.cli import build_cache
from octavo.cli.choices import TableFormat
from octavo.errors import HostError, OctavoError, UsageError
from octavo.host import trees
from octavo.host.journal import Journal
from octavo.host.lock import host_lock
from octavo.postgres.builds import make, usage, worker_client
from octavo.postgres.builds.cache import Build, list_builds, read_build

DAY = 86400.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path / "builds"


def make_build(cache: Path, name: str, data_block: str = "8kB", version: str = "18.6", days_ago: float = 0) -> Build:
    (cache / name / "bin").mkdir(parents=True)
    (cache / name / "bin" / "own").write_bytes(b"x" * 10_000)
    manifest = cache / name / "manifest.json"
    facts = {
        "version": version,
        "origin": "a test",
        "data_block": data_block,
        "wal_block": "8kB",
        "data_segment": "4GB",
    }
    manifest.write_text(json.dumps({**facts, "compiler_command": "clang-14", "options": ["-Dcassert=true"]}))
    used = time.time() - days_ago * DAY
    os.utime(manifest, times=(used, used))
    build = read_build(name)
    assert build is not None
    return build


def names(builds: list[Build]) -> list[str]:
    return [build.name for build in builds]


def test_what_builds_share_is_counted_once_and_told(cache: Path) -> None:
    one, two = make_build(cache, "one"), make_build(cache, "two")
    alone = usage.usage_of(one)
    assert alone.shared == 0
    assert alone.size >= 10_000
    (one.prefix / "bin" / "common").write_bytes(b"y" * 100_000)
    os.link(one.prefix / "bin" / "common", two.prefix / "bin" / "common")
    common = usage.usage_of(one).size - alone.size
    assert common >= 100_000
    assert usage.usage_of(one).shared == usage.usage_of(two).shared == common
    assert usage.size_together([one, two]) == 2 * alone.size + common
    assert usage.size_freed([one]) == alone.size
    assert usage.size_freed([one, two]) == usage.size_together([one, two])


def test_a_use_is_remembered(cache: Path) -> None:
    build = make_build(cache, "one", days_ago=40)
    assert names(usage.choose([], unused_seconds=30 * DAY)) == ["one"]
    usage.note_use(build)
    assert time.time() - usage.usage_of(build).last_used < 60
    assert usage.choose([], unused_seconds=30 * DAY) == []


def test_builds_are_chosen_by_name_or_by_every_condition(cache: Path) -> None:
    make_build(cache, "18-4", "4kB")
    make_build(cache, "18-8", "8kB", days_ago=3)
    make_build(cache, "17-4", "4kB", version="17.11")
    assert names(usage.choose(["18-8", "18-4", "18-8"])) == ["18-8", "18-4"]
    assert names(usage.choose([], data_block="4kB")) == ["17-4", "18-4"]
    assert names(usage.choose([], data_block="4kB", version="18")) == ["18-4"]
    assert names(usage.choose([], version="1")) == []  # a version prefix must not end in the middle of a number
    assert names(usage.choose([], unused_seconds=2 * DAY, data_block="4kB")) == []
    assert names(usage.choose([], unused_seconds=0)) == ["17-4", "18-4", "18-8"]


@pytest.mark.parametrize("wrong", [[], ["nothing"], ["../18-4"], [".18-4.lock"]])
def test_nothing_or_what_does_not_exist_is_no_choice(cache: Path, wrong: list[str]) -> None:
    make_build(cache, "18-4", "4kB")
    with pytest.raises(UsageError):
        usage.choose(wrong)
    with pytest.raises(UsageError, match="not both"):
        usage.choose(["18-4"], data_block="4kB")


def test_a_removed_build_is_gone_whole(cache: Path) -> None:
    build, other = make_build(cache, "one"), make_build(cache, "two")
    size = usage.usage_of(build).size
    with Journal() as journal:
        assert usage.remove(build, journal) == size
    assert list_builds() == [other]
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == ["two"]


def test_a_build_that_is_gone_already_is_no_error(cache: Path) -> None:
    build = make_build(cache, "one")
    with Journal() as journal:
        usage.remove(build, journal)
        assert usage.remove(build, journal) == 0


def test_a_build_that_goes_while_others_are_made_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_build(cache, "one")
    planned = [SimpleNamespace(name=name, family="family") for name in ("one", "gone")]

    def plan_builds(*_: object) -> list[SimpleNamespace]:
        return planned

    def ensure_family(*_: object) -> None:
        """All was there when it was looked at."""

    monkeypatch.setattr(make, "plan_builds", plan_builds)
    monkeypatch.setattr(make, "_ensure_family", ensure_family)
    with Journal() as journal, pytest.raises(OctavoError, match="gone was removed meanwhile"):
        make.ensure_builds([], journal)


def test_a_removal_that_is_stopped_half_way_leaves_no_build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = make_build(cache, "one")

    def stop(_path: Path) -> None:
        raise KeyboardInterrupt

    with Journal() as journal:
        with monkeypatch.context() as patched:
            patched.setattr(trees, "remove", stop)
            with pytest.raises(KeyboardInterrupt):
                usage.remove(build, journal)
        assert list_builds() == []
        assert [path.name for path in cache.iterdir() if "removed" in path.name]
    assert not [path.name for path in cache.iterdir() if "removed" in path.name]


def test_a_build_that_a_program_runs_from_stays(cache: Path) -> None:
    build = make_build(cache, "one")
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, build.program("postgres"))
    with subprocess.Popen([build.program("postgres"), "60"]) as server:
        try:
            with Journal() as journal, pytest.raises(OctavoError, match=f"process {server.pid} runs from it"):
                usage.remove(build, journal)
        finally:
            server.kill()
    assert list_builds() == [build]


def test_a_build_that_is_being_made_stays(cache: Path) -> None:
    build = make_build(cache, "one")
    with (cache / ".one.lock").open("w") as lock, Journal() as journal:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OctavoError, match="being made or changed"):
            usage.remove(build, journal)
    assert list_builds() == [build]


def test_a_dry_run_says_what_would_go(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_build(cache, "four", "4kB")
    make_build(cache, "eight", "8kB")
    build_cache.remove_builds(data_block="4kB", dry_run=True)
    said = capsys.readouterr().out
    assert "would remove four\n1 of 1 would be removed" in said
    assert len(list_builds()) == 2


def test_builds_of_ones_own_source_are_chosen_by_their_version(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("16.9", "19devel"):
        make_build(cache, version, version=version)
        build_cache.remove_builds(pg=version[:2], dry_run=True)
        assert f"would remove {version}\n1 of 1 would be removed" in capsys.readouterr().out


def test_no_build_goes_while_a_run_measures(cache: Path) -> None:
    make_build(cache, "one")
    with pytest.raises(HostError, match="is measuring on this host"), host_lock():
        build_cache.remove_builds(["one"])
    assert len(list_builds()) == 1


def test_the_listing_keeps_its_contract(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = make_build(cache, "one", "4kB")
    (build.prefix / "extensions").mkdir()
    (build.prefix / "extensions" / "ip4r.json").write_text('{"name": "ip4r", "version": "2.4", "files": {}}')
    build_cache.list_cache(TableFormat.json)
    (row,) = json.loads(capsys.readouterr().out)
    expected = {
        "version": "18.6", "data_block": "4kB", "wal_block": "8kB", "path": str(build.prefix), "name": "one",
        "data_segment": "4GB", "compiler": "clang-14", "asserts": True,
    }  # fmt: skip
    assert row.items() >= expected.items()
    assert row["bytes"] == usage.usage_of(build).size
    assert row["bytes_shared"] == 0
    assert row["extensions"] == [{"name": "ip4r", "version": "2.4", "problem": None}]
    assert row["last_used"].endswith("Z")
    build_cache.list_cache(TableFormat.text)
    text = capsys.readouterr().out
    assert "with clang-14, segments of 4GB, assertions, ip4r 2.4" in text
    assert "1 build," in text


def test_an_empty_cache_says_how_to_fill_it(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_cache.list_cache(TableFormat.text)
    assert "octavo build --data-block 4kB" in capsys.readouterr().out
    with pytest.raises(OctavoError, match="make it with: octavo build --data-block 2kB --wal-block 8kB --pg 18"):
        build_cache.print_path("2kB", "8kB", "18", None)
    with pytest.raises(UsageError, match="--data-block"):
        build_cache.print_path("3kB", "8kB", "18", None)


def test_a_path_with_odd_characters_survives_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "it's $HOME"))
    build = make_build(tmp_path / "it's $HOME" / "builds", "one")
    build_cache.print_environment("8kB", "8kB", "18", "one")
    line = capsys.readouterr().out
    answer = subprocess.run(
        ["sh", "-c", f'{line}\nprintf %s "$PATH"'], env={"PATH": "/bin"}, capture_output=True, text=True, check=True
    )
    assert answer.stdout == f"{build.prefix}/bin:/bin"


# Becomes the program, so it needs a process of its own.
_EXECUTE = """
import sys
from octavo.cli.build_cache import execute
execute(sys.argv[1:], "8kB", "8kB", "18", "one")
"""


def test_exec_becomes_the_program(cache: Path) -> None:
    build = make_build(cache, "one")
    build.program("psql").write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    build.program("psql").chmod(0o755)
    answer = subprocess.run(
        [sys.executable, "-c", _EXECUTE, "psql", "-c", "select 1"], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (7, "-c select 1\n")
    # Python ignores SIGPIPE; the program may not inherit that (signal 13 is bit 12 of SigIgn, proc_pid_status(5)).
    status = subprocess.run(
        [sys.executable, "-c", _EXECUTE, "cat", "/proc/self/status"], capture_output=True, text=True, check=True
    ).stdout
    (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")]
    assert not int(ignored, 16) & 1 << 12


def test_old_compiler_caches_go_while_another_command_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is listed under its first name, and has its own by the time that it is looked at."""
    names = [str(number) for number in range(9)]
    for name in names:
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "3", (0, 0))
    every = [tmp_path / ".made", *sorted(tmp_path.iterdir())]
    monkeypatch.setattr(Path, "iterdir", Mock(return_value=every))
    worker_client._forget_old(tmp_path)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name for name in names if name != "3"]
