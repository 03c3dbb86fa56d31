"""A setting to change, and the two ways to write it."""

import re
from dataclasses import dataclass

# Values that postgresql.conf accepts without quotes: words, and numbers with a unit.
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's name and value.

    >>> Setting("shared_buffers", "128MB").sql
    "ALTER SYSTEM SET shared_buffers = '128MB';"
    >>> Setting("shared_buffers", "128MB").conf, Setting("archive_command", "it's").conf
    ('shared_buffers = 128MB', "archive_command = 'it''s'")
    """

    name: str
    value: str

    @property
    def sql(self) -> str:
        """The statement for a running server."""
        return f"ALTER SYSTEM SET {self.name} = {self._quoted};"

    @property
    def conf(self) -> str:
        """The line of postgresql.conf."""
        return f"{self.name} = {self.value if _PLAIN.fullmatch(self.value) else self._quoted}"

    @property
    def _quoted(self) -> str:
        return "'" + self.value.replace("'", "''") + "'"
