"""The address of the store: the file in OCTAVO_HOME, or the PostgreSQL database that OCTAVO_STORE names, for a team."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import UsageError
from octavo.home import store_path

if TYPE_CHECKING:
    import psycopg

VARIABLE = "OCTAVO_STORE"
_WRITE = (
    f"{VARIABLE}: write postgresql://user@host/database, with the password in ~/.pgpass or PGPASSFILE; "
    "unset it to use a file in OCTAVO_HOME"
)
# A server that is gone is noticed after so long, and not after the two hours of TCP's default (tcp(7)).
_PATIENCE = {"connect_timeout": "10", "tcp_user_timeout": "30000", "keepalives_idle": "30", "keepalives_interval": "10"}
# What of a URL is a secret (libpq-connect of PostgreSQL 18), and where it belongs.
_SERVICE = "a service file (PGSERVICE)"
_SECRETS = {
    "password": "~/.pgpass or PGPASSFILE", "sslpassword": _SERVICE, "oauth_client_secret": _SERVICE,
    "scram_client_key": _SERVICE, "scram_server_key": _SERVICE,
}  # fmt: skip
# Set once a session has begun: PgBouncer refuses a connection that begins with such settings in its `options`.
_SETTINGS = {"lock_timeout": "60s", "client_min_messages": "warning"}
_SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)"
_READ_ONLY = {"default_transaction_read_only": "on"}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A PostgreSQL database. `shown` has no password; `parameters` are libpq's keywords, and may."""

    shown: str
    parameters: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.shown

    def connect(self, *, read_only: bool = False, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection of its own. Raises psycopg.Error."""
        import psycopg

        connection = psycopg.connect(**self.parameters, autocommit=True)
        try:
            settings = {**_SETTINGS, **(_READ_ONLY if read_only else {})}
            connection.execute(_SET, (list(settings), list(settings.values())))
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection


StoreAddress = Path | ServerAddress


def store_address() -> StoreAddress:
    """The address of the store. Raises UsageError if OCTAVO_STORE does not name a PostgreSQL database.

    libpq's variables are read at the first call, because starting a server of our own removes them
    (`own_connection.forget_environment`).
    """
    url = os.environ.get(VARIABLE)
    return server_address(url) if url else store_path()


@cache
def server_address(url: str) -> ServerAddress:
    """The database that a URL or a connection string of libpq's names. Raises UsageError; no text of it is in that."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(_WRITE)
    # Only here: the quick answers of a store that is a file do without it.
    from psycopg import pq

    from octavo.postgres.user_connection import read_dsn

    asked = read_dsn(url, _WRITE)
    for name, place in _SECRETS.items():
        if name in asked:
            what = "a password" if name == "password" else name
            raise UsageError(f"{VARIABLE} contains {what}, and others may read the environment; put it into {place}")
    # The values of libpq's variables, as PQconndefaults gives them.
    given = [option for option in pq.Conninfo.get_defaults() if option.val and option.envvar]
    try:
        by_name = {
            option.keyword.decode(): (option.val or b"").decode()
            for option in given
            if (option.envvar or b"").decode() in os.environ
        }
        if passfile := os.environ.get("PGPASSFILE"):
            by_name["passfile"] = passfile.encode().decode()
        of_service = _of_service(str(asked.get("service") or os.environ.get("PGSERVICE", "")))
    except UnicodeError:
        raise UsageError(
            f"{VARIABLE}: a PG* variable in the environment or a service is not text; correct or unset it"
        ) from None
    settings = {"application_name": "octavo store", **_PATIENCE, **by_name, **of_service, **asked}
    if of_service:
        settings.pop("service", None)
    settings["client_encoding"] = "utf8"
    host, port = (str(settings.get(name, "")) for name in ("host", "port"))
    shown = f"postgresql://{host}{':' if port else ''}{port}/{settings.get('dbname', '')}"
    return ServerAddress(shown, settings)


def _of_service(name: str) -> dict[str, str]:
    """What a service sets (libpq, "The Connection Service File"); empty for one that is not found, as for none.

    libpq looks a service up at each connection, in a file that PGSERVICEFILE or PGSYSCONFDIR may name. Raises
    UnicodeError.
    """
    if not name:
        return {}
    from psycopg import pq

    def defaults(service: str | None) -> dict[bytes, bytes | None]:
        if service is None:
            os.environ.pop("PGSERVICE", None)
        else:
            os.environ["PGSERVICE"] = service
        return {option.keyword: option.val for option in pq.Conninfo.get_defaults()}

    before = os.environ.get("PGSERVICE")
    try:
        without, found = defaults(None), defaults(name)
    finally:
        if before is None:
            os.environ.pop("PGSERVICE", None)
        else:
            os.environ["PGSERVICE"] = before
    return {
        keyword.decode(): value.decode()
        for keyword, value in found.items()
        if value and value != without.get(keyword) and not keyword.startswith(b"service")
    }
