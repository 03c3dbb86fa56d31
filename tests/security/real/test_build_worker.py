"""What a source may do while it is built, tested with sources that try more: nothing of root's is changed or seen."""

import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration import tiny_postgres
from tests.integration.conftest import needs_root

from octavo.errors import OctavoError
from octavo.home import make_directory
from octavo.host import child_group, children
from octavo.host.children import Account, build_account, server_account
from octavo.host.journal import Journal
from octavo.host.process import find_by_environment
from octavo.postgres.builds import worker_client
from octavo.postgres.builds.cache import Build, list_builds
from octavo.postgres.builds.make import ensure_build, ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.extension import build_extension, installed_extensions

pytestmark = [needs_root, pytest.mark.beside]

_SIZES = [BuildSpec("18", "8kB"), BuildSpec("18", "4kB")]


@pytest.fixture
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory that contains only files that nobody else may read or write."""
    directory = make_directory(home / f"hostile-{tmp_path.name}")
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    (make_directory(directory / "store") / "secret").write_text("other people's rows")
    (directory / "store" / "secret").chmod(0o600)
    (directory / "store").chmod(0o700)
    (directory / "of-root").write_text("as it was")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def account() -> Account:
    return build_account()


# Attempted from a shell while a build is running. The file named by "$1" gets the results.
_ATTEMPTS = """#!/bin/sh
{
    id -u
    cat @HOME@/store/secret && echo READ
    (echo changed >@HOME@/of-root) && echo WRITTEN
    touch @HOME@/builds/planted && echo PLANTED
    grep NoNewPrivs /proc/self/status
} >"$1" 2>/dev/null
A_BUILD_LEFT_THIS=@HOME@ setsid sleep 600 >/dev/null 2>&1 &
exit 0
"""


def attempts(home: Path) -> str:
    return _ATTEMPTS.replace("@HOME@", str(home))


def assert_nothing_happened(home: Path, told: str, account: Account) -> None:
    assert told.split() == [str(account.uid), "NoNewPrivs:", "1"]
    assert (home / "of-root").read_text() == "as it was"
    assert not (home / "builds" / "planted").exists()
    assert not any(worker_client.work_directory().iterdir())
    if child_group.hierarchy() is not None:
        assert find_by_environment("A_BUILD_LEFT_THIS", str(home)) == []


def assert_published_clean(build: Build) -> None:
    for path in (build.prefix, *build.prefix.rglob("*")):
        facts = path.lstat()
        assert (facts.st_uid, facts.st_gid) == (0, 0), path
        if not path.is_symlink():
            assert not facts.st_mode & (stat.S_ISUID | stat.S_ISGID | 0o022), path


def test_what_meson_runs_is_the_accounts(own_home: Path, tmp_path: Path, account: Account) -> None:
    extra = (
        "run_command('sh', files('attempts.c'), meson.current_build_dir() / 'told.txt', check: true)\n"
        "install_data(meson.current_build_dir() / 'told.txt', install_dir: 'share')\n"
    )
    tarball = tiny_postgres.write_tarball(tmp_path, extra=extra, attempts=attempts(own_home))
    with Journal() as journal:
        for build in ensure_builds(_SIZES, journal, local=tarball):
            assert_nothing_happened(own_home, (build.prefix / "share" / "told.txt").read_text(), account)
            assert_published_clean(build)


_CONFIGURED = {
    "configure": "#!/bin/sh\nsh ./attempts $PWD/told.txt\n",
    "postgres": "#!/bin/sh\nid -u\n",
    "Makefile": "PREFIX = $(DESTDIR)/opt/octavo/postgresql\n"
    "world-bin:\n"
    "install-world-bin:\n"
    "\tmkdir -p $(PREFIX)/bin $(PREFIX)/share\n"
    "\tcp postgres $(PREFIX)/bin && cp told.txt $(PREFIX)/share ; ! chmod 6755 $(PREFIX)/bin/postgres\n",
    "src/test/perl/Makefile": "install:\n",
}


def test_what_configure_and_make_run_is_the_accounts(own_home: Path, tmp_path: Path, account: Account) -> None:
    """The new server also runs as the account when it is asked for its version."""
    tarball = tmp_path / "postgresql-15.99.tar"
    with tarfile.open(tarball, "w") as archive:
        for name, text in {**_CONFIGURED, "attempts": attempts(own_home)}.items():
            member = tarfile.TarInfo(f"postgresql-15.99/{name}")
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    with Journal() as journal:
        build = ensure_build(BuildSpec("15"), journal, local=tarball)
    assert build.manifest["reported"] == str(account.uid)
    assert_nothing_happened(own_home, (build.prefix / "share" / "told.txt").read_text(), account)
    assert_published_clean(build)


@pytest.mark.parametrize("target", ["/etc/shadow", "../../../store/secret"])
def test_a_link_out_of_the_installation_is_not_published(own_home: Path, tmp_path: Path, target: str) -> None:
    extra = f"install_symlink('shadow', pointing_to: '{target}', install_dir: 'share')\n"
    tarball = tiny_postgres.write_tarball(tmp_path, extra=extra)
    # Some versions of meson refuse a link to nothing themselves.
    refused = r"share/(shadow is a link to .*, out of the install|\.\./)"
    with Journal() as journal, pytest.raises(OctavoError, match=refused):
        ensure_build(_SIZES[0], journal, local=tarball)
    assert list_builds() == []
    assert not [path for path in (own_home / "builds").iterdir() if path.is_dir()]


_MAKEFILE = """
TOLD := $(shell sh ./attempts $(CURDIR)/told.txt)
include $(shell $(PG_CONFIG) --pgxs)
"""

# The parts of PGXS that an extension needs to install its files.
_PGXS = """
PREFIX = $(shell $(PG_CONFIG) --prefix)
TO = $(DESTDIR)$(PREFIX)
all clean:
install:
\tmkdir -p $(TO)/share/extension $(TO)/bin
\tcp told.txt petals.control $(TO)/share/extension
\t$(PLANT)
"""


@pytest.fixture(scope="module")
def tiny_builds(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a build of the tiny source, of which each test gets a copy."""
    directory = make_directory(home / "tiny-build")
    tarball = tiny_postgres.write_tarball(tmp_path_factory.mktemp("tiny"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_HOME", str(directory))
        with Journal() as journal:
            ensure_build(_SIZES[0], journal, local=tarball)
    yield directory / "builds"
    shutil.rmtree(directory)


@pytest.fixture
def build(own_home: Path, tiny_builds: Path) -> Build:
    """A build of the tiny source, with the parts of pg_config and PGXS that these tests need."""
    shutil.copytree(tiny_builds, own_home / "builds", symlinks=True)
    (made,) = list_builds()
    pg_config = made.prefix / "bin" / "pg_config"
    prefix = made.prefix.resolve()
    pg_config.write_text(
        f"#!/bin/sh\ncase $1 in --pgxs) echo {prefix}/share/pgxs.mk ;; --prefix) echo {prefix} ;; esac\n"
    )
    pg_config.chmod(0o755)
    (made.prefix / "share" / "pgxs.mk").write_text(_PGXS)
    return made


def extension(directory: Path, home: Path, plant: str) -> Path:
    source = make_directory(directory / "petals")
    (source / "Makefile").write_text(f"PLANT = {plant}\n{_MAKEFILE}")
    (source / "petals.control").write_text("default_version = '1.0'\n")
    (source / "attempts").write_text(attempts(home))
    return source


def test_what_an_extensions_makefile_runs_is_the_accounts(
    own_home: Path, build: Build, tmp_path: Path, account: Account
) -> None:
    source = extension(
        tmp_path, own_home, "cp attempts $(TO)/bin/mighty && chmod 755 $(TO)/bin/mighty; ! chmod 6755 $(TO)/bin/mighty"
    )
    with Journal() as journal:
        record = build_extension(build, source, journal).record
    assert set(record["files"]) == {"bin/mighty", "share/extension/petals.control", "share/extension/told.txt"}
    assert_nothing_happened(own_home, (build.prefix / "share" / "extension" / "told.txt").read_text(), account)
    assert_published_clean(build)
    assert not (source / "told.txt").exists()  # the source is only read


@pytest.mark.parametrize(
    ("plant", "refusal"),
    [
        ("ln -s /etc/shadow $(TO)/share/shadow", "share/shadow is a link to '/etc/shadow'"),
        ("ln -s ../../../store $(TO)/share/store", "share/store is a link to"),
        # Inside as long as nothing with that name exists; through another extension's link it would lead out.
        ("ln -s later/../../../store $(TO)/share/store", "share/store is a link to"),
        ("ln /etc/passwd $(TO)/share/passwd", "installation of petals .* failed|share/passwd is no file that"),
        ("mkfifo $(TO)/share/pipe", "share/pipe is neither a file"),
        ("cp attempts $(TO)/bin/ls", "would install bin/ls, a program of the name that .*/ls has"),
        ("cp attempts $(TO)/manifest.json", "installs manifest.json"),
        ("cp attempts $(DESTDIR)/elsewhere", "installs /elsewhere, which is not below the build's prefix"),
        ("cp attempts $(PREFIX)/bin/planted", "installation of petals for .* failed"),
    ],
)
def test_what_leads_elsewhere_is_not_installed(
    own_home: Path, build: Build, tmp_path: Path, plant: str, refusal: str
) -> None:
    before = sorted(build.prefix.rglob("*"))
    with Journal() as journal, pytest.raises(OctavoError, match=refusal):
        build_extension(build, extension(tmp_path, own_home, plant), journal)
    assert installed_extensions(build) == []
    assert [path for path in sorted(build.prefix.rglob("*")) if path.name != "extensions"] == before


def test_an_older_link_leads_no_file_out(own_home: Path, build: Build, tmp_path: Path) -> None:
    outside = make_directory(own_home / "outside")
    (build.prefix / "share" / "way").symlink_to(outside)
    plant = "mkdir $(TO)/share/way && cp attempts $(TO)/share/way/file"
    with Journal() as journal, pytest.raises(OctavoError, match="share/way is a link; nothing is"):
        build_extension(build, extension(tmp_path, own_home, plant), journal)
    assert list(outside.iterdir()) == []


def test_who_can_write_a_compilers_cache_finds_no_other_one(own_home: Path, account: Account) -> None:
    """Neither programs of a dump, which run as the servers' user, nor those of another source, as the builds' user."""
    cache = worker_client.compiler_cache(own_home, account, "releases")
    other = worker_client.compiler_cache(own_home, account, "extension petals")
    assert worker_client.compiler_cache(own_home, account, "releases") == cache != other
    (cache / "object").write_text("as compiled\n")
    top = own_home / worker_client.COMPILER_CACHE
    look = f"ls {top}; cat {top}/.key; echo poison >{cache}/object; cat {cache}/object"
    with Journal() as journal:
        said = [
            children.run(["sh", "-c", look], journal, role="test", account=each) for each in (server_account(), account)
        ]
    assert said[0].stdout == ""
    assert said[0].stderr.count("ermission denied") == 4
    assert (cache / "object").read_text() == "as compiled\n"
    # The builds' own user may use the cache whose name it is given, and finds no others.
    assert said[1].stdout == "as compiled\n"
    assert said[1].stderr.count("ermission denied") == 3  # the object is root's in this test
    assert len(cache.name) == 64


def test_an_extension_is_not_told_of_the_cache_of_the_releases(
    own_home: Path, build: Build, tmp_path: Path, account: Account
) -> None:
    worker_client.compiler_cache(own_home, account, "releases")
    plant = "echo $$CCACHE_DIR >$(TO)/share/where; ls $$CCACHE_DIR/.. >$(TO)/share/all; :"
    with Journal() as journal:
        build_extension(build, extension(tmp_path, own_home, plant), journal)
    where = (build.prefix / "share" / "where").read_text().strip()
    assert Path(where).parent == own_home / worker_client.COMPILER_CACHE
    assert (build.prefix / "share" / "all").read_text() == ""
    assert len([path for path in Path(where).parent.iterdir() if path.is_dir()]) == 2


def test_caches_of_an_earlier_version_and_old_ones_go(own_home: Path, account: Account) -> None:
    old = make_directory(own_home / worker_client.COMPILER_CACHE / "0")
    first = worker_client.compiler_cache(own_home, account, "first")
    assert not old.exists()
    caches = [worker_client.compiler_cache(own_home, account, str(number)) for number in range(10)]
    os.utime(caches[1], (0, 0))
    worker_client.compiler_cache(own_home, account, "2")
    assert first.exists()
    assert [path.exists() for path in caches] == [number != 1 for number in range(10)]
    os.chown(caches[2], 0, 0)
    with pytest.raises(OctavoError, match="does not belong to"):
        worker_client.compiler_cache(own_home, account, "2")
