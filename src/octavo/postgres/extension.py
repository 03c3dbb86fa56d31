"""Extensions from source (PGXS), built against a build and installed into it: recorded last, complete or absent.

PostgreSQL's documentation, "Extension Building Infrastructure", describes the form of such a source.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory, sync_directory, write_durably
from octavo.host import careful_open, children
from octavo.host.children import Account
from octavo.host.copy_out import open_below
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import RECORDS, Build, locked, read_build
from octavo.postgres.builds.make import quiet
from octavo.postgres.builds.toolchain import check_tools
from octavo.postgres.builds.usage import not_postgresqls
from octavo.postgres.builds.worker_client import open_worker
from octavo.postgres.scratch import scratch_server
from octavo.postgres.source import sha256_of

# Files that an earlier compilation may have left in the source, and which are not part of it; and what its tests leave
# beside the Makefile (pgxs.mk), where directories further down may have the same names.
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".deps", "*.o", "*.so", "*.bc", "*.a")
_LEFT_BY_TESTS = frozenset({"results", "tmp_check", "log"})

_MOST_CONTROL = 64 * 1024  # for a control file, which has a few lines


@dataclass(frozen=True, slots=True)
class InstalledExtension:
    """An extension in a build: its record, whether it was already installed, and the seconds that it took."""

    build: Build
    record: dict[str, Any]
    cached: bool
    seconds: float

    @property
    def name(self) -> str:
        """The extension's name for CREATE EXTENSION."""
        return self.record["name"]


def installed_extensions(build: Build) -> list[dict[str, Any]]:
    """The records of the extensions added to the build, by name: `name`, `version`, `files` (path: sha256) and more.

    `problem` is the server's error when the extension was tested, None if it works; it may be missing.
    """
    return [json.loads(path.read_text()) for path in sorted(_records(build).glob("[!.]*.json"))]


def build_extension(build: Build, directory: Path, journal: Journal) -> InstalledExtension:
    """Compiles the extension in the directory against the build and installs it there; the directory is only read.

    The record is written last, so that an interrupted installation does not count. An unchanged source is not built
    again. Raises UsageError when the directory is not an extension, HostError when a tool is missing, OctavoError when
    it does not compile or would replace a file of another owner.
    """
    check_source(directory)
    check_tools(meson=False)
    digest = source_digest(directory)
    started = time.monotonic()
    with locked(build.name, lambda: None):
        if read_build(build.name) is None:
            raise OctavoError(f"{build.name} was removed in the meantime; build it again")
        for record in installed_extensions(build):
            if record["source_sha256"] == digest and record["source_name"] == directory.resolve().name:
                return InstalledExtension(build, record, True, time.monotonic() - started)
        with _staged(build, directory, digest, journal) as stage:
            record = _describe(directory, digest, stage)
            _install(build, stage, record)
    return InstalledExtension(build, record, False, time.monotonic() - started)


def check_source(directory: Path) -> None:
    """Raises UsageError when the directory has no extension that is built with PGXS."""
    if not directory.is_dir():
        raise UsageError(f"--with-extension {directory}: no such directory")
    makefiles = [directory / name for name in ("GNUmakefile", "makefile", "Makefile")]
    try:
        text = next((careful_open.read_text(path) for path in makefiles if path.is_file()), None)
    except OSError as error:
        raise UsageError(f"--with-extension {directory}: its Makefile cannot be read: {error.strerror}") from error
    if text is None:
        raise UsageError(f"--with-extension {directory}: it has no Makefile; give the root of an extension's source")
    if "pgxs" not in text.lower():
        raise UsageError(
            f"--with-extension {directory}: its Makefile does not use PGXS, and Octavo supports no other way to build "
            "one"
        )


def source_digest(directory: Path) -> str:
    """The sha256 over names, contents and executable bits of the source's files. Raises UsageError like `_read`."""
    return _read(directory, None)


