"""Restoring a user's pg_dump archive: custom or directory format with pg_restore, plain SQL with psql."""

import re
from collections.abc import Iterable
from pathlib import Path

from psycopg import sql

from octavo import archives
from octavo.errors import OctavoError, UsageError
from octavo.host.kernel_text import shown
from octavo.host.safe_read import lines_of
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.versions import major_of
from octavo.workload_support import files

# pg_dump's custom format begins with it (pg_backup_archiver.c), a directory has this file; all else is SQL.
_CUSTOM = b"PGDMP"
_TABLE_OF_CONTENTS = "toc.dat"
_TAR = (b"toc.dat", b"ustar")
# Who owns what and who may do what are of no interest to a superuser's benchmark, and the roles are not in an archive.
_LEFT_OUT = (
    "--no-owner", "--no-privileges", "--no-tablespaces", "--no-publications", "--no-subscriptions",
    "--no-security-labels",
)  # fmt: skip
_STRICTLY = ("--exit-on-error", f"--dbname={DATABASE}")
# In plain SQL they cannot be left out, so that the roles which these lines name are made beforehand.
_NAMING_ROLES = ("ALTER ", "GRANT ", "REVOKE ", "CREATE POLICY ")
_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_ROLES = re.compile(rf"\b(?:OWNER TO|FOR ROLE|GRANTED BY|TO|FROM) ({_NAME}(?:, {_NAME})*)")
_NO_ROLES = frozenset({"PUBLIC", "CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"})
_LONGEST_STATEMENT = 10_000
_LINES_OF_HEADER = 50


def restore(server: Server, archive: Path) -> None:
    """Restores the archive into Octavo's database. Raises UsageError for an archive that cannot be restored
    by this build, OctavoError with the first statement that failed."""
    with files.lent([archive], server.journal, server.account) as (copy,):
        if is_sql(copy):
            _check_version(_version_in(_head(copy)), archive, server)
            with copy.open("rb") as file:
                _make_roles(server, lines_of(file.fileno(), _LONGEST_STATEMENT))
            finished = server.run_client(
                "psql", "--no-psqlrc", "--quiet", "--output=/dev/null", "--set=ON_ERROR_STOP=1", f"--file={copy}"
            )
        else:
            finished = server.run_client("pg_restore", "--list", str(copy))
            _check_version(_version_in(finished.stdout), archive, server)
            if finished.returncode == 0:
                schema = server.run_client("pg_restore", "--schema-only", *_LEFT_OUT, "--file=-", str(copy))
                _make_roles(server, schema.stdout.splitlines())  # those of row security's policies
                finished = server.run_client("pg_restore", *_LEFT_OUT, *_STRICTLY, str(copy))
        if finished.returncode != 0:
            raise _error(first_error(finished.stderr).replace(str(copy), archive.name), archive, server)
    if not server.connection.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'm') AND relnamespace NOT IN "
        "('pg_catalog'::regnamespace, 'information_schema'::regnamespace) LIMIT 1"
    ).fetchone():
        raise UsageError(f"{archive} created no table; give a pg_dump archive with data")


def is_sql(archive: Path) -> bool:
    """Whether it is for psql. Raises UsageError if it is neither an archive nor text."""
    if archive.is_dir():
        if not (archive / _TABLE_OF_CONTENTS).is_file():
            raise UsageError(f"{archive} is not a pg_dump directory: it has no {_TABLE_OF_CONTENTS}")
        return False
    with files.opened(archive) as file:
        start = file.read(512)
    if start.startswith(_CUSTOM):
        return False
    if start.startswith(_TAR[0]) and _TAR[1] in start:
        _check_members(archive)
        return False
    if b"\0" in start:
        raise UsageError(f"{archive} is neither a pg_dump archive nor SQL; unpack it if it is compressed")
    return True


def _check_members(archive: Path) -> None:
    """Raises UsageError for a tar that holds anything but files: pg_dump writes no links."""
    try:
        with files.opened(archive) as file, archives.opened(file, mode="r:", most_bytes=None) as members:
            for member in members:
                if not member.isreg():
                    raise UsageError(
                        f"{archive}: {shown(member.name)} in it is not a regular file; archives must not contain links"
                    )
    except (*archives.DAMAGED, ArithmeticError) as error:
        raise UsageError(f"{archive} is a damaged tar archive: {error}") from None


def first_error(stderr: str) -> str:
    """The first error in psql's or pg_restore's words, without their own name.

    >>> first_error("psql:a.sql:7: ERROR:  relation \\"b\\" does not exist\\nLINE 1: ...")
    'a.sql:7: relation "b" does not exist'
    """
    lines = stderr.strip().splitlines() or ["no output"]
    errors = [line for line in lines if "error:" in line.lower()]
    return re.sub(r"^(psql:|pg_restore: )(error: )?|ERROR:  ", "", (errors or lines[-1:])[0]).strip()


def roles_named(line: str) -> list[str]:
    """The roles that a statement of pg_dump's about owners, rights or policies names, quoted as it quotes them.

    >>> roles_named('GRANT SELECT ON TABLE public.t TO app, "Big Boss";')
    ['app', '"Big Boss"']
    >>> roles_named("ALTER TABLE public.t OWNER TO app;"), roles_named("REVOKE ALL ON TABLE t FROM PUBLIC;")
    (['app'], [])
    """
    named = [name for group in _ROLES.findall(line) for name in re.findall(_NAME, group)]
    return [name for name in named if name not in _NO_ROLES]


def _make_roles(server: Server, lines: Iterable[str]) -> None:
    """Makes every role that the SQL may name, without rights of its own. One too many does no harm."""
    names: dict[str, None] = {}
    for line in lines:
        if line.startswith(_NAMING_ROLES) and len(line) < _LONGEST_STATEMENT:
            names.update(dict.fromkeys(roles_named(line)))
    there = {row["rolname"] for row in server.connection.execute("SELECT rolname FROM pg_roles")}
    for name in names:
        plain = name.strip('"').replace('""', '"') if name.startswith('"') else name.lower()
        if plain not in there and not plain.startswith("pg_"):
            server.connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(plain)))
            there.add(plain)


def _error(problem: str, archive: Path, server: Server) -> OctavoError:
    missing = re.search(r'extension "([^"]+)" is not available|extension/([^"/]+)\.control"', problem)
    if missing:
        name = missing[1] or missing[2]
        return UsageError(
            f"{archive.name} needs the extension {name}, which {server.build.name} lacks; "
            "add it with octavo build --with-extension DIRECTORY"
        )
    return OctavoError(f"restoring {archive.name} failed: {problem}")


def _check_version(version: str | None, archive: Path, server: Server) -> None:
    ours = server.build.manifest["version"]
    if version and int(version) > major_of(ours):
        raise UsageError(
            f"{archive} is from PostgreSQL {version}, newer than {ours}; "
            f"use version {version}, or dump it from an older server"
        )


def _version_in(text: str) -> str | None:
    """The server's major version (9 for 9.6) that pg_dump notes at the head of what it writes."""
    match = re.search(r"^(?:--|;)\s+Dumped from database version:? (\d{1,6})\b", text, re.MULTILINE)
    return match[1] if match else None


def _head(script: Path) -> str:
    with script.open(errors="replace") as file:
        return "".join(file.readline(_LONGEST_STATEMENT) for _ in range(_LINES_OF_HEADER))
