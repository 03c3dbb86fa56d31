"""Builds at many sizes from one tree: every object, library and program is made once per combination of the sizes that
it depends on.

One build is made from scratch. Then the others are one graph for ninja, in which an object that depends on the data
block is compiled once per data block, one that depends on both blocks once per pair, and all others are reused;
libraries and programs follow from their objects. Links and compilations run in parallel, and an installation is
finished as soon as its last program is linked.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

from octavo.errors import OctavoError
from octavo.postgres.builds import meson, recipe
from octavo.postgres.builds.archives import members_linked
from octavo.postgres.builds.commands import RULE, Command, edge, read_commands
from octavo.postgres.builds.findings import Findings
from octavo.postgres.builds.installation import derive, lay_out
from octavo.postgres.builds.size_dependence import (
    HEADER,
    Dependence,
    NotShareable,
    check_configuration,
    derive_dependence,
    with_macros,
)
from octavo.postgres.builds.spec import BuildSpec, Progress, Sizes
from octavo.postgres.builds.stages import CONFIGURATION, compiling_more
from octavo.postgres.builds.workspace import BuildWorkspace
from octavo.postgres.source import unpack_file

# Called with an installation's sizes and its root.
Finished = Callable[[Sizes, Path], None]


def build_together(
    workspace: BuildWorkspace,
    spec: BuildSpec,
    version: str,
    tarball: IO[bytes],
    sizes: Sequence[Sizes],
    findings: Findings,
    finished: Finished,
    progress: Progress,
) -> None:
    """Makes an installation for each of the sizes and passes it on, still in the workspace, as soon as it is complete.

    Raises NotShareable, before anything is passed on, when this version cannot be built this way.
    """
    tree = unpack_file(tarball, workspace.directory / "source")
    build = workspace.directory / "build"
    options = [*recipe.options(spec, version), *recipe.size_options(sizes[0], version)]
    progress(CONFIGURATION, 0, 1)
    meson.configure(workspace, tree, build, options)
    check_configuration(workspace, spec, version, tree, build, sizes, findings)
    targets = meson.compile_installed(workspace, build, progress)
    installed = meson.installed(workspace, build)
    graph = Graph(workspace, spec, build, targets, sizes, findings, progress)
    root = lay_out(installed, workspace.directory / "install", workspace.directory)
    finished(sizes[0], derive(root, {}, workspace.directory / sizes[0].label))

    def finish(each: Sizes) -> None:
        made = {**graph.products(each), HEADER: graph.header(each.macros)}
        replaced = {
            os.path.relpath(target, recipe.PREFIX): made[output]
            for path, target in installed.files
            if (output := os.path.relpath(path, build)) in made
        }
        finished(each, derive(root, replaced, workspace.directory / each.label))

    graph.run({each.label: each for each in sizes[1:]}, finish)


class Graph:
    """The files to make again for other sizes, and their destinations."""

    def __init__(
        self,
        workspace: BuildWorkspace,
        spec: BuildSpec,
        build: Path,
        targets: Sequence[str],
        sizes: Sequence[Sizes],
        findings: Findings,
        progress: Progress,
    ) -> None:
        self._workplace = workspace
        self._build = build
        self._sizes = sizes
        self._progress = progress
        self._maps_header = spec.debug_symbols
        self._header_text = (build / HEADER).read_text()
        self._commands = read_commands(workspace, build)
        wanted = _closure(self._commands, targets)
        objects = [command for command in wanted.values() if command.compiles]
        self._dependence: Dependence = derive_dependence(workspace, build, objects, sizes, findings, progress)
        self._needs: dict[str, frozenset[str]] = {}
        # Until the linker has been run, all members of an archive count.
        self._members: dict[str, list[str]] = {}
        links = [
            command
            for command in wanted.values()
            if command.links and any(word.endswith(".a") and self._needed(word) for word in command.words)
        ]
        self._members = members_linked(workspace, build, self._commands, links)
        self._needs = {name: needs for name, needs in self._needs.items() if self._commands[name].compiles}
        for output, command in wanted.items():
            if self._needed(output) and not (command.compiles or command.archives or command.links):
                raise NotShareable(f"{output} is made by a tool that depends on the sizes")
        self._targets = [target for target in targets if self._needed(target)]
        self._compiles_texts = self._texts_give_the_same()

    def _inputs(self, command: Command) -> list[str]:
        """The files made by other commands that this one reads; of an archive only the members that are linked."""
        found = [word for word in command.words if word != command.output and word in self._commands]
        if command.output not in self._members:
            return found
        objects = [word for word in found if not word.endswith(".a")]
        return [*objects, *self._members[command.output]]

    def _needed(self, output: str) -> frozenset[str]:
        """What determines the contents of this file: size macros, or an object whose text has several forms."""
        if output not in self._needs:
            command = self._commands.get(output)
            needs: frozenset[str] = frozenset()
            if command is None:
                pass
            elif command.compiles:
                texts = {output} if output in self._dependence.texts else set[str]()
                needs = self._dependence.macros.get(output, needs) | texts
            else:
                needs = needs.union(*(self._needed(path) for path in self._inputs(command)))
            self._needs[output] = needs
        return self._needs[output]

    def _values(self, output: str, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        macros = sizes.macros
        return tuple(
            (need, macros[need] if need in macros else self._dependence.texts[need][sizes])
            for need in sorted(self._needed(output))
        )

    def _place(self, output: str, sizes: Sizes) -> str:
        """The path of the file for these sizes: the first build's, if nothing that it needs differs."""
        values = self._values(output, sizes)
        if values == self._values(output, self._sizes[0]):
            return output
        tag = "-".join(
            f"{need if need in sizes.macros else re.sub(r'[^a-zA-Z0-9]', '_', need)}={value}" for need, value in values
        )
        return f"sizes/{tag}/{output}"

    def _texts_give_the_same(self) -> bool:
        """Whether compiling the kept text yields the same object as compiling the source, tried with the longest text.

        It does not if objects contain columns or headers, as with debug information and sanitizers.
        """
        kept = self._dependence.kept
        if not kept:
            return False
        output = max(kept, key=lambda output: kept[output][0].stat().st_size)
        tried = f"texts/{Path(output).name}"
        file = self._build / "texts.ninja"
        file.write_text("\n".join([RULE, *edge(tried, self._of_text(output, tried, self._sizes[0]), [])]) + "\n")
        try:
            self._workplace.run("ninja", "-C", self._build, "-f", file.name, doing="compilation of a text")
        except OctavoError:
            return False
        return (self._build / tried).read_bytes() == (self._build / output).read_bytes()

    def _of_text(self, output: str, place: str, sizes: Sizes) -> str:
        """The shell command that compiles the object from its kept text with these sizes."""
        numbers = self._dependence.texts.get(output)
        text = self._dependence.kept[output][numbers[sizes] if numbers else 0]
        values = " ".join(f"-e s/@{name}@/{value}/g" for name, value in sizes.macros.items())
        compiled = self._commands[output].of_text(f"{place}.i", place)
        return f"sed {values} {text} > {place}.i && {compiled} && rm {place}.i"

    def _of_source(self, output: str, place: str, sizes: Sizes) -> str:
        """The shell command that compiles the object from its source with these sizes."""
        macros = {**self._sizes[0].macros, **{n: v for n, v in sizes.macros.items() if n in self._needed(output)}}
        # A text with several forms is compiled in the form for these sizes.
        header = self.header(sizes.macros if output in self._dependence.texts else macros)
        directory = os.path.relpath(header.parent, self._build)
        before = [f"-I{directory}"]
        if self._maps_header:
            before.append(f"-ffile-prefix-map={directory}={Path(HEADER).parent}")
        return self._commands[output].replaced({output: place}, *before)

    def products(self, sizes: Sizes) -> dict[str, Path]:
        """The targets that depend on a size, with the path of the file for these sizes, by output."""
        return {target: self._build / self._place(target, sizes) for target in self._targets}

    def header(self, macros: Mapping[str, int]) -> Path:
        """The pg_config.h with these macros, written on the first request."""
        tag = "-".join(f"{name}={value}" for name, value in sorted(macros.items()))
        path = self._build / "headers" / tag / "pg_config.h"
        if not path.exists():
            path.parent.mkdir(parents=True)
            path.write_text(with_macros(self._header_text, macros))
        return path

    def run(self, wanted: Mapping[str, Sizes], finish: Callable[[Sizes], None]) -> None:
        """Makes everything for the requested sizes; `finish` is called concurrently for each that is complete."""
        file = self._build / "sizes.ninja"
        lines = [RULE]
        written: set[str] = set()
        for label, sizes in wanted.items():
            places = [self._make(target, sizes, lines, written) for target in self._targets]
            lines += edge(f"ready/{label}", f"touch ready/{label}", places)
        file.write_text("\n".join(lines) + "\n")
        doing = compiling_more(len(wanted))
        with ThreadPoolExecutor(1) as finisher:
            pending: list[Future[None]] = []

            def watch(line: str) -> None:
                if match := re.match(r"(\d{1,9})/(\d{1,9}) (?:ready/(\S+))?", line):
                    self._progress(doing, int(match[1]), int(match[2]))
                    if match[3]:
                        pending.append(finisher.submit(finish, wanted[match[3]]))

            try:
                self._workplace.run("ninja", "-C", self._build, "-f", file.name, doing=doing, on_line=watch)
                for future in pending:
                    future.result()
            except BaseException:
                finisher.shutdown(wait=False, cancel_futures=True)
                raise

    def _make(self, output: str, sizes: Sizes, lines: list[str], written: set[str]) -> str:
        """Adds the commands for the file with these sizes and for all that it needs. Returns its future path."""
        place = self._place(output, sizes)
        if place == output or place in written:
            return place
        written.add(place)
        command = self._commands[output]
        if command.compiles:
            compiled = self._of_text if self._compiles_texts else self._of_source
            lines += edge(place, compiled(output, place, sizes), [])
            return place
        needed = [path for path in command.words if path != output and path in self._commands and self._needed(path)]
        paths = {path: self._make(path, sizes, lines, written) for path in needed}
        lines += edge(place, command.replaced({output: place, **paths}), [*paths.values()])
        return place


def _closure(commands: Mapping[str, Command], targets: Sequence[str]) -> dict[str, Command]:
    """The commands that the targets need, directly or through others."""
    found: dict[str, Command] = {}
    pending = [target for target in targets if target in commands]
    while pending:
        output = pending.pop()
        if output not in found:
            command = found[output] = commands[output]
            pending += [word for word in command.words if word in commands and word != output]
    return found
