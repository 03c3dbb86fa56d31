"""Real packages: the same bytes from separate builds, run from where they are unpacked, installed in and purged from a
Debian."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.debian import clean_debian, needs_debootstrap, this_suite
from tests.integration.servers import data_directory, running
from tests.namespaces import LET_VOLUMES_GO
from tests.thorough import THOROUGH, in_thorough_tests
from tests.tools import needs

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.packaging import package
from octavo.packaging.binaries import linkage
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.worker_client import COMPILER_CACHE
from octavo.postgres.source import sha256_of
from octavo.units import parse_size

pytestmark = pytest.mark.beside

needs_dpkg = needs("dpkg-shlibdeps")

PREFIX = "/opt/octavo/postgresql/18-b4w8"
PACKAGE = "octavo-postgresql-18-b4w8"
# The user that every Debian has and that owns no files.
SERVER_USER = "nobody:nogroup"


def output(journal: Journal, *arguments: str | Path) -> str:
    return children.check(children.run(arguments, journal, role="test"), str(arguments[0])).stdout


@pytest.fixture(scope="module", autouse=True)
def quickly_compressed() -> Iterator[None]:
    """Saves half a minute per package; the size is irrelevant here. Thorough tests use Octavo's own preset."""
    with pytest.MonkeyPatch.context() as patch:
        if not THOROUGH:
            patch.setattr("octavo.packaging.archive._PRESET", 0)
        yield


@pytest.fixture(scope="module")
def build(builds: dict[str, Build]) -> Build:
    return builds["4kB"]


@pytest.fixture(scope="module")
def debian_package(build: Build, home: Path) -> Path:
    with Journal() as journal:
        return package(build, "deb", home / "packages", journal)


@pytest.fixture
def unpacked(build: Build, home: Path, journal: Journal) -> Iterator[Build]:
    """The tar of the build, unpacked in another directory and used as a build."""
    place = home / "unpacked"
    path = package(build, "tar", home / "packages", journal)
    output(journal, "tar", "--extract", "--file", path, "--one-top-level=" + str(place))
    (prefix,) = place.iterdir()
    yield Build("unpacked", prefix, build.manifest)
    shutil.rmtree(place)


