"""The directory in which one build, or several that share a tree, are made, and how tools run in it.

All of this happens in the process that makes the build (`worker`), with the account's rights.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from octavo.errors import HostError, OctavoError
from octavo.host import children
from octavo.host.journal import TOKEN_VARIABLE
from octavo.postgres.builds.recipe import SOURCE_PLACE
from octavo.postgres.builds.spec import Progress

# The finished installations below the worker's directory, each under its number.
FINISHED = "finished"


def finished_place(number: int) -> str:
    """The path of this installation below the worker's directory, after it is reported as ready."""
    return f"{FINISHED}/{number}"


class ToolFailed(OctavoError):
    """A tool of the build failed. `output` is its complete output."""

    def __init__(self, doing: str, output: str) -> None:
        super().__init__(f"{doing} failed: {_cause(output)}")
        self.doing = doing
        self.cause = _cause(output)
        self.output = output


@dataclass(frozen=True, slots=True)
class BuildWorkspace:
    """A directory of a single builder, so that cleaning up after a kill cannot affect another builder."""

    directory: Path
    environment: Mapping[str, str]

    def run(
        self,
        *arguments: str | Path,
        doing: str,
        on_line: Callable[[str], None] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
    ) -> str:
        """Runs a tool and returns its output; includes its errors if `on_line` is given. Raises ToolFailed."""
        try:
            tool = subprocess.Popen(
                arguments,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if on_line else subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=self.directory,
                env=self.environment,
                close_fds=False,  # Python's own are not inherited, and searching for others takes time
            )
        except OSError as error:
            raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from error
        with tool:
            if on_line is None:
                output, errors = tool.communicate()
            else:
                assert tool.stdout is not None
                lines: list[str] = []
                for line in tool.stdout:
                    lines.append(line)
                    on_line(line.rstrip("\n"))
                output, errors = "".join(lines), ""
        if tool.returncode != 0:
            raise ToolFailed(doing, output + errors)
        return output

    def ninja(self, *arguments: str | Path, doing: str, progress: Progress) -> None:
        """Runs ninja and reports its steps."""

        def watch(line: str) -> None:
            if match := re.match(r"(\d{1,9})/(\d{1,9}) ", line):
                progress(doing, int(match[1]), int(match[2]))

        self.run("ninja", *arguments, doing=doing, on_line=watch)


def set_up(directory: Path, compiler: str, cache: Path | None) -> BuildWorkspace:
    """Sets up the workspace in an empty directory. `cache`: ccache's directory, None without ccache.

    Raises HostError when the compiler is missing.
    """
    place = _compiler_place(compiler, directory, cached=cache is not None)
    temporary = directory / "tmp"
    temporary.mkdir()
    environment = {
        "LC_ALL": "C.UTF-8",
        "CC": compiler,
        "PATH": f"{place}:{children.PLAIN_PATH}",
        "NINJA_STATUS": "%f/%t ",
        "TMPDIR": str(temporary),
        TOKEN_VARIABLE: os.environ.get(TOKEN_VARIABLE, ""),
        **(_ccache_settings(directory, cache) if cache is not None else {}),
    }
    return BuildWorkspace(directory, environment)


def _compiler_place(compiler: str, directory: Path, *, cached: bool) -> Path:
    """A directory with the compiler under its own name, because PostgreSQL records the name and passes it to
    extensions.

    The wrapper there replaces the workspace in objects by a neutral path: generated scanners contain their source's
    full path, and so does debug information. Compilations use ccache (its manual, "run modes"), except those of a
    preprocessed text, which belongs to one size and is compiled only once.
    """
    place = directory / "compiler"
    place.mkdir()
    found = shutil.which(compiler, path=children.PLAIN_PATH)
    ccache = shutil.which("ccache", path=children.PLAIN_PATH)
    if found is None or ccache is None:
        raise HostError(f"{compiler} or ccache is missing; script/bootstrap installs what a build needs")
    command = shlex.join([found, f"-ffile-prefix-map={directory}={SOURCE_PLACE}"])
    through = f"{shlex.quote(ccache)} {command}" if cached else command
    program = place / compiler
    program.write_text(
        "#!/bin/sh\n"
        'case " $* " in\n'
        f'*.i\\ *) exec {command} "$@" ;;\n'
        f'*" -c "*) exec {through} "$@" ;;\n'
        f'*) exec {command} "$@" ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    return place


def _ccache_settings(directory: Path, cache: Path) -> dict[str, str]:
    """In depend mode ccache takes the headers from the compiler's own list, which saves a run of the preprocessor.

    Paths are relative to the workspace, so that every workspace finds the same results.
    """
    return {
        "CCACHE_DIR": str(cache),
        "CCACHE_BASEDIR": str(directory),
        "CCACHE_DEPEND": "1",
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": "5G",
    }


# Compilers, ninja and configure print `error:`, meson ERROR, make `*** `. A directory may be called error, and
# configure prints the location of the error in one line and its description in the next.
_SAYS_WHY = re.compile(r"\berror: (?!in `)|\bERROR\b|No space left|\*\*\* ")


def _cause(output: str) -> str:
    """The first line in which a tool reports the cause."""
    lines = [line.strip() for line in output.splitlines() if _SAYS_WHY.search(line)]
    return lines[0][:200] if lines else "it gave no reason"