def try_extension(installed: InstalledExtension, journal: Journal, account: Account) -> str | None:
    """Creates the extensions on a scratch server of the build (a library without one is loaded), once per source.

    Returns the server's error, or None if it works, and stores it in the record as `problem`. A library is preloaded if
    the server reports that this is required.
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
    """The server's error, also when it does not start with the settings. Raises HostError."""
    statements = [f'CREATE EXTENSION IF NOT EXISTS "{name}" CASCADE' for name in record["extensions"]]
    statements = statements or [f"LOAD '{name}'" for name in record["libraries"]]
    try:
        with scratch_server(build, journal, account, settings) as server, server.connect("postgres") as connection:
            for statement in statements:
                connection.execute(statement.encode())
    except HostError:
        raise
    except (OctavoError, psycopg.Error) as error:
        return str(error)
    return None


def _records(build: Build) -> Path:
    return build.prefix / RECORDS


def _read(directory: Path, archive: tarfile.TarFile | None) -> str:
    """The source's digest; the files are also added to the archive. Links are recorded as links, not followed.

    Raises UsageError for anything other than files, directories and links, or when one cannot be read.
    """
    digest = hashlib.sha256()

    def add(
        path: str, mode: int, content: str, *, link: str = "", file: IO[bytes] | None = None, size: int = 0
    ) -> None:
        executable = mode & 0o111
        digest.update(f"{path}\0{'x' if executable else '-'}\0{content}\n".encode(errors="surrogateescape"))
        if archive is not None:
            member = tarfile.TarInfo(path)
            member.mode = 0o755 if executable else 0o644
            member.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
            member.linkname, member.size = link, size
            archive.addfile(member, file)

    def read(place: int, below: str) -> None:
        names = sorted(os.listdir(place))
        ignored = {*_LEFT_BEHIND(below, names), *(() if below else _LEFT_BY_TESTS)}
        directories: list[str] = []
        for name in (name for name in names if name not in ignored):
            mode = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
            path = f"{below}{name}"
            if stat.S_ISDIR(mode):
                directories.append(name)
            elif stat.S_ISLNK(mode):
                text = os.readlink(name, dir_fd=place)
                add(path, mode, f"-> {text}", link=text)
            else:
                with os.fdopen(open_below(place, name), "rb") as file:
                    facts = os.fstat(file.fileno())
                    if not stat.S_ISREG(facts.st_mode):
                        raise UsageError(f"--with-extension {directory}: {path} is not a file")
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                    file.seek(0)
                    add(path, facts.st_mode, content, file=file, size=facts.st_size)
        for name in directories:
            descriptor = open_below(place, name, os.O_DIRECTORY)
            try:
                read(descriptor, f"{below}{name}/")
            finally:
                os.close(descriptor)

    try:
        top = careful_open.open_directory(directory)
        try:
            read(top, "")
        finally:
            os.close(top)
    except OSError as error:
        problem = error.strerror or error
        raise UsageError(f"--with-extension {directory}: {error.filename or directory}: {problem}") from error
    except RecursionError:
        raise UsageError(f"--with-extension {directory}: its directories nest too deeply") from None
    return digest.hexdigest()


@contextmanager
def _staged(build: Build, directory: Path, digest: str, journal: Journal) -> Generator[dict[str, Path], None, None]:
    """Yields the files that the extension installs, in our own copy: by path below the prefix.

    The account builds them. Raises OctavoError when that fails, or the source no longer has the digest.
    """
    name = directory.resolve().name
    prefix = build.prefix.resolve()
    subject = f"{name} for {build.name}"
    with open_worker(f"{build.name}-{name}", subject, journal, builds=0) as place:
        source, staged = place.directory / "source.tar", place.directory / "staged"
        with tarfile.open(source, "w", format=tarfile.PAX_FORMAT) as archive:
            if _read(directory, archive) != digest:
                raise OctavoError(f"{directory} changed while it was read; try again")
        asked = {
            "compiler": build.manifest.get("compiler_command", "gcc"),
            "extension": {"pg_config": str(prefix / "bin" / "pg_config"), "prefix": str(prefix), "subject": subject},
        }
        place.make(asked, source, cache=_whose_cache(build, directory), progress=quiet, ready=quiet)
        place.copy(0, staged)
        files = sorted(path for path in staged.rglob("*") if path.is_symlink() or path.is_file())
        yield {str(path.relative_to(staged)): path for path in files}


