"""Where a build is tested: PostgreSQL's own tests from its source, compiled against the installed build."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.home import make_directory, octavo_home, runtime_directory
from octavo.host import children, set_user_id, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import check_reachable
from octavo.postgres.source import find_source, unpack

_LIBRARIES = ("autoinc", "refint")  # from contrib/spi, used by the triggers test before 18


@dataclass(frozen=True, slots=True)
class Tests:
    """PostgreSQL's tests, unpacked: the tree, and the sha256 of the tarball that it came from."""

    tree: Path
    sha256: str
    directory: Path


@dataclass(frozen=True, slots=True)
class TestWorkspace:
    """A build and all that its tests need. `short` is the account's own, `directory` is ours; `kept` stays."""

    build: Build
    tests: Path
    libraries: Path
    directory: Path
    short: Path
    kept: Path
    journal: Journal
    account: Account

    def own(self, name: str) -> Path:
        """A new directory in the workplace that the account may write."""
        return trees.make_for(self.directory / name, self.account, 0o755)

    @property
    def driver(self) -> Path:
        """The directory of the build's test drivers."""
        return self.build.prefix / "lib" / "pgxs" / "src" / "test"

    def environment(self) -> dict[str, str]:
        """The environment of test drivers: the build's programs first, C collation, and a place for sockets."""
        return {
            "PATH": f"{self.build.prefix / 'bin'}{os.pathsep}{children.PLAIN_PATH}",
            "LC_ALL": "C",
            "TMPDIR": str(self.short),
        }


def check_directory() -> Path:
    """Where checks work, and keep what differed."""
    return octavo_home() / "check"


@contextmanager
def open_tests(version: str, journal: Journal, local: Path | None = None) -> Generator[Tests, None, None]:
    """The tests of a version, unpacked and gone at the end. Raises HostError when there is no source."""
    source = find_source(version, journal, local)
    directory = make_directory(check_directory()) / f".tests-{secrets.token_hex(4)}"
    entry = journal.record("directory", path=str(directory))
    try:
        yield Tests(unpack(source, make_directory(directory)), source.sha256, directory)
    finally:
        if trees.remove(directory):
            journal.done(entry)


@contextmanager
def open_workspace(
    build: Build, tests: Tests, journal: Journal, account: Account
) -> Generator[TestWorkspace, None, None]:
    """A place to test the build, gone at the end. Raises OctavoError when the build is of another source."""
    if build.manifest["source_sha256"] != tests.sha256:
        raise OctavoError(
            f"{build.name} was built from another source of {build.manifest['version']} than the tests; "
            "give its tarball with --source"
        )
    driver = build.prefix / "lib" / "pgxs" / "src" / "test" / "regress" / "pg_regress"
    if not driver.exists():
        raise OctavoError(f"{build.name} has no pg_regress, as an older Octavo built it; remove it and build again")
    directory = tests.directory / build.name
    short = make_directory(runtime_directory()) / f"check-{secrets.token_hex(3)}"
    entries = [journal.record("directory", path=str(path)) for path in (directory, short)]
    try:
        make_directory(directory)
        trees.make_for(short, account)
        check_reachable(directory / "data", account)
        libraries = _compile_libraries(build, tests.tree, directory / "lib", journal, account)
        kept = check_directory() / build.name
        with set_user_id.none_left(account):
            yield TestWorkspace(build, tests.tree / "src" / "test", libraries, directory, short, kept, journal, account)
    finally:
        for path, entry in zip((directory, short), entries, strict=True):
            if trees.remove(path):
                journal.done(entry)


def _compile_libraries(build: Build, tree: Path, target: Path, journal: Journal, account: Account) -> Path:
    """The C functions that the tests call, compiled against the headers that the build installed, as the account."""
    trees.make_for(target, account, 0o755)
    sources = [tree / "src" / "test" / "regress" / "regress.c"]
    sources += [tree / "contrib" / "spi" / f"{name}.c" for name in _LIBRARIES]
    compiler = str(build.manifest.get("compiler_command", "gcc"))
    for source in sources:
        library = target / f"{source.stem}.so"
        headers = build.prefix / "include" / "server"
        arguments = [compiler, "-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", f"-I{headers}", source, "-o", library]
        children.check(children.run(arguments, journal, role="compiler", account=account), f"compiling {source.name}")
    return target
