"""Which objects depend on which size: derived from the compiled sources, never hard-coded.

A size can affect an object in three ways, each of which is checked:
- The macro's value in code or data. The preprocessor runs over every source with a marked spelling of the value,
  and `octavo._core.markers_that_reach` says whether it reaches what is emitted. The texts of those that it reaches
  are kept: a compilation of the text with other values needs no preprocessor.
- A conditional (`#if BLCKSZ < PG_IO_ALIGN_SIZE`), which leaves no trace in the text. Where a compiled file has one,
  its text is compared at every combination of sizes that is wanted.
- A configured file other than pg_config.h. `check_configuration` configures once more with other sizes and compares.

Earlier results (`findings`) are reused.

`prove` verifies this: it builds from scratch and compares every byte.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.postgres.builds import meson, recipe
from octavo.postgres.builds.commands import Command, read_dependencies
from octavo.postgres.builds.findings import Findings
from octavo.postgres.builds.preprocess import preprocess
from octavo.postgres.builds.spec import BuildSpec, Progress, Sizes
from octavo.postgres.builds.stages import LOOKING
from octavo.postgres.builds.workspace import BuildWorkspace, ToolFailed

HEADER = "src/include/pg_config.h"

# A marked value has so many digits, or two or three times as many, which no real value has; no macro's mark contains
# another's.
_WIDTH = 20


class NotShareable(Exception):
    """The builds cannot share a tree; the message says why."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """For each object that depends on a size, the macros on which it depends.

    `texts` has, for an object with conditionals on sizes, the text for each combination of sizes. `kept` has the
    preprocessed texts of every object that depends on a size, in which `@BLCKSZ@` stands for its value.
    """

    macros: Mapping[str, frozenset[str]]
    texts: Mapping[str, Mapping[Sizes, int]]
    kept: Mapping[str, Sequence[Path]]


def check_configuration(
    workspace: BuildWorkspace,
    spec: BuildSpec,
    version: str,
    tree: Path,
    build: Path,
    sizes: Sequence[Sizes],
    findings: Findings,
) -> None:
    """Configures a copy of a configured directory with sizes that all differ, and compares every file.

    Raises NotShareable unless the sizes' macros in pg_config.h are the only difference, and equal those of
    `Sizes.macros` for both.
    """
    key = _key_of_configuration(workspace, spec, version, build, findings)
    if key in findings.known:
        return
    other = Sizes(*(_another(getattr(spec.sizes, name), name, sizes) for name in Sizes.__slots__))
    probe = workspace.directory / "probe"
    shutil.copytree(build, probe, symlinks=True)
    meson.configure(workspace, tree, probe, recipe.size_options(other, version))
    differing = [str(path.relative_to(build)) for path in _configured(build) if not _same(path, build, probe)]
    if differing != [HEADER]:
        raise NotShareable(f"the sizes change {', '.join(differing) or 'nothing'} and not only {HEADER}")
    here, there = (build / HEADER).read_text(), (probe / HEADER).read_text()
    if with_macros(here, other.macros) != there or with_macros(there, spec.sizes.macros) != here:
        raise NotShareable(f"the sizes change {HEADER} in another way than known")
    shutil.rmtree(probe)
    findings.keep([key])


def _key_of_configuration(
    workspace: BuildWorkspace, spec: BuildSpec, version: str, build: Path, findings: Findings
) -> str:
    """The key of the difference that other sizes make: the source, the configuration command, and its output."""
    files = {str(path.relative_to(build)): path.read_bytes() for path in _configured(build)}
    files[HEADER] = _without_sizes((build / HEADER).read_text()).encode()
    meson_version = json.loads((build / "meson-info" / "meson-info.json").read_text())["meson_version"]["full"]
    how = [f"meson {meson_version}", *recipe.options(spec, version)]
    return findings.key_of_configuration(how, files, workspace.directory)


def _configured(build: Path) -> list[Path]:
    """Every file of a configured directory except meson's own records."""
    return [path for path in build.rglob("*") if path.is_file() and not _is_mesons_own(path.relative_to(build))]


def _without_sizes(header: str) -> str:
    """The header without sizes."""
    return with_macros(header, dict.fromkeys(Sizes(1024, 1024, 1024).macros, "SIZE"))


