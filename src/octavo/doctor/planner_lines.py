"""The lines for the planner's assumptions about storage, where the blocks of a rule's volume are read."""

from octavo.doctor.amounts import is_standby
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import RELOAD, Line, Sql, alter
from octavo.text import one_line

_CHECK = "SELECT spcname, spcoptions FROM pg_tablespace;"


def planner_lines(asked: RuleFacts, name: str, value: str) -> tuple[tuple[Line, ...], str, str]:
    """The lines to write, what puts them into effect, and how to verify it: for the server, or for the volume's
    tablespaces.

    A tablespace's own setting takes precedence over the server's. It is in a catalog, which a standby cannot write.
    """
    volume = asked.volume
    if volume is None or (volume.number == 0 and not asked.is_of_volume(f"setting.{name}")):
        return server_lines(name, value)
    spaces = volume.tablespaces if volume.number else ("pg_default", *volume.tablespaces)
    lines: list[Line] = [
        Sql(f"ALTER TABLESPACE {_quoted(space)} SET ({name} = {value});")
        for space in spaces
        if space == one_line(space)
    ]
    if len(lines) < len(spaces) or not spaces:
        lines.append(f"# for each tablespace of this volume: ALTER TABLESPACE … SET ({name} = {value});")
    if is_standby(asked):
        lines.insert(0, "# on the primary, for it and all of its standbys:")
    return tuple(lines), "now", _CHECK


def server_lines(name: str, value: str) -> tuple[tuple[Line, ...], str, str]:
    """The same for the server, if no tablespace has its own setting."""
    return (alter(name, value), RELOAD), "reload", f"SHOW {name};"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
