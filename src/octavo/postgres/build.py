"""Builds of PostgreSQL: content-addressed, complete or absent, one builder at a time per key."""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home, sync_directory
from octavo.host import children
from octavo.host.journal import Journal
from octavo.postgres.source import Source, find_source, sha256_of, unpack
from octavo.units import parse_size

# What a production package has on its hot paths; -O2 as the distributions use, without assertions.
# `rpath` relative to the program makes an installation relocatable, and the same bytes at any place.
OPTIONS = (
    "--prefix=/opt/octavo/postgresql",
    "--libdir=lib",
    "--auto-features=disabled",
    "-Doptimization=2",
    "-Ddebug=false",
    "-Dcassert=false",
    "-Dicu=enabled",
    "-Dliburing=enabled",
    "-Dlibnuma=enabled",
    "-Dlz4=enabled",
    "-Dzstd=enabled",
    "-Dzlib=enabled",
    "-Dreadline=enabled",
    "-Dssl=openssl",
    "-Drpath=false",
    "-Dc_link_args=-Wl,-rpath,$ORIGIN/../lib",
)
# liburing and libnuma support came with 18.
_OPTIONS_SINCE = {"-Dliburing=enabled": 18, "-Dlibnuma=enabled": 18}

# Parts of PostgreSQL that the laboratory has no use for: their targets are neither built nor installed.
_LEFT_OUT = ("src/test/", "src/interfaces/ecpg/")
_CONTRIB = (
    "pageinspect", "pg_buffercache", "pg_prewarm", "pg_walinspect", "pg_visibility", "pg_stat_statements",
    "pgstattuple", "pg_freespacemap", "amcheck",
)  # fmt: skip

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """What is asked for: a version (`18` or `18.6`) and the two block sizes as PostgreSQL writes them."""

    version: str
    data_block: str
    wal_block: str

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} with {self.data_block} data and {self.wal_block} WAL blocks"


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build in the cache."""

    name: str
    prefix: Path
    manifest: dict[str, Any]

    def program(self, name: str) -> Path:
        """The path of one of its programs."""
        return self.prefix / "bin" / name


def builds_directory() -> Path:
    """Where finished builds live, one directory each."""
    return octavo_home() / "builds"


def list_builds() -> list[Build]:
    """The finished builds, by name."""
    return [
        Build(path.parent.name, path.parent, json.loads(path.read_text()))
        for path in sorted(builds_directory().glob("[!.]*/manifest.json"))
    ]


def find_build(spec: BuildSpec) -> Build | None:
    """A finished build that answers the spec, newest minor version first, without looking at sources or compiler."""
    found = [
        build
        for build in list_builds()
        if build.manifest["data_block"] == spec.data_block
        and build.manifest["wal_block"] == spec.wal_block
        and (build.manifest["version"] + ".").startswith(spec.version + ".")
        and build.manifest["options"] == _options(build.manifest["version"])
        and build.manifest["contrib"] == list(_CONTRIB)
    ]
    return max(found, key=lambda build: [int(part) for part in build.manifest["version"].split(".")], default=None)


def ensure_build(
    spec: BuildSpec,
    journal: Journal,
    *,
    local: Path | None = None,
    progress: Progress = lambda done, total: None,
    waiting: Callable[[], None] = lambda: None,
) -> Build:
    """The build for the spec, made now if the cache does not have it.

    The key is a digest of the source, the sizes, the options and the compiler. The directory appears under
    its name only once it is complete. `waiting` is called when another process is at it already. Raises
    HostError when a tool or the source is missing, OctavoError when the compilation fails.
    """
    source = find_source(spec.version, journal, local)
    options = _options(source.version)
    compiler = _compiler(journal)
    ingredients: dict[str, Any] = {
        "source_sha256": source.sha256,
        "data_block": spec.data_block,
        "wal_block": spec.wal_block,
        "options": options,
        "compiler": compiler,
        "left_out": _LEFT_OUT,
        "contrib": _CONTRIB,
    }
    key = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:12]
    name = f"{source.version}-b{parse_size(spec.data_block) // 1024}w{parse_size(spec.wal_block) // 1024}-{key}"
    prefix = builds_directory() / name
    with _lock(name, waiting):
        if not (prefix / "manifest.json").exists():
            _build(spec, source, options, prefix, {**ingredients, "key": key}, journal, progress)
    return Build(name, prefix, json.loads((prefix / "manifest.json").read_text()))


@contextmanager
def _lock(name: str, waiting: Callable[[], None]) -> Generator[None, None, None]:
    directory = make_directory(builds_directory())
    with (directory / f".{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _options(version: str) -> list[str]:
    major = int(version.split(".")[0])
    return [option for option in OPTIONS if major >= _OPTIONS_SINCE.get(option, 0)]


def _compiler(journal: Journal) -> str:
    compiler = shutil.which("gcc", path=children.PLAIN_PATH)  # where the build will look for it
    if compiler is None:
        raise HostError("gcc is missing; script/bootstrap installs what a build needs")
    version = children.check(children.run([compiler, "--version"], journal, role="compiler"), "asking the compiler")
    machine = children.check(children.run([compiler, "-dumpmachine"], journal, role="compiler"), "asking the compiler")
    return f"{version.stdout.splitlines()[0]}, {machine.stdout.strip()}"


def _build(
    spec: BuildSpec,
    source: Source,
    options: list[str],
    prefix: Path,
    ingredients: dict[str, Any],
    journal: Journal,
    progress: Progress,
) -> None:
    for tool in ("meson", "ninja", "ccache", "bison", "flex", "perl"):
        if shutil.which(tool, path=children.PLAIN_PATH) is None:
            raise HostError(f"{tool} is missing; script/bootstrap installs what a build needs")
    # On the same filesystem, so that the last step is a rename; nobody else's place, so that clearing up
    # after a killed build cannot reach it. ccache sees paths relative to it (CCACHE_BASEDIR).
    work = prefix.parent / ".work" / f"{prefix.name}-{journal.token[:8]}"
    entry = journal.record("directory", path=str(work))
    make_directory(work)
    try:
        tree = unpack(source, work / "source")
        build = work / "build"
        sizes = [
            f"-Dblocksize={parse_size(spec.data_block) // 1024}",
            f"-Dwal_blocksize={parse_size(spec.wal_block) // 1024}",
        ]
        environment = {
            "CC": "ccache gcc",
            "CCACHE_DIR": str(make_directory(octavo_home() / "ccache")),
            "CCACHE_BASEDIR": str(work),
            "CCACHE_MAXSIZE": "5G",
            "NINJA_STATUS": "%f/%t ",
        }

        def run(*arguments: str | Path, doing: str, on_line: Callable[[str], None] | None = None) -> str:
            finished = children.run(
                arguments, journal, role=doing, directory=work, environment=environment, on_line=on_line
            )
            if finished.returncode != 0:
                log = prefix.parent / ".work" / f"{prefix.name}.log"
                log.write_text(finished.stdout + finished.stderr)
                raise OctavoError(f"{doing} of PostgreSQL {source.version} failed; see {log}")
            return finished.stdout

        run("meson", "setup", build, tree, *options, *sizes, doing="configuration")
        installed: dict[str, str] = json.loads(run("meson", "introspect", "--installed", build, doing="introspection"))
        wanted = _wanted(installed, build, tree)
        known = {
            line.rpartition(": ")[0]
            for line in run("ninja", "-C", build, "-t", "targets", "all", doing="listing").splitlines()
        }
        targets = sorted(known & {os.path.relpath(path, build) for path in wanted if Path(path).is_relative_to(build)})

        def watch(line: str) -> None:
            if match := re.match(r"(\d+)/(\d+) ", line):
                progress(int(match[1]), int(match[2]))

        run("ninja", "-C", build, *targets, doing="compilation", on_line=watch)
        _install(wanted, work / "install")
        root = work / "install" / "opt" / "octavo" / "postgresql"
        reported = children.check(
            children.run([root / "bin" / "postgres", "--version"], journal, role="smoke test"),
            "the new postgres",
        ).stdout.strip()
        files = sorted(path for path in root.rglob("*") if path.is_file())
        manifest = {
            "version": source.version,
            "reported": reported,
            "origin": source.origin,
            **ingredients,
            "source": {**asdict(source), "tarball": source.tarball.name},
            "files": {str(path.relative_to(root)): sha256_of(path) for path in files},
        }
        (root / "manifest.json").write_text(json.dumps(manifest, indent=1))
        os.sync()
        root.rename(prefix)
        sync_directory(prefix.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        journal.done(entry)


def _wanted(installed: dict[str, str], build: Path, tree: Path) -> dict[str, str]:
    """Of what `meson install` would install (from: to), the part that the laboratory uses.

    A symbolic link is listed as its text: to. It is wanted when what it points to is.
    """

    def is_wanted(path: Path) -> bool:
        relative = str(path.relative_to(build if path.is_relative_to(build) else tree))
        if relative.startswith("contrib/"):
            return relative.split("/")[1] in _CONTRIB
        return not relative.startswith(_LEFT_OUT)

    wanted = {
        source: target for source, target in installed.items() if source.startswith("/") and is_wanted(Path(source))
    }
    pending = {source: target for source, target in installed.items() if not source.startswith("/")}
    while found := {
        text: link for text, link in pending.items() if str(Path(link).parent / text) in wanted.values()
    }:  # fmt: skip
        wanted |= found
        pending = {text: link for text, link in pending.items() if text not in found}
    return wanted


def _install(wanted: dict[str, str], destination: Path) -> None:
    for source, target in wanted.items():
        path = destination / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not source.startswith("/"):
            path.symlink_to(source)
        elif Path(source).is_dir():
            shutil.copytree(source, path, dirs_exist_ok=True)
        else:
            shutil.copy(source, path)
