"""Operations without servers: which build is chosen as a partner, what counts as the same, the programs' output."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from octavo.cli import build_operations
from octavo.cli.choices import TableFormat
from octavo.errors import HostError, OctavoError
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal
from octavo.operations import OPERATIONS, OperationsReport, check_operations, streaming_replica
from octavo.operations.base import Operation, OperationEvidence, OperationOutcome
from octavo.operations.contents import Contents, check_same
from octavo.operations.pg_checksums import damage
from octavo.operations.program_output import last_line, server_errors, shell_word
from octavo.operations.related_builds import Skip, choose
from octavo.operations.sandbox import Sandbox, wait_for
from octavo.postgres.builds import cross
from octavo.postgres.builds.cache import Build


def made(version: str, data_block: str, wal_block: str, **more: Any) -> Build:
    name = f"{version}-{data_block}-{wal_block}-{'-'.join(map(str, more.values()))}"
    manifest: dict[str, Any] = {"version": version, "data_block": data_block, "wal_block": wal_block, "options": []}
    return Build(name, Path("/nowhere") / name, {**manifest, **more})


OURS = made("18.6", "4kB", "8kB")


def test_companions_differ_in_what_they_are_for_and_in_nothing_else() -> None:
    data, wal = made("18.6", "8kB", "8kB"), made("18.6", "4kB", "16kB")
    older, older_minor = made("17.11", "4kB", "8kB"), made("18.5", "4kB", "8kB")
    both = made("18.6", "8kB", "16kB")
    others = [OURS, both, made("17.11", "8kB", "8kB"), made("16.9", "4kB", "8kB"), data, wal, older, older_minor]
    found = choose(OURS, others)
    assert found.need_another_data_block() is data
    assert found.need_another_wal_block() is wal
    assert found.need_older_major() is older
    assert found.need_same_major() is older_minor


def test_companions_are_like_the_build_and_then_near_the_default() -> None:
    asserts = made("18.6", "8kB", "8kB", options=["-Dcassert=true"])
    far, near = made("18.6", "32kB", "8kB"), made("18.6", "16kB", "8kB")
    assert choose(OURS, [asserts, far, near]).another_data_block is near
    assert choose(OURS, [asserts]).another_data_block is asserts


def test_a_build_for_another_machine_is_no_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs cannot be executed, which would be reported as a failure of the build that is tested."""
    compiler = "aarch64-linux-gnu-gcc" if os.uname().machine != "aarch64" else "x86_64-linux-gnu-gcc"
    foreign = [made(version, "8kB", "8kB", compiler_command=compiler) for version in ("18.6", "17.11")]
    own = made("18.6", "8kB", "16kB")
    monkeypatch.setattr(cross, "runs_here", Mock(return_value=False))
    assert choose(own, foreign).another_wal_block is choose(foreign[0], foreign[1:]).older_major is None
    monkeypatch.setattr(cross, "runs_here", Mock(return_value=True))
    assert choose(own, foreign).another_wal_block is foreign[0]


def test_another_data_segment_makes_other_sizes() -> None:
    # A build from before data segments were a factor has the default one.
    assert choose(OURS, [made("17.11", "4kB", "8kB", data_segment="4GB")]).older_major is None
    assert choose(OURS, [made("17.11", "4kB", "8kB", data_segment="1GB")]).older_major is not None


def test_no_newer_build_is_the_old_one_of_an_update() -> None:
    assert choose(OURS, [made("18.7", "4kB", "8kB")]).same_major is None


def test_a_build_before_its_release_is_no_minor_version() -> None:
    beta, tree = made("18beta2", "4kB", "8kB"), made("19devel", "4kB", "8kB")
    assert choose(OURS, [beta, tree]).same_major is None
    assert choose(tree, [OURS, beta]).need_older_major() is OURS
    asserts = made("19devel", "4kB", "8kB", options=["-Dcassert=true"])
    assert choose(tree, [OURS, asserts]).need_same_major() is asserts
    with pytest.raises(Skip, match=r"--pg 19devel --debug-symbols --source ITS_SOURCE$"):
        choose(tree, [OURS]).need_same_major()