@pytest.fixture
def elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory without builds, but with the sources and the compiler cache."""
    directory = home / "separate"
    directory.mkdir()
    for name in ("sources", COMPILER_CACHE):
        (directory / name).symlink_to((home / name).resolve())
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    yield directory
    shutil.rmtree(directory)


def is_the_same(again: Path, package: Path) -> bool:
    """Whether both have the same name and bytes; pytest would search for the difference in all of them."""
    return again.name == package.name and sha256_of(again) == sha256_of(package)


@needs_dpkg
def test_a_package_made_elsewhere_is_the_same(build: Build, debian_package: Path, elsewhere: Path) -> None:
    with Journal() as journal:
        assert is_the_same(package(build, "deb", elsewhere / "packages", journal), debian_package)


@needs_dpkg
@in_thorough_tests
def test_two_separate_builds_make_the_same_package(debian_package: Path, elsewhere: Path) -> None:
    """Minutes: the compiler cache contains nothing of one block size that another one could use.

    Without it, `test_two_separate_builds_are_the_same_byte_for_byte` compares the files at the default block.
    """
    with Journal() as journal:
        made = ensure_build(BuildSpec("18", "4kB"), journal)
        assert is_the_same(package(made, "deb", elsewhere / "packages", journal), debian_package)


@needs_dpkg
def test_nothing_of_the_distributions_is_touched(debian_package: Path, journal: Journal) -> None:
    listed = [line.split(maxsplit=5)[5] for line in output(journal, "dpkg-deb", "-c", debian_package).splitlines()]
    ours = (f".{PREFIX}/", f"./usr/share/doc/{PACKAGE}/")
    strangers = [path for path in listed if not path.startswith(ours) and not any(own.startswith(path) for own in ours)]
    assert strangers == []
    assert output(journal, "dpkg-deb", "--field", debian_package, "Version").strip().endswith("+b4w8")
    assert "libc6" in output(journal, "dpkg-deb", "--field", debian_package, "Depends")
    assert output(journal, "dpkg-deb", "--field", debian_package, "Conflicts").strip() == ""


# The smallest extension: built with the package's PGXS, installed into it, and called.
_EXTENSION = {
    "Makefile": "MODULES = blocks\nEXTENSION = blocks\nDATA = blocks--1.sql\nPGXS := $(shell $(PG_CONFIG) --pgxs)\n"
    "include $(PGXS)\n",
    "blocks.control": "default_version = '1'\nmodule_pathname = '$libdir/blocks'\n",
    "blocks--1.sql": "CREATE FUNCTION blcksz() RETURNS int AS 'MODULE_PATHNAME' LANGUAGE C;\n",
    "blocks.c": '#include "postgres.h"\n#include "fmgr.h"\nPG_MODULE_MAGIC;\nPG_FUNCTION_INFO_V1(blcksz);\n'
    "Datum blcksz(PG_FUNCTION_ARGS) { PG_RETURN_INT32(BLCKSZ); }\n",
}


def test_a_tar_runs_where_it_is_unpacked_and_compiles_extensions(
    unpacked: Build, journal: Journal, account: Account, tmp_path: Path
) -> None:
    for line in output(journal, unpacked.program("pg_config")).splitlines():
        name, _, value = line.partition(" = ")
        if name.endswith(("DIR", "DIR-SERVER", "PGXS")):
            assert Path(value).is_relative_to(unpacked.prefix), line
    assert f"=> {unpacked.prefix}/" in output(journal, "ldd", unpacked.program("psql")).replace("bin/../", "")
    searched = output(
        journal, "readelf", "--dynamic", *unpacked.prefix.glob("bin/p*"), unpacked.prefix / "lib/libpq.so"
    )
    assert {line.rpartition(" ")[2] for line in searched.splitlines() if "UNPATH" in line} == {"[$ORIGIN/../lib]"}
    assert "prefix=${pcfiledir}" in (unpacked.prefix / "lib" / "pkgconfig" / "libpq.pc").read_text()
    for name, text in _EXTENSION.items():
        (tmp_path / name).write_text(text)
    output(journal, "make", "-C", tmp_path, f"PG_CONFIG={unpacked.program('pg_config')}", "install")
    with (
        data_directory(unpacked, journal, account) as path,
        running(unpacked, path, journal, account) as server,
        server.connect("octavo") as connection,
    ):
        assert server.settings()["block_size"] == "4096"
        connection.execute("CREATE EXTENSION blocks")
        assert connection.execute("SELECT blcksz() AS size").fetchone() == {"size": parse_size("4kB")}


def test_a_build_whose_programs_would_take_the_systems_library_is_refused(
    build: Build, journal: Journal, home: Path
) -> None:
    place = home / f"linkage-{build.name}"  # the account reads it
    try:
        for name in ("bin/psql", "lib/libpq.so.5.18"):
            (place / name).parent.mkdir(parents=True)
            shutil.copy(build.prefix / name, place / name)
        with pytest.raises(OctavoError, match=r"need libpq\.so\.5"):
            linkage(place, journal)
    finally:
        shutil.rmtree(place)


@pytest.fixture
def debian(home: Path, journal: Journal) -> Iterator[Path]:
    """The root of a clean Debian for this test alone."""
    with clean_debian(home, journal, this_suite()) as root:
        yield root


@needs_root
@needs_dpkg
@needs_debootstrap
def test_it_is_installed_runs_and_is_purged_in_a_clean_debian(
    debian_package: Path, debian: Path, journal: Journal
) -> None:
    def inside(*arguments: str, user: str = "root:root") -> str:
        # The loader finds $ORIGIN by /proc. It is mounted in a namespace that ends with the last process in it.
        finished = children.run(
            ["unshare", f"--mount-proc={debian / 'proc'}", "sh", "-c", f'{LET_VOLUMES_GO} && exec chroot "$@"', "sh",
             f"--userspec={user}", debian, *arguments],
            journal,
            role=arguments[0],
            environment={"DEBIAN_FRONTEND": "noninteractive", "HOME": "/"},
        )  # fmt: skip
        return children.check(finished, " ".join(arguments)).stdout

    def program(name: str, *arguments: str) -> str:
        return inside(f"{PREFIX}/bin/{name}", *arguments, user=SERVER_USER)

    def psql(command: str) -> str:
        return program("psql", "-X", "-A", "-t", "-h", "/srv", "-d", "postgres", "-c", command).strip()

    shutil.copy(debian_package, debian / "root" / debian_package.name)
    try:
        inside("apt-get", "--quiet", "update")
    except OctavoError as error:
        pytest.skip(f"no Debian archive: {error}")
    before = set(debian.glob("opt/**/*")) | set(debian.glob("usr/share/doc/*"))
    inside("apt-get", "--quiet", "--yes", "install", "--no-install-recommends", f"/root/{debian_package.name}")
    assert inside("dpkg", "--verify", PACKAGE) == ""
    libraries = sorted(f"/{path.relative_to(debian)}" for path in debian.glob(f"{PREFIX[1:]}/lib/*.so"))
    assert "not found" not in inside("ldd", f"{PREFIX}/bin/postgres", f"{PREFIX}/bin/psql", *libraries)
    (debian / "srv").chmod(0o777)
    data = "/srv/data"
    program("initdb", "-D", data, "-U", "nobody", "--auth=trust", "--no-sync")
    options = "-c listen_addresses= -c unix_socket_directories=/srv -c fsync=off"
    try:
        program("pg_ctl", "-D", data, "-w", "-l", "/srv/server.log", "-o", options, "start")
        assert psql("SHOW block_size") == "4096"
        assert psql("SHOW wal_block_size") == "8192"
        psql("CREATE EXTENSION pageinspect")
        assert psql("SELECT pagesize FROM page_header(get_raw_page('pg_class', 0))") == "4096"
    finally:
        if (debian / "srv" / "data" / "postmaster.pid").exists():
            program("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")

    inside("apt-get", "--quiet", "--yes", "purge", PACKAGE)
    after = set(debian.glob("opt/**/*")) | set(debian.glob("usr/share/doc/*"))
    assert [path for path in after - before if "octavo" in str(path.relative_to(debian))] == []
    assert not list((debian / "var" / "lib" / "dpkg" / "info").glob(f"{PACKAGE}*"))
    assert not list((debian / "etc").rglob("*octavo*"))
