"""One .sql file per query and version floor: `NAME.sql`, or `NAME_170000.sql` from server version 17 on."""

import functools
import re
from importlib import resources


@functools.cache
def load(name: str, server_version: int) -> str:
    """The text of the query for a server version such as 180006: the file with the highest floor not above it.

    Raises KeyError when there is no such file.
    """
    found: dict[int, str] = {}
    for entry in resources.files("octavo.postgres.sql").iterdir():
        match = re.fullmatch(rf"{re.escape(name)}(?:_(\d+))?\.sql", entry.name)
        if match and int(match[1] or 0) <= server_version:
            found[int(match[1] or 0)] = entry.read_text()
    if not found:
        raise KeyError(f"no query {name} for server version {server_version}")
    return found[max(found)]
