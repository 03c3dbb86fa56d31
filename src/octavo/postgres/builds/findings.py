"""Cached findings about the sizes: compilations and configurations that do not depend on them.

The sizes on which an object depends follow from the compiler, its command, and every file that it reads, from the
source to the system's headers, which ninja lists. The digest of all of these is the finding's key. It excludes the
values of the sizes, because a finding holds for every value, and the directory of the compilation. With another key,
for example after an update of one header, the object is analysed again.

Findings of releases ship with Octavo (`findings/VERSION.txt`). Those of this machine are stored next to the compiler's
cache, and are as trustworthy as that.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from octavo.postgres.builds.commands import Command
from octavo.postgres.builds.recipe import SOURCE_PLACE

# The file next to the compiler's cache, and the most keys in it: a version has about 1500.
_KEPT = "octavo-findings.txt"
_MOST_KEPT = 20_000
_DIGITS = 20


def shipped(version: str) -> frozenset[str]:
    """The keys that ship for this version; empty for most versions."""
    try:
        return frozenset(_keys((Path(__file__).parent / "findings" / f"{version}.txt").read_text()))
    except FileNotFoundError:
        return frozenset()


def _keys(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@dataclass(frozen=True, slots=True)
class Findings:
    """The known findings, and storage for new ones.

    `compiler` is the compiler and its target machine, `source` is the source's sha256, `cache` the directory of the
    compiler's cache, None without one.
    """

    compiler: str
    source: str
    known: frozenset[str] = frozenset()
    cache: Path | None = None

    def with_kept(self) -> "Findings":
        """These findings and those that this machine has stored."""
        return replace(self, known=self.known.union(self._kept()))

    def keep(self, keys: Iterable[str]) -> None:
        """Stores these for the next time, if there is a cache. The oldest ones are dropped."""
        new = sorted(set(keys))
        if self.cache is not None and new:
            lines = [*(key for key in self._kept() if key not in set(new)), *new]
            file = self.cache / f"{_KEPT}.{os.getpid()}"
            file.write_text("".join(f"{key}\n" for key in lines[-_MOST_KEPT:]))
            file.replace(self.cache / _KEPT)

    def _kept(self) -> list[str]:
        try:
            return _keys((self.cache / _KEPT).read_text()) if self.cache is not None else []
        except (OSError, ValueError):
            return []

    def key_of_configuration(self, how: Sequence[str], files: Mapping[str, bytes], work: Path) -> str:
        """The key of a configuration: its command line, and every file that it wrote, without sizes."""
        return self._key(["configuration", self.source, *how, *_lines(files, work)])

    def keys_of_compilations(
        self,
        commands: Iterable[Command],
        dependencies: Mapping[str, Sequence[str]],
        build: Path,
        work: Path,
        without_sizes: Mapping[str, str],
    ) -> dict[str, str]:
        """The key of every compilation whose inputs ninja knows, by object.

        `without_sizes` has the texts of files that contain the sizes, without these.
        """
        lines: dict[str, str] = {}

        def line(name: str) -> str:
            if name not in lines:
                text = without_sizes.get(name)
                content = (build / name).read_bytes() if text is None else text.encode()
                (lines[name],) = _lines({name: content}, work)
            return lines[name]

        return {
            command.output: self._key(
                ["compilation", *command.words, *map(line, sorted(set(dependencies[command.output])))]
            )
            for command in commands
            if command.output in dependencies
        }

    def _key(self, facts: Sequence[str]) -> str:
        return hashlib.sha256(json.dumps([self.compiler, *facts]).encode()).hexdigest()[:_DIGITS]


def _lines(files: Mapping[str, bytes], work: Path) -> list[str]:
    """Each file's name and digest, without the path of the workspace."""
    before, after = str(work), SOURCE_PLACE
    return [
        f"{name.replace(before, after)} {hashlib.sha256(content.replace(before.encode(), after.encode())).hexdigest()}"
        for name, content in sorted(files.items())
    ]