def _another(size: int, name: str, sizes: Sequence[Sizes]) -> int:
    """A different size: a requested one if there is one, else twice or half as much."""
    wanted = [getattr(each, name) for each in sizes if getattr(each, name) != size]
    return wanted[0] if wanted else (size * 2 if name == "data_segment" or size < 32768 else size // 2)


def _is_mesons_own(path: Path) -> bool:
    """Meson's records: options, logs, and the introspection of both."""
    return path.parts[0] in {"meson-private", "meson-info", "meson-logs"} or path.name == "compile_commands.json"


def _same(path: Path, build: Path, probe: Path) -> bool:
    other = probe / path.relative_to(build)
    if not other.is_file():
        return False
    return path.read_bytes() == other.read_bytes().replace(str(probe).encode(), str(build).encode())


def with_macros(header: str, values: Mapping[str, int | str]) -> str:
    """The header with other values of these macros. Raises NotShareable when it does not define each exactly once."""
    for name, value in values.items():
        header, count = re.subn(rf"(?m)^#define {name} \w+$", f"#define {name} {value}", header)
        if count != 1:
            raise NotShareable(f"{HEADER} does not define {name} once")
    return header


def derive_dependence(
    workspace: BuildWorkspace,
    build: Path,
    objects: Sequence[Command],
    sizes: Sequence[Sizes],
    findings: Findings,
    progress: Progress,
) -> Dependence:
    """Determines on which sizes each of the objects depends. The first of the sizes is the compiled one."""
    macros = list(sizes[0].macros)
    header = (build / HEADER).read_text()
    markers: list[dict[str, str]] = []
    for number, each in enumerate(sizes):
        marked = {name: _marked(value, index) for index, (name, value) in enumerate(each.macros.items())}
        directory = workspace.directory / "marked" / str(number)
        directory.mkdir(parents=True)
        (directory / "pg_config.h").write_text(with_macros(header, marked))
        markers.append(marked)
    dependencies = read_dependencies(workspace, build)
    keys = findings.keys_of_compilations(
        objects, dependencies, build, workspace.directory, {HEADER: _without_sizes(header)}
    )
    unknown = [command for command in objects if keys.get(command.output) not in findings.known]
    read = {file for command in unknown for file in dependencies.get(command.output, [])}
    conditional = files_with_conditionals(read, build, macros)
    tested = [command for command in unknown if conditional & set(dependencies.get(command.output, []))]
    several = {command.output for command in tested}
    jobs = [(command.output, 0, command) for command in unknown]
    jobs += [(command.output, number, command) for command in tested for number in range(1, len(sizes))]
    answers = _preprocess(workspace, build, jobs, several, markers, progress)
    reached: dict[str, set[str]] = {}
    texts: dict[str, dict[Sizes, int]] = {}
    kept: dict[str, dict[str, Path]] = {}
    for (output, number, _), (reaches, digest) in zip(jobs, answers, strict=True):
        reached.setdefault(output, set()).update(name for name, yes in zip(macros, reaches, strict=True) if yes)
        if digest is not None:
            known = kept.setdefault(output, {})
            known.setdefault(digest, _text(workspace, number, output))
            texts.setdefault(output, {})[sizes[number]] = [*known].index(digest)
    findings.keep(keys[output] for output, names in reached.items() if not names and output in keys.keys() - several)
    return Dependence(
        {output: frozenset(names) for output, names in reached.items() if names},
        {output: numbers for output, numbers in texts.items() if len(kept[output]) > 1},
        {output: [*known.values()] for output, known in kept.items()},
    )


def _text(workspace: BuildWorkspace, number: int, output: str) -> Path:
    """The path of the preprocessed text for these sizes."""
    return workspace.directory / "marked" / str(number) / f"{output}.i"


def _marked(value: int, index: int) -> str:
    """A C spelling of the value, in hexadecimal with more zeros than anybody writes."""
    return f"0x{value:0{_WIDTH * (index + 1)}x}"


_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|elif|define)\b((?:.*\\\n)*.*)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")


def files_with_conditionals(files: Iterable[str], build: Path, macros: Sequence[str]) -> set[str]:
    """The files with an `#if` on a size, directly or through macros whose definition in any file mentions one."""
    defined: dict[str, set[str]] = {}
    conditions: dict[str, set[str]] = {}
    for file in files:
        path = build / file
        if file.startswith(("/usr/include", "/usr/lib")):
            continue  # the system's headers do not use PostgreSQL's sizes
        for kind, rest in _DIRECTIVE.findall(path.read_text(errors="replace")):
            names = _NAME.findall(rest)
            if kind == "define" and names:
                defined.setdefault(names[0], set()).update(names[1:])
            elif kind != "define":
                conditions.setdefault(file, set()).update(names)
    sized = set(macros)
    while more := {name for name, body in defined.items() if name not in sized and body & sized}:
        sized |= more
    return {file for file, names in conditions.items() if names & sized}


def _preprocess(
    workspace: BuildWorkspace,
    build: Path,
    jobs: Sequence[tuple[str, int, Command]],
    conditional: set[str],
    markers: Sequence[Mapping[str, str]],
    progress: Progress,
) -> list[tuple[list[bool], str | None]]:
    """Preprocesses every job and determines which markers reach the object."""
    directory = workspace.directory / "marked"
    asked = [
        {
            "command": command.to_standard_output(f"-I{directory / str(number)}"),
            "markers": {marker: f"@{name}@" for name, marker in markers[number].items()},
            "conditional": output in conditional,
            "source": command.source,
            "text": str(_text(workspace, number, output)),
        }
        for output, number, command in jobs
    ]
    try:
        return preprocess(asked, build, workspace.environment, lambda done: progress(LOOKING, done, len(jobs)))
    except RuntimeError as error:
        raise ToolFailed(LOOKING, str(error)) from error
