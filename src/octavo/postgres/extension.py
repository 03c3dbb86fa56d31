"""Extensions from source (PGXS), built against a build and installed into it: recorded last, complete or absent.

PostgreSQL's documentation, "Extension Building Infrastructure", describes what such a source is.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from octavo.errors import OctavoError, UsageError
from octavo.home import make_directory, sync_directory, write_durably
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build, locked, read_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.toolchain import check_tools
from octavo.postgres.builds.workplace import Workplace, open_workplace
from octavo.postgres.scratch import scratch_server
from octavo.postgres.source import sha256_of

# What a compilation against another PostgreSQL may have left in the source, and what is no part of it.
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".deps", "*.o", "*.so", "*.bc", "*.a", "results", "tmp_check", "log")
# Meson writes the run path into Makefile.global as $ORIGIN, which make reads as the variable O and RIGIN. With this
# value it is what was meant; where the makefile has it right nothing refers to O.
_ORIGIN = r"O=\$$O"


@dataclass(frozen=True, slots=True)
class Installed:
    """An extension in a build: its record, whether it was there before, and the seconds that it took."""

    build: Build
    record: dict[str, Any]
    cached: bool
    seconds: float

    @property
    def name(self) -> str:
        """The extension's name, as CREATE EXTENSION takes it."""
        return self.record["name"]


def installed_extensions(build: Build) -> list[dict[str, Any]]:
    """The records of what was added to the build, by name: `name`, `version`, `files` (path: sha256) and more.

    `problem` is what a server said when the extension was tried on it, None when it worked; it may be missing.
    """
    return [json.loads(path.read_text()) for path in sorted(_records(build).glob("[!.]*.json"))]


def build_extension(build: Build, directory: Path, journal: Journal) -> Installed:
    """Compiles the extension in the directory against the build and installs it there; the directory is only read.

    The record is written last, so that an installation that was killed is none. A source that did not change is
    not built again. Raises UsageError when the directory is no extension, HostError when a tool is missing,
    OctavoError when it does not compile or would replace a file that is not its own.
    """
    check_source(directory)
    check_tools(meson=False)
    digest = source_digest(directory)
    started = time.monotonic()
    with locked(build.name, lambda: None):
        if read_build(build.name) is None:
            raise OctavoError(f"{build.name} was removed meanwhile; build it again")
        for record in installed_extensions(build):
            if record["source_sha256"] == digest and record["source_name"] == directory.resolve().name:
                return Installed(build, record, True, time.monotonic() - started)
        with _staged(build, directory, journal) as stage:
            record = _describe(directory, digest, stage)
            _install(build, stage, record)
    return Installed(build, record, False, time.monotonic() - started)


def check_source(directory: Path) -> None:
    """Raises UsageError when the directory holds no extension that is built with PGXS."""
    if not directory.is_dir():
        raise UsageError(f"--with-extension {directory}: no such directory")
    makefiles = [directory / name for name in ("GNUmakefile", "makefile", "Makefile")]
    text = next((path.read_text(errors="replace") for path in makefiles if path.is_file()), None)
    if text is None:
        raise UsageError(f"--with-extension {directory}: it has no Makefile; give the root of an extension's source")
    if "pgxs" not in text.lower():
        raise UsageError(
            f"--with-extension {directory}: its Makefile does not use PGXS, and no other way is known here"
        )


def source_digest(directory: Path) -> str:
    """The sha256 over names, contents and executable bits of the source's files."""
    digest = hashlib.sha256()
    for path in _source_files(directory):
        mode = "x" if os.access(path, os.X_OK) else "-"
        content = f"-> {path.readlink()}" if path.is_symlink() else sha256_of(path)
        digest.update(f"{path.relative_to(directory)}\0{mode}\0{content}\n".encode())
    return digest.hexdigest()


def try_extension(installed: Installed, journal: Journal, account: Account) -> str | None:
    """Creates the extensions on a scratch server of the build (a library without one is loaded), once per source.

    Returns what the server says against it, or None when it works, and keeps that in the record as `problem`. A
    library that wants to be preloaded is, when the server says so.
    """
    build, record = installed.build, installed.record
    if "problem" in record and record["problem"] is None:
        return None
    problem = _try(build, record, journal, account, {})
    if problem and "shared_preload_libraries" in problem:
        problem = _try(build, record, journal, account, {"shared_preload_libraries": ",".join(record["libraries"])})
    problem = problem and problem.splitlines()[0]
    with locked(build.name, lambda: None):
        final = _records(build) / f"{installed.name}.json"
        if final.exists() and json.loads(final.read_text())["source_sha256"] == record["source_sha256"]:
            write_durably(final, json.dumps({**record, "problem": problem}, indent=1))
    return problem


def _try(
    build: Build, record: Mapping[str, Any], journal: Journal, account: Account, settings: Mapping[str, str]
) -> str | None:
    statements = [f'CREATE EXTENSION IF NOT EXISTS "{name}" CASCADE' for name in record["extensions"]]
    statements = statements or [f"LOAD '{name}'" for name in record["libraries"]]
    with scratch_server(build, journal, account, settings) as server, server.connect("postgres") as connection:
        for statement in statements:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                return str(error)
    return None


