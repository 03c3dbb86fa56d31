"""pg_amcheck: every table and B-tree index is checked, and each index against its table."""

from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.sandbox import Sandbox, first

# Of indexes it checks B-trees alone.
_CHECKED = """
    SELECT count(*) FROM pg_class LEFT JOIN pg_am ON pg_am.oid = relam
    WHERE relkind IN ('r', 't') OR relkind = 'i' AND amname = 'btree'
"""


def _check(sandbox: Sandbox) -> OperationEvidence:
    with sandbox.serve(sandbox.copy("data")) as server:
        contents.write(server, 400)
        children.check(
            server.run_client("pg_amcheck", "--all", "--install-missing", "--heapallindexed", "--parent-check"),
            "pg_amcheck",
        )
        relations: int = first(server, _CHECKED)
    return OperationEvidence(
        f"{relations} tables and B-trees are sound, and all rows are in their B-trees",
        {"relations": relations},
    )


OPERATION = Operation("pg_amcheck", _check)