@pytest.mark.parametrize(
    ("need", "command"),
    [
        ("need_another_data_block", "octavo build --data-block 8kB --wal-block 8kB --pg 18.6"),
        ("need_another_wal_block", "octavo build --data-block 4kB --wal-block 16kB --pg 18.6"),
        ("need_older_major", "octavo build --data-block 4kB --wal-block 8kB --pg 17"),
        ("need_same_major", "octavo build --data-block 4kB --wal-block 8kB --pg 18.5"),
    ],
)
def test_a_missing_companion_is_skipped_with_the_command_that_makes_it(need: str, command: str) -> None:
    with pytest.raises(Skip) as skip:
        getattr(choose(OURS, [OURS]), need)()
    assert str(skip.value).endswith(f"make one with: {command}")
    large = made("18.6", "4kB", "8kB", data_segment="4GB")
    with pytest.raises(Skip) as skip:
        getattr(choose(large, [large]), need)()
    assert str(skip.value).endswith(f"make one with: {command.replace(' --pg', ' --data-segment 4GB --pg')}")


@pytest.mark.parametrize(
    ("version", "need", "ends"),
    [
        ("17.11", "need_older_major", "--pg 15"),  # as octavo build makes no 16
        ("15.18", "need_older_major", "--pg 14 --source ITS_SOURCE"),
        ("18.0", "need_same_major", "--pg 18.0 --debug-symbols"),  # and not this very build
        ("16.9", "need_another_data_block", "--pg 16.9 --source ITS_SOURCE"),
    ],
)
def test_the_command_that_is_named_makes_what_is_missing(version: str, need: str, ends: str) -> None:
    build = made(version, "4kB", "8kB")
    with pytest.raises(Skip) as skip:
        getattr(choose(build, []), need)()
    assert str(skip.value).endswith(ends)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"a": (3, "11"), "b": (1, "5")}, None),
        ({"a": (3, "11")}, "table b is missing"),
        ({"a": (2, "11"), "b": (1, "5")}, "table a has 2 rows instead of 3"),
        ({"a": (3, "12"), "b": (1, "5")}, "table a has as many rows (3), but other ones: digests differ"),
        ({"a": (3, "11"), "b": (1, "5"), "c": (0, "0")}, "there is a table c that should not be"),
    ],
)
def test_contents_that_differ_are_told_by_the_table(found: dict[str, tuple[int, str]], told: str | None) -> None:
    expected = Contents({"a": (3, "11"), "b": (1, "5")})
    if told is None:
        assert check_same(expected, Contents(found), "the copy") == "4 rows of 2 tables are the same"
        return
    with pytest.raises(OctavoError) as error:
        check_same(expected, Contents(found), "the copy")
    assert str(error.value) == f"the copy: {told}"


def test_a_refusal_is_told_without_times_and_pids() -> None:
    log = (
        "2026-01-01 00:00:00.000 UTC [7] postmaster FATAL:  database files are incompatible with server\n"
        "2026-01-01 00:00:00.000 UTC [7] postmaster DETAIL:  It was 1, but is 2.\n"
        "2026-01-01 00:00:00.000 UTC [7] postmaster LOG:  database system is shut down\n"
    )
    assert server_errors(log) == "FATAL: database files are incompatible with server DETAIL: It was 1, but is 2."


def test_a_complaint_is_the_last_line_that_tells_something() -> None:
    assert last_line(Finished(1, "one\nsizes do not match\nFailure, exiting\n\n", "", 0)) == "sizes do not match"
    assert last_line(Finished(1, "out", "error\n", 0)) == "error"
    assert last_line(Finished(1, "", "", 0)) == "no output"


def test_a_path_in_an_archive_command_is_one_word_and_no_placeholder() -> None:
    assert shell_word(Path("/a b/%f")) == "'/a b/%%f'"


def test_damage_changes_one_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    damage(tmp_path, "file", 4096, Account("ourselves", os.geteuid(), os.getegid()))
    assert [offset for offset, byte in enumerate(path.read_bytes()) if byte] == [4096 + 500]


def test_waiting_ends() -> None:
    with pytest.raises(OctavoError, match=r"gave up after 0 s: godot"):
        wait_for("godot", lambda: False, patience_seconds=0.05)


