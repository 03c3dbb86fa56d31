"""Migration by pg_dump and pg_restore: to this data block from another one, and back, timed."""

import time
from collections.abc import Callable

from octavo.host import children, trees
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.sandbox import DURABLE, Sandbox
from octavo.postgres.builds.cache import Build

_JOBS = "--jobs=2"
_MB = 1024**2


def _check_to(sandbox: Sandbox) -> OperationEvidence:
    return _move(sandbox, sandbox.related_builds.need_another_data_block(), sandbox.build)


def _check_back(sandbox: Sandbox) -> OperationEvidence:
    return _move(sandbox, sandbox.build, sandbox.related_builds.need_another_data_block())


def _move(sandbox: Sandbox, source_build: Build, target_build: Build) -> OperationEvidence:
    """Dumps with the programs of the target, as PostgreSQL's documentation advises, and restores."""
    filled = sandbox.filled(source_build)
    dump = sandbox.work_directory / "dump"
    with sandbox.serve(sandbox.copy("source", source_build), source_build, DURABLE) as source:
        environment = source.client_environment()

        def take() -> None:
            children.check(
                children.run(
                    [target_build.program("pg_dump"), "--format=directory", _JOBS, "--file", dump],
                    sandbox.journal, role="pg_dump", account=sandbox.account, directory=sandbox.work_directory,
                    environment=environment,
                ),
                "pg_dump",
            )  # fmt: skip

        dump_seconds = _timed(take)
    with sandbox.serve(sandbox.empty("target", target_build), target_build, DURABLE) as target:

        def restore() -> None:
            # With --create also the properties of the database, as docs/switching.md advises.
            children.check(
                target.run_client("pg_restore", _JOBS, "--exit-on-error", "--create", "--dbname=postgres", str(dump)),
                "pg_restore",
            )

        def analyse() -> None:
            children.check(target.run_client("vacuumdb", "--analyze-only", "--quiet", _JOBS), "vacuumdb")

        restore_seconds, analyse_seconds = _timed(restore), _timed(analyse)
        same = contents.check_same(filled.contents, contents.read(target), "the restored database")
        contents.write(target, 200)
        target_bytes: int = target.query("size")[0]["bytes"]
    seconds = dump_seconds + restore_seconds + analyse_seconds
    rate = filled.database_bytes / _MB / seconds
    return OperationEvidence(
        f"{source_build.manifest['data_block']} to {target_build.manifest['data_block']} data blocks: "
        f"{filled.database_bytes / _MB:.0f} MB dumped in {dump_seconds:.1f} s, restored in {restore_seconds:.1f} s, "
        f"analyzed in {analyse_seconds:.1f} s: {rate:.0f} MB/s in all; {same}",
        {
            "database_bytes": filled.database_bytes,
            "dump_bytes": trees.file_bytes(dump),
            "target_database_bytes": target_bytes,
            "dump_seconds": dump_seconds,
            "restore_seconds": restore_seconds,
            "analyze_seconds": analyse_seconds,
        },
    )


def _timed(action: Callable[[], None]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


TO = Operation("dump and restore, to this data block", _check_to)
BACK = Operation("dump and restore, back", _check_back)
