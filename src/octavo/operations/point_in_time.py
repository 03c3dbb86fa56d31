"""Point-in-time recovery: a base backup and archived WAL, recovered to the moment before the damage."""

from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.ground import Ground, first, wait_for
from octavo.operations.words import in_command


def _check(ground: Ground) -> OperationEvidence:
    archive, backup = ground.directory("archive"), ground.place / "backup"
    settings = {"archive_mode": "on", "archive_command": f'cp "%p" {in_command(archive)}/"%f"'}
    with ground.serve(ground.copy("data"), settings=settings) as server:
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
    ground.act("touch", backup / "recovery.signal")
    recovery = {
        "restore_command": f'cp {in_command(archive)}/"%f" "%p"',
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
    }
    with ground.serve(backup, settings=recovery) as recovered:
        seconds = wait_for("the recovery to end", lambda: not first(recovered, "SELECT pg_is_in_recovery()"))
        same = contents.check_same(expected, contents.read(recovered), "the recovered server")
        contents.write(recovered, 200)
    return OperationEvidence(
        f"a table dropped, half of another changed; recovered to {moment}: {same}", {"recovery_seconds": seconds}
    )


OPERATION = Operation("point-in-time recovery", _check)
