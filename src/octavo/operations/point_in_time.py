"""Point-in-time recovery: a base backup and archived WAL, recovered to the moment before the damage."""

from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.program_output import shell_word
from octavo.operations.sandbox import Sandbox, first, wait_for


def _check(sandbox: Sandbox) -> OperationEvidence:
    archive, backup = sandbox.directory("archive"), sandbox.work_directory / "backup"
    settings = {"archive_mode": "on", "archive_command": f'cp "%p" {shell_word(archive)}/"%f"'}
    with sandbox.serve(sandbox.copy("data"), settings=settings) as server:
        children.check(
            server.run_client("pg_basebackup", "--checkpoint=fast", "--no-sync", "--pgdata", str(backup)),
            "pg_basebackup",
        )
        contents.write(server, 300)
        expected = contents.read(server)
        moment: str = first(server, "SELECT clock_timestamp()::text")
        server.execute("DROP TABLE documents; UPDATE pgbench_accounts SET abalance = 0 WHERE aid % 2 = 0")
        last: str = first(server, "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
        server.execute("SELECT pg_switch_wal()")
        wait_for(
            "the WAL to be archived",
            lambda: first(server, "SELECT last_archived_wal >= %s FROM pg_stat_archiver", last),
        )
    sandbox.act("touch", backup / "recovery.signal")
    recovery = {
        "restore_command": f'cp {shell_word(archive)}/"%f" "%p"',
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
    }
    with sandbox.serve(backup, settings=recovery) as recovered:
        seconds = wait_for("the recovery to end", lambda: not first(recovered, "SELECT pg_is_in_recovery()"))
        same = contents.check_same(expected, contents.read(recovered), "the recovered server")
        contents.write(recovered, 200)
    return OperationEvidence(
        f"a table dropped, half of another changed; recovered to {moment}: {same}", {"recovery_seconds": seconds}
    )


OPERATION = Operation("point-in-time recovery", _check)
