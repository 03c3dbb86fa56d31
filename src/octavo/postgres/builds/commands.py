"""A finished ninja build, read back: the command and inputs of each file; and writing commands for a new graph."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.postgres.builds.workspace import BuildWorkspace


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the build with its words as given to the shell, and its first output."""

    words: tuple[str, ...]
    output: str

    @property
    def compiles(self) -> bool:
        """Whether it compiles one C source to one object."""
        return "-c" in self.words and self.output.endswith(".o")

    @property
    def archives(self) -> bool:
        """Whether it makes a static library from objects."""
        return self.output.endswith(".a")

    @property
    def links(self) -> bool:
        """Whether it links a program or a shared library."""
        return not self.compiles and not self.archives and "-o" in self.words

    def replaced(self, paths: dict[str, str], *before: str) -> str:
        """The command with other paths, and with words inserted after the program's name."""
        known = {**paths, **{f"{old}.d": f"{new}.d" for old, new in paths.items()}}
        first, *rest = [known.get(word, word) for word in self.words]
        return " ".join([first, *before, *rest])

    @property
    def source(self) -> str:
        """The source of a compilation."""
        return self.words[self.words.index("-c") + 1]

    def to_standard_output(self, *before: str) -> str:
        """The compilation stopped after the preprocessor, without line markers (gcc's -E and -P)."""
        first, *rest = self._without({"-MD", "-c"}, {"-MQ", "-MF", "-o"})
        return " ".join([first, *before, *rest, "-E", "-P"])

    def of_text(self, text: str, output: str) -> str:
        """The compilation of preprocessed source, whose warnings have already been printed."""
        replaced = {self.source: text, self.output: output}
        words = [replaced.get(word, word) for word in self._without({"-MD"}, {"-MQ", "-MF"})]
        return " ".join([*words, "-w"])

    def _without(self, alone: set[str], with_argument: set[str]) -> list[str]:
        words: list[str] = []
        skip = False
        for word in self.words:
            if skip or word in alone:
                skip = False
            elif word in with_argument:
                skip = True
            else:
                words.append(word)
        return words


def read_commands(workspace: BuildWorkspace, build: Path) -> dict[str, Command]:
    """Every command of the build by its output (ninja -t compdb, response files expanded)."""
    listed = json.loads(workspace.run("ninja", "-C", build, "-t", "compdb", "-x", doing="listing commands"))
    # The shell sees the words unchanged: no path of PostgreSQL's contains a blank, and quotes stay where they were. A
    # path with the full build directory is replaced by the name that ninja uses.
    return {
        entry["output"]: Command(tuple(entry["command"].replace(f"{build}/", "").split()), entry["output"])
        for entry in listed
        if entry["command"]
    }


def read_dependencies(workspace: BuildWorkspace, build: Path) -> dict[str, list[str]]:
    """For every object, the files that its compilation read (ninja -t deps)."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in workspace.run("ninja", "-C", build, "-t", "deps", doing="listing dependencies").splitlines():
        if match := re.match(r"(\S+): #deps", line):
            current = found.setdefault(match[1], [])
        elif line.startswith("    "):
            current.append(line.strip())
    return found


# The rule of the edges that `edge` writes.
RULE = "rule run\n  command = $does\n  description = $out"


def edge(output: str, command: str, inputs: Sequence[str]) -> list[str]:
    """An edge of a ninja file; ninja makes the output's directory (its manual, "build statements")."""
    return [f"build {output}: run {' '.join(inputs)}", f"  does = {command.replace('$', '$$')}"]
