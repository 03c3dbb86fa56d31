"""The archive members that links use, according to the linker: most programs use none that depends on a size."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo.postgres.builds.commands import RULE, Command, edge
from octavo.postgres.builds.workspace import BuildWorkspace


def members_linked(
    workspace: BuildWorkspace, build: Path, commands: Mapping[str, Command], links: Sequence[Command]
) -> dict[str, list[str]]:
    """For each of the links, which are repeated, the objects that it takes from archives (ld's --trace, given twice).

    Raises OctavoError when a link fails.
    """
    lines = [RULE]
    for number, command in enumerate(links):
        output = f"trace/{number}"
        traced = command.replaced({command.output: f"{output}.linked"})
        lines += edge(f"{output}.txt", f"{traced} -Wl,-t,-t > {output}.txt && rm {output}.linked", [])
    file = build / "trace.ninja"
    file.write_text("\n".join(lines) + "\n")
    workspace.run("ninja", "-C", build, "-f", file.name, doing="tracing links")
    return {
        command.output: _members((build / "trace" / f"{number}.txt").read_text(), commands)
        for number, command in enumerate(links)
    }


def _members(trace: str, commands: Mapping[str, Command]) -> list[str]:
    found: list[str] = []
    for archive, member in re.findall(r"^\((\S+?\.a)\)(\S+)$", trace, re.MULTILINE):
        if archive in commands:
            words = commands[archive].words
            found += [word for word in words if word.endswith(f"/{member}") and word in commands]
    # Members of a thin archive are listed by their own paths.
    return found + [line for line in trace.splitlines() if line in commands and line.endswith(".o")]
