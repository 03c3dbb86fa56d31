"""pg_basebackup: taken, verified, started, compared; and one on top of another, combined."""

from octavo.host import children, trees
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.related_builds import Skip
from octavo.operations.sandbox import Sandbox, first
from octavo.postgres.versions import major_of


def _check(sandbox: Sandbox) -> OperationEvidence:
    backup = sandbox.work_directory / "backup"
    with sandbox.serve(sandbox.copy("data")) as server:
        contents.write(server, 200)
        expected = contents.read(server)
        children.check(
            server.run_client("pg_basebackup", "--checkpoint=fast", "--no-sync", "--pgdata", str(backup)),
            "pg_basebackup",
        )
    children.check(sandbox.run(sandbox.build, "pg_verifybackup", backup), "pg_verifybackup")
    with sandbox.serve(backup) as restored:
        same = contents.check_same(expected, contents.read(restored), "the restored backup")
        contents.write(restored, 200)
    return OperationEvidence(f"backup verified by pg_verifybackup and started: {same}")


def _check_incremental(sandbox: Sandbox) -> OperationEvidence:
    if major_of(sandbox.build.manifest["version"]) < 17:
        raise Skip("incremental backups need PostgreSQL 17")
    full, increment, combined = (sandbox.work_directory / name for name in ("full", "increment", "combined"))
    with sandbox.serve(sandbox.copy("data"), settings={"summarize_wal": "on"}) as server:
        take = ("pg_basebackup", "--checkpoint=fast", "--no-sync", "--pgdata")
        children.check(server.run_client(*take, str(full)), "pg_basebackup")
        contents.write(server, 200)
        expected = contents.read(server)
        children.check(
            server.run_client(*take, str(increment), "--incremental", str(full / "backup_manifest")),
            "pg_basebackup --incremental",
        )
        size: int = first(server, "SELECT pg_database_size(current_database())")
    changed = trees.file_bytes(increment / "base")
    children.check(
        sandbox.run(sandbox.build, "pg_combinebackup", full, increment, "--no-sync", "--output", combined), "combining"
    )
    children.check(sandbox.run(sandbox.build, "pg_verifybackup", combined), "pg_verifybackup")
    with sandbox.serve(combined) as restored:
        same = contents.check_same(expected, contents.read(restored), "the combined backup")
    return OperationEvidence(
        f"{changed / 1024**2:.1f} MB of changes combined with the full backup, verified and started: {same}",
        {"increment_bytes": changed, "database_bytes": size},
    )


OPERATION = Operation("pg_basebackup", _check)
INCREMENTAL = Operation("incremental backup", _check_incremental)
