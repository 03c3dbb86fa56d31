"""The installation itself: it is complete, and its programs load its own libraries and no others."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from octavo.check.outcome import Failure, Suite
from octavo.check.workspace import TestWorkspace
from octavo.home import make_directory
from octavo.host import children
from octavo.postgres.source import sha256_of
from octavo.text import one_line

# What ldd says of a script, and of a program that loads no library.
_NOT_DYNAMIC = "not a dynamic executable"
_LOADED = re.compile(r"\s*(\S+) => (?:(/\S+) \(|(not found))")


def run_installation(workplace: TestWorkspace, progress: Callable[[str, int, int], None]) -> Suite:
    """Three tests: files are those of the manifest, links lead somewhere inside, libraries are the build's own."""
    started = time.monotonic()
    progress("installation", 0, 3)
    prefix = workplace.build.prefix
    checks = {
        "files": _changed_files(prefix, workplace.build.manifest["files"]),
        "links": _broken_links(prefix),
        "libraries": _foreign_libraries(workplace, prefix),
    }
    failures = [
        Failure(test, f"{len(problems)} of the installation's {test} are not what was built", tuple(problems))
        for test, problems in checks.items()
        if problems
    ]
    kept = make_directory(workplace.kept)
    seconds = time.monotonic() - started
    return Suite("installation", len(checks), len(checks) - len(failures), (), tuple(failures), (), seconds, kept)


def _changed_files(prefix: Path, files: dict[str, str]) -> list[str]:
    return [
        f"{name} is missing or has another sha256"
        for name, digest in files.items()
        if not (prefix / name).is_file() or sha256_of(prefix / name) != digest
    ]


def _broken_links(prefix: Path) -> list[str]:
    broken: list[str] = []
    for path in sorted(prefix.rglob("*")):
        if path.is_symlink():
            target = path.readlink()
            if not path.exists():  # nowhere, or in a circle
                broken.append(f"{path.relative_to(prefix)} links to {target}, which does not exist")
            elif not path.resolve().is_relative_to(prefix.resolve()):
                broken.append(f"{path.relative_to(prefix)} leads out of the installation, to {target}")
    return broken


def _foreign_libraries(workplace: TestWorkspace, prefix: Path) -> list[str]:
    """Libraries of which the build has its own (libpq …), that a program would load from elsewhere or not find."""
    own = {path.name.split(".so")[0] for path in (prefix / "lib").glob("lib*.so*")}
    foreign: list[str] = []
    for program in sorted((prefix / "bin").iterdir()):
        # ldd runs the program's own loader, whichever that is (ldd(1)).
        ended = children.run(["ldd", program], workplace.journal, role="ldd", account=workplace.account)
        if ended.returncode != 0 and _NOT_DYNAMIC not in ended.stderr:
            why = one_line(ended.stderr) or f"ldd ended with {ended.returncode}"
            foreign.append(f"{program.name} cannot be examined: {why}")
        for match in (_LOADED.match(line) for line in ended.stdout.splitlines()):
            if match and match[3]:
                foreign.append(f"{program.name} does not find {match[1]}")
            elif match and match[1].split(".so")[0] in own and not _inside(Path(match[2]), prefix):
                foreign.append(f"{program.name} loads {match[1]} from {match[2]}")
    return foreign


def _inside(path: Path, prefix: Path) -> bool:
    return path.resolve().is_relative_to(prefix.resolve())
