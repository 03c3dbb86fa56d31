"""The remedy of a finding, line by line, for a running or a stopped server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from octavo.doctor.facts import Facts, RuleFacts
from octavo.postgres.setting_line import Setting


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement that only a running server can execute; omitted for a stopped one."""

    text: str


# A text line is for a shell or a file, or a comment.
Line = str | Setting | Sql

# The fact that names the managed service of a server.
MANAGED = "server.managed"
RELOAD = Sql("SELECT pg_reload_conf();")
# How to find a server's systemd unit: postgresql.service may be only a target (Debian) or another server's.
EDIT_UNIT = "# systemctl edit $(ps -o unit= -p $(head -1 $PGDATA/postmaster.pid))"

# Sources in pg_settings that take precedence over postgresql.conf and ALTER SYSTEM.
_FIRST = {
    "command line": "on the server's command line (by Patroni, for example)",
    "environment variable": "by the server's environment",
    "database": "by ALTER DATABASE",
    "user": "by ALTER ROLE",
    "database user": "by ALTER ROLE IN DATABASE",
}


def alter(name: str, value: str) -> Setting:
    """The line that sets the parameter."""
    return Setting(name, value)


def service_of(asked: RuleFacts) -> str | None:
    """The managed service of the server, with its term for a setting; None elsewhere.

    The role that identifies it may come from a dump: on a host that can be examined it proves nothing.
    """
    if asked.has("host.memory.page_bytes") or not asked.has(MANAGED):
        return None
    found = asked.value(MANAGED)
    return found if isinstance(found, str) else None


def refuses_alter_system(facts: Facts) -> bool:
    """Whether settings are to be changed in postgresql.conf (allow_alter_system, 17 and later)."""
    return facts["setting.allow_alter_system"].value is False


def on_the_host(asked: RuleFacts) -> tuple[str, ...]:
    """A comment for a container, whose /sys and /proc/sys are read-only: its host has to change the kernel's
    settings."""
    container = asked.text_or_none("host.container")
    return (f"# on the host of this container ({container}):",) if container else ()


def written(
    lines: Iterable[Line],
    *,
    running: bool,
    in_file: bool = False,
    sources: Mapping[str, str] | None = None,
    managed: str | None = None,
) -> list[str]:
    """The lines in the form to use: a setting is a statement for a running server, else a line of postgresql.conf, also
    with `in_file`, when the server refuses the statement (allow_alter_system = off).

    `managed` names the managed service and its term for a setting; there neither form is possible.

    `sources`: the sources of settings (pg_settings). A comment is added when neither form would take effect.

    >>> fix = (Setting("work_mem", "4MB"), RELOAD, "# more where it is needed")
    >>> written(fix, running=True)
    ["ALTER SYSTEM SET work_mem = '4MB';", 'SELECT pg_reload_conf();', '# more where it is needed']
    >>> written(fix, running=False)
    ['work_mem = 4MB   # postgresql.conf', '# more where it is needed']
    >>> written(fix[:2], running=True, in_file=True)
    ['work_mem = 4MB   # postgresql.conf', 'SELECT pg_reload_conf();']
    >>> written(fix[:1], running=True, sources={"work_mem": "user"})
    ['# work_mem is set by ALTER ROLE, which takes precedence: change it there', "ALTER SYSTEM SET work_mem = '4MB';"]
    >>> written(fix[:2], running=True, managed="Google Cloud SQL: database flag")
    ['work_mem = 4MB   # Google Cloud SQL: database flag']
    """
    found: list[str] = []
    for line in lines:
        if isinstance(line, Setting):
            if by := _FIRST.get((sources or {}).get(line.name, "")):
                found.append(f"# {line.name} is set {by}, which takes precedence: change it there")
            if managed:
                found.append(f"{line.conf}   # {managed}")
                continue
            found.append(line.sql if running and not in_file else f"{line.conf}   # postgresql.conf")
        elif isinstance(line, str):
            found.append(line)
        elif running and not (managed and line == RELOAD):
            found.append(line.text)
    return found