@pytest.mark.parametrize(
    ("free", "reason", "is_full"),
    [
        (1 << 30, "pg_dump failed (exit 1): connection refused", False),
        (1 << 30, "copying failed (exit 1): cp: error writing 'base/5/1': No space left on device", True),
        (1 << 20, "pg_basebackup failed (exit 1): pg_basebackup: removing data directory", True),
    ],
)
def test_a_full_disk_is_no_failure_of_the_build(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, free: int, reason: str, is_full: bool
) -> None:
    sandbox = Sandbox(OURS, choose(OURS, []), journal, Account("ourselves", os.geteuid(), os.getegid()), tmp_path, 1)

    @contextmanager
    def operation(*_: object) -> Generator[None, None, None]:
        yield

    @contextmanager
    def prepared(*_: object) -> Generator[Sandbox, None, None]:
        yield sandbox

    def filled(_: Sandbox) -> None: ...

    def usage(_: object) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    def fails(_: Sandbox) -> OperationEvidence:
        raise OctavoError(reason)

    monkeypatch.setattr(Sandbox, "operation", operation)
    monkeypatch.setattr(Sandbox, "filled", filled)
    monkeypatch.setattr("octavo.operations.prepared", prepared)
    monkeypatch.setattr("octavo.operations.server_account", lambda: None)
    monkeypatch.setattr("octavo.operations.sandbox.shutil.disk_usage", usage)
    operations = [Operation("backup", fails)]
    if is_full:
        with pytest.raises(HostError, match=r"has no room left for backup .*; free some space"):
            check_operations(OURS, [], journal, operations=operations)
    else:
        report = check_operations(OURS, [], journal, operations=operations)
        assert [(one.result, one.evidence) for one in report.outcomes] == [("failed", reason)]


def test_a_disk_that_is_full_before_the_first_operation_is_no_failure(
    journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(_: Sandbox) -> None:
        raise OctavoError("filling the tables of pgbench failed (exit 1): No space left on device")

    monkeypatch.setattr(Sandbox, "filled", filled)
    monkeypatch.setattr("octavo.operations.sandbox.shutil.disk_usage", Mock(return_value=SimpleNamespace(free=1 << 40)))
    monkeypatch.setattr("octavo.operations.server_account", Mock(return_value=account))
    with pytest.raises(HostError, match="has no room left"):
        check_operations(OURS, [], journal)


def test_a_replica_is_stopped_also_when_the_load_on_its_primary_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory is removed with the operation's."""
    stopped: list[str] = []

    @contextmanager
    def running(name: str) -> Generator[str, None, None]:
        try:
            yield name
        finally:
            stopped.append(name)

    @contextmanager
    def load(*_: object) -> Generator[None, None, None]:
        yield
        raise OctavoError("pgbench stopped while it should write")

    sandbox: Any = Mock(serve=Mock(return_value=running("primary")), load=load)
    monkeypatch.setattr(streaming_replica, "_replica_of", Mock(return_value=running("replica")))
    with pytest.raises(OctavoError, match="pgbench stopped"):
        streaming_replica.OPERATION.check(sandbox)
    assert stopped == ["replica", "primary"]


def test_operations_have_names_of_their_own() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes every build's check end with this result."""
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))

    def report(result: Any) -> None:
        def check(build: Build, others: Any, journal: Any, *, on_outcome: Callable[[OperationOutcome], None]) -> Any:
            outcomes = (
                OperationOutcome("pg_checksums", "ok", 1.0, "8 blocks checked", {"blocks": 8}),
                OperationOutcome("[b] in brackets", result, 0.5, "the reason"),
            )
            for outcome in outcomes:
                on_outcome(outcome)
            return OperationsReport(build, outcomes)

        monkeypatch.setattr("octavo.operations.check_operations", check)

    return report


@pytest.mark.parametrize(("result", "code"), [("ok", 0), ("skipped", 0), ("failed", 1)])
def test_the_exit_code_says_whether_something_failed(
    reported: Callable[[str], None], result: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(result)
    with Journal() as journal:
        assert build_operations.check_operations([OURS], journal, TableFormat.text) == code
    printed = capsys.readouterr()
    assert "PostgreSQL 18.6 with 4kB data and 8kB WAL blocks" in printed.out
    assert "[b] in brackets" in printed.out
    assert f"{result:7}    0.5 s  [b] in brackets" in printed.err


def test_programs_get_json(reported: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    import json

    reported("failed")
    with Journal() as journal:
        build_operations.check_operations([OURS, OURS], journal, TableFormat.json)
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert [build["passed"] for build in document["builds"]] == [False, False]
    first, second = document["builds"][0]["operations"]
    assert first == {
        "name": "pg_checksums", "result": "ok", "seconds": 1.0, "evidence": "8 blocks checked", "figures": {"blocks": 8}
    }  # fmt: skip
    assert (second["result"], second["evidence"]) == ("failed", "the reason")
