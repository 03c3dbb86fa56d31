"""The place where one build, or several that share a tree, are made: a journaled directory and how tools run in it."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import children
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import work_directory
from octavo.postgres.builds.recipe import SOURCE_PLACE
from octavo.postgres.builds.spec import BuildSpec, Progress

# A tree with its objects and an installation, seen at 18 with gcc 12; another installation shares most files.
_TREE_BYTES = 700 * 1024**2
_BUILD_BYTES = 40 * 1024**2


@dataclass(frozen=True, slots=True)
class Workplace:
    """A directory of one builder's own. Nobody else's, so that clearing up after a kill cannot reach another's."""

    directory: Path
    subject: str
    log: Path
    environment: dict[str, str]
    journal: Journal

    def run(self, *arguments: str | Path, doing: str, on_line: Callable[[str], None] | None = None) -> str:
        """Runs a tool and returns its output. Raises OctavoError with the log's place when the tool fails."""
        finished = children.run(
            arguments,
            self.journal,
            role=doing,
            directory=self.directory,
            environment=self.environment,
            on_line=on_line,
        )
        if finished.returncode != 0:
            self.log.write_text(finished.stdout + finished.stderr)
            raise OctavoError(
                f"{doing} of {self.subject} failed: {_cause(finished.stdout + finished.stderr)}; see {self.log}"
            )
        return finished.stdout

    def ninja(self, *arguments: str | Path, doing: str, progress: Progress) -> None:
        """Runs ninja and tells its steps."""

        def watch(line: str) -> None:
            if match := re.match(r"(\d+)/(\d+) ", line):
                progress(doing, int(match[1]), int(match[2]))

        self.run("ninja", *arguments, doing=doing, on_line=watch)


@contextmanager
def open_workplace(
    name: str, spec: BuildSpec, journal: Journal, *, builds: int = 1, cached: bool = True
) -> Generator[Workplace, None, None]:
    """A workplace, removed at the end. `cached`: whether the compiler's results come from and go to ccache.

    Raises HostError when the disk is too full for that many builds.
    """
    # Compilers and meson name the directory as it really is, and it is by its name that it is kept out of the objects.
    work = make_directory(work_directory()).resolve()
    needed = _TREE_BYTES + builds * _BUILD_BYTES
    free = shutil.disk_usage(work).free
    if free < needed:
        raise HostError(
            f"{work} has {free // 1024**2} MB free and this needs about {needed // 1024**2} MB; make room, "
            "octavo build rm removes builds"
        )
    directory = work / f"{name}-{journal.token[:8]}-{os.urandom(2).hex()}"
    entry = journal.record("directory", path=str(directory))
    make_directory(directory)
    try:
        place = _compiler_place(spec, directory, cached=cached)
        environment = {
            "CC": spec.compiler,
            "PATH": f"{place}:{children.PLAIN_PATH}",
            "NINJA_STATUS": "%f/%t ",
            **(_ccache_settings(directory) if cached else {}),
        }
        log = work / f"{name}.log"
        yield Workplace(directory, f"PostgreSQL {spec.version}", log, environment, journal)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        journal.done(entry)


def _compiler_place(spec: BuildSpec, directory: Path, *, cached: bool) -> Path:
    """A directory with the compiler under its own name, because PostgreSQL remembers and tells extensions the name.

    What stands there has the objects name one neutral place instead of the workplace: generated scanners carry their
    source's full path, and so does debug information. Compilations go through ccache (its manual, "run modes"), but
    not those of a preprocessed text: it is one size's own, and comes once.
    """
    place = make_directory(directory / "compiler")
    compiler = shutil.which(spec.compiler, path=children.PLAIN_PATH)
    ccache = shutil.which("ccache", path=children.PLAIN_PATH)
    if compiler is None or ccache is None:
        raise HostError(f"{spec.compiler} or ccache is missing; script/bootstrap installs what a build needs")
    command = shlex.join([compiler, f"-ffile-prefix-map={directory}={SOURCE_PLACE}"])
    through = f"{shlex.quote(ccache)} {command}" if cached else command
    program = place / spec.compiler
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


def _ccache_settings(directory: Path) -> dict[str, str]:
    """Depend mode takes the headers from the compiler's own list, which saves a run of the preprocessor.

    Paths are relative to the workplace, so that every workplace finds the same results.
    """
    return {
        "CCACHE_DIR": str(make_directory(octavo_home() / "ccache")),
        "CCACHE_BASEDIR": str(directory),
        "CCACHE_DEPEND": "1",
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": "5G",
    }


# Compilers, ninja and configure say `error:`, meson ERROR, make `*** `; a directory may be called error, and
# configure says in one line where the error is, in the next what it is.
_SAYS_WHY = re.compile(r"\berror: (?!in `)|\bERROR\b|No space left|\*\*\* ")


def _cause(output: str) -> str:
    """The first line in which a tool says what is wrong."""
    lines = [line.strip() for line in output.splitlines() if _SAYS_WHY.search(line)]
    return lines[0][:200] if lines else "it gave no reason"