def _whose_cache(build: Build, directory: Path) -> str:
    """The owner of the results in the compiler's cache: the extension. make also runs files that others have added to
    the build, its own PGXS or those of another extension. Their output must not be used for another build."""
    whose = f"extension {directory.resolve()}"
    others = not_postgresqls(build)
    return f"{whose} for {build.name} with {', '.join(others)}" if others else whose


def _describe(directory: Path, digest: str, stage: Mapping[str, Path]) -> dict[str, Any]:
    controls = {Path(name).stem: path for name, path in stage.items() if name.endswith(".control") and path.is_file()}
    libraries = sorted(Path(name).stem for name in stage if re.fullmatch(r"lib/[^/]+\.so", name))
    name = directory.resolve().name
    main = name if name in controls else next(iter(sorted(controls)), next(iter(libraries), name))
    if main.startswith("."):  # its record would be ignored
        raise OctavoError(f"{main} begins with a dot, which no extension's name does; rename it")
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
    """The default version in a control file (PostgreSQL's documentation, "Extension Control Files")."""
    with control.open("rb") as file:
        text = file.read(_MOST_CONTROL).decode(errors="replace")
    match = re.search(r"^\s*default_version\s*=\s*'?([^'\s#]+)", text, re.MULTILINE)
    return match[1] if match else ""


def _digest(path: Path) -> str:
    return f"-> {path.readlink()}" if path.is_symlink() else sha256_of(path)


def _install(build: Build, stage: Mapping[str, Path], record: Mapping[str, Any]) -> None:
    """Moves the staged files in, each by a rename, because builds share files by hard links. The record is written
    last.

    Meanwhile a hidden list has the files that may exist, so that the next attempt recognises them as ours.
    """
    records = make_directory(_records(build))
    final = records / f"{record['name']}.json"
    begun = records / f".{record['name']}.begun"
    ours = {name for path in (final, begun) if path.exists() for name in json.loads(path.read_text())["files"]}
    for other in installed_extensions(build):  # it may have come after an attempt that was interrupted
        if other["name"] != record["name"]:
            ours.difference_update(other["files"])
    _check_free(build, record, ours)
    write_durably(begun, json.dumps({"files": sorted(ours | set(stage))}))
    final.unlink(missing_ok=True)
    sync_directory(records)
    for name, path in stage.items():
        _put(path, build.prefix / name, build.prefix)
    for name in sorted(ours - set(stage)):
        (build.prefix / name).unlink(missing_ok=True)
    os.sync()
    write_durably(final, json.dumps(record, indent=1))
    begun.unlink()


def _check_free(build: Build, record: Mapping[str, Any], ours: set[str]) -> None:
    """Raises OctavoError when a file would replace one of PostgreSQL's own or of another extension, or would hide one
    of the system's programs where the build's programs come first in the path (`octavo env`, `octavo shell`).
    """
    owners = dict.fromkeys(build.manifest["files"], "PostgreSQL itself")
    for other in installed_extensions(build):
        owners |= {name: f"the extension {other['name']}" for name in other["files"] if name not in ours}
    for name in record["files"]:
        if name.startswith("bin/") and (hidden := shutil.which(Path(name).name, path=children.PLAIN_PATH)):
            raise OctavoError(f"{record['name']} would install {name}, a program of the name that {hidden} has")
        # The loader prefers it to the system's (RUNPATH), also in directories such as glibc-hwcaps (ld.so(8)).
        if re.search(r"^lib/.*\.so\.", name, re.DOTALL):
            raise OctavoError(f"{record['name']} would install {name}, which the build's programs may load by its name")
        if owner := owners.get(name):
            raise OctavoError(f"{record['name']} would replace {name} in {build.name}, which belongs to {owner}")


def _put(source: Path, target: Path, prefix: Path) -> None:
    # A parent may be a link that was installed before; `copy_out` does not check links for paths below a link.
    for above in target.relative_to(prefix).parents[:-1]:
        if (prefix / above).is_symlink():
            raise OctavoError(f"{prefix / above} is a link; nothing is installed below it")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = prefix / RECORDS / ".new"  # if we are killed, it is among what is not PostgreSQL's (`added_files`)
    beside.unlink(missing_ok=True)
    shutil.copy2(source, beside, follow_symlinks=False)
    beside.replace(target)
