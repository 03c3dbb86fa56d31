"""The list of runs, read without SQLAlchemy, whose import alone takes longer than this answer may (0.3 s)."""

import sqlite3
from pathlib import Path
from typing import Any

from octavo.errors import OctavoError, UsageError
from octavo.host.journal import is_owned

_QUERY = """
SELECT run.id, run.name, run.status, run.token, run.started, run.ended,
       count(trial.id) AS trials, coalesce(sum(trial.status = 'ok'), 0) AS ok
FROM run LEFT JOIN trial ON trial.run = run.id
GROUP BY run.id
ORDER BY run.started DESC, run.id DESC
"""


def list_runs(path: Path) -> list[dict[str, Any]]:
    """The runs, newest first, each with `id`, `name`, `status`, `started`, `ended`, `trials` and `ok`.

    A run that is marked as running but whose process is gone is `interrupted`.
    """
    if not path.exists():
        return []
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute(_QUERY)]
        connection.close()
    except sqlite3.Error as error:
        raise OctavoError(f"the store {path} cannot be read: {error}") from error
    for row in rows:
        token = row.pop("token")
        if row["status"] == "running" and not is_owned(token):
            row["status"] = "interrupted"
    return rows


def find_run(path: Path, wanted: str) -> str:
    """The id of the one run that the text begins; `last` is the newest. Raises OctavoError naming what there is."""
    ids = [row["id"] for row in list_runs(path)]
    if not ids:
        raise UsageError("there is no run yet; start one with: octavo run oltp-blocks-demo")
    if wanted == "last":
        return ids[0]
    found = [wanted] if wanted in ids else [identifier for identifier in ids if identifier.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    problem = "more than one run begins with" if found else "no run"
    raise UsageError(f"{problem} {wanted!r}; the newest is {ids[0]}; octavo runs lists them")
