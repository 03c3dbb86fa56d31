"""The roles of PostgreSQL's processes, from their titles.

A process shows its role from its start to its end whatever `update_process_title` is (PostgreSQL's
src/backend/utils/misc/ps_status.c, init_ps_display; the names: src/backend/utils/init/miscinit.c). The roles here are
those of pg_stat_activity's backend_type.
"""

import re

CLIENT = "client backend"
POSTMASTER = "postmaster"
# The backend of Octavo's instruments.
OURS = "octavo's own backend"
_TITLE = re.compile(r"^postgres: ")
_FIXED = (
    "checkpointer", "background writer", "walwriter", "autovacuum launcher", "autovacuum worker",
    "logical replication launcher", "walsummarizer", "archiver", "logger", "startup", "walreceiver", "walsender",
    "slotsync worker", "io worker", "parallel worker", "dead-end client backend",
)  # fmt: skip
# A client's title has its user, its database and its host; so has a walsender's, after the role.
_OF_A_CLIENT = re.compile(r" (\[local\]|\S+\(\d+\))( |$)")
_SPELLINGS = {
    "logical replication apply worker": "logical replication worker",
    "logical replication worker": "logical replication worker",
    "logical replication parallel apply worker": "logical replication worker",
    "logical replication tablesync worker": "logical replication worker",
}


def role_of(title: str, cluster_name: str = "") -> str | None:
    """The role of the process with this title, None if the title does not show one yet.

    >>> role_of("postgres: io worker 2"), role_of("postgres: 18/main: checkpointer ", "18/main")
    ('io worker', 'checkpointer')
    >>> role_of("postgres: app shop [local] idle"), role_of("/usr/lib/postgresql/18/bin/postgres -D /data")
    ('client backend', None)
    """
    words = title.replace("\0", " ").strip()
    if not _TITLE.match(words):
        return None
    words = _TITLE.sub("", words)
    if cluster_name:
        words = words.removeprefix(f"{cluster_name}: ")
    for start, role in _SPELLINGS.items():
        if words.startswith(start):
            return role
    is_client = _OF_A_CLIENT.search(words) is not None
    for role in _FIXED:
        # A user may be called logger.
        if words == role or (words.startswith(role + " ") and (role == "walsender" or not is_client)):
            return role
    # An extension's worker has its own name.
    return CLIENT if is_client else "background worker"