def _records(build: Build) -> Path:
    return build.prefix / "extensions"


def _source_files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for place, directories, names in os.walk(directory):
        ignored = _LEFT_BEHIND(place, [*directories, *names])
        directories[:] = sorted(name for name in directories if name not in ignored)
        found += [Path(place) / name for name in sorted(names) if name not in ignored]
    return found


@contextmanager
def _staged(build: Build, directory: Path, journal: Journal) -> Generator[dict[str, Path], None, None]:
    """The files that the extension installs, compiled in a workplace of its own: path below the prefix, the file."""
    name = directory.resolve().name
    subject = f"{name} for {build.name}"
    manifest = build.manifest
    spec = BuildSpec(
        manifest["version"],
        manifest["data_block"],
        manifest["wal_block"],
        compiler=manifest.get("compiler_command", "gcc"),
    )
    with open_workplace(f"{build.name}-{name}", spec, journal, builds=0) as opened:
        workplace = replace(opened, subject=subject)
        tree, stage = workplace.directory / "source", workplace.directory / "stage"
        shutil.copytree(directory, tree, symlinks=True, ignore=_LEFT_BEHIND)
        _make(workplace, tree, build, "clean", doing="cleaning")
        _make(workplace, tree, build, f"-j{os.cpu_count() or 1}", doing="compilation")
        _make(workplace, tree, build, "install", f"DESTDIR={stage}", doing="installation")
        root = stage / str(build.prefix.resolve()).lstrip("/")
        files = sorted(path for path in stage.rglob("*") if path.is_symlink() or path.is_file())
        if outside := next((path for path in files if not path.is_relative_to(root)), None):
            raise OctavoError(
                f"{subject} installs /{outside.relative_to(stage)}, which is not below the build's prefix"
            )
        if not files:
            raise OctavoError(f"{subject} installs nothing; its Makefile names no EXTENSION, DATA or MODULES")
        yield {str(path.relative_to(root)): path for path in files}


def _make(workplace: Workplace, tree: Path, build: Build, *arguments: str, doing: str) -> None:
    workplace.run(
        "make",
        "--no-print-directory",
        f"--directory={tree}",
        f"PG_CONFIG={build.prefix.resolve() / 'bin' / 'pg_config'}",
        "USE_PGXS=1",  # how contrib's makefiles ask for it
        f"CC={workplace.environment['CC']}",
        _ORIGIN,
        *arguments,
        doing=doing,
        on_line=lambda line: None,  # so that the compiler's errors come in between
    )


def _describe(directory: Path, digest: str, stage: Mapping[str, Path]) -> dict[str, Any]:
    controls = {Path(name).stem: path for name, path in stage.items() if name.endswith(".control")}
    libraries = sorted(Path(name).stem for name in stage if re.fullmatch(r"lib/[^/]+\.so", name))
    name = directory.resolve().name
    main = name if name in controls else next(iter(sorted(controls)), next(iter(libraries), name))
    return {
        "name": main,
        "version": _version(controls[main]) if main in controls else "",
        "extensions": {found: _version(path) for found, path in sorted(controls.items())},
        "libraries": libraries,
        "source_name": name,
        "source_sha256": digest,
        "files": {name: _digest(path) for name, path in stage.items()},
    }


def _version(control: Path) -> str:
    """The default version that a control file names (PostgreSQL's documentation, "Extension Control Files")."""
    match = re.search(r"^\s*default_version\s*=\s*'?([^'\s#]+)", control.read_text(errors="replace"), re.MULTILINE)
    return match[1] if match else ""


def _digest(path: Path) -> str:
    return f"-> {path.readlink()}" if path.is_symlink() else sha256_of(path)


def _install(build: Build, stage: Mapping[str, Path], record: Mapping[str, Any]) -> None:
    """Moves the staged files in, each by a rename, because builds share files by hard links, and the record last.

    While this goes on, a hidden list says what may be there, so that the next try knows what is ours.
    """
    records = make_directory(_records(build))
    final = records / f"{record['name']}.json"
    begun = records / f".{record['name']}.begun"
    ours = {name for path in (final, begun) if path.exists() for name in json.loads(path.read_text())["files"]}
    _check_free(build, record, ours)
    write_durably(begun, json.dumps({"files": sorted(ours | set(stage))}))
    final.unlink(missing_ok=True)
    sync_directory(records)
    for name, path in stage.items():
        _put(path, build.prefix / name)
    for name in sorted(ours - set(stage)):
        (build.prefix / name).unlink(missing_ok=True)
    os.sync()
    write_durably(final, json.dumps(record, indent=1))
    begun.unlink()


def _check_free(build: Build, record: Mapping[str, Any], ours: set[str]) -> None:
    """Raises OctavoError when a file would replace one of PostgreSQL's own or of another extension."""
    owners = dict.fromkeys(build.manifest["files"], "PostgreSQL itself")
    for other in installed_extensions(build):
        owners |= {name: f"the extension {other['name']}" for name in other["files"] if name not in ours}
    for name in record["files"]:
        if owner := owners.get(name):
            raise OctavoError(f"{record['name']} would replace {name} in {build.name}, which belongs to {owner}")


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    shutil.copy2(source, beside, follow_symlinks=False)
    beside.replace(target)
