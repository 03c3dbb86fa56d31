"""Extensions built out of tree with PGXS: one from PostgreSQL's contrib under another name, one from another source."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.cli.build_extension import with_extension
from octavo.errors import OctavoError, UsageError
from octavo.home import make_directory
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build, builds_directory, list_builds, read_build
from octavo.postgres.builds.worker_client import COMPILER_CACHE, work_directory
from octavo.postgres.extension import build_extension, installed_extensions, source_digest, try_extension
from octavo.postgres.scratch import scratch_server
from octavo.postgres.source import find_source, sha256_of

pytestmark = pytest.mark.beside

BUILDS = pytest.mark.parametrize("build", ["4kB"], indirect=True)


def links_of(build: Build, target: Path) -> Build:
    """The build in another directory, its files shared by hard links, like builds that differ little."""
    shutil.copytree(build.prefix.resolve(), target, symlinks=True, copy_function=link_or_copy)
    manifest = (target / "manifest.json").read_bytes()
    (target / "manifest.json").unlink()  # its time is changed by every use
    (target / "manifest.json").write_bytes(manifest)
    return Build(target.name, target, build.manifest)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def apart(build: Build, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """The build in a separate cache, so that no other test finds the extension."""
    directory = make_directory(home / "extensions")
    (directory / COMPILER_CACHE).symlink_to((home / COMPILER_CACHE).resolve())
    (directory / "sources").symlink_to((home / "sources").resolve())
    monkeypatch.setenv("OCTAVO_HOME", str(directory))
    yield links_of(build, make_directory(builds_directory()) / build.name)
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def bloom(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of PostgreSQL's contrib/bloom, extracted from the tarball without the rest."""
    target = tmp_path_factory.mktemp("contrib")
    with Journal() as journal:
        tarball = find_source(build.manifest["version"], journal).tarball
    with tarfile.open(tarball) as archive:
        for member in archive:
            if "/contrib/bloom/" in member.name:
                archive.extract(member, target, filter="data")
            elif any(target.iterdir()):
                break
    (contrib,) = target.glob("*/contrib/bloom")
    return contrib


@pytest.fixture
def renamed_bloom(apart: Build, bloom: Path, tmp_path: Path) -> Path:
    """contrib/bloom, an index access method with its own page layout, as an extension `petals`."""
    directory = tmp_path / "petals"
    shutil.copytree(bloom, directory)
    (directory / "bloom.control").rename(directory / "petals.control")
    (directory / "bloom--1.0.sql").rename(directory / "petals--1.0.sql")
    control = directory / "petals.control"
    control.write_text(control.read_text().replace("$libdir/bloom", "$libdir/petals"))
    makefile = directory / "Makefile"
    text = makefile.read_text().replace("MODULE_big = bloom", "MODULE_big = petals")
    makefile.write_text(text.replace("EXTENSION = bloom", "EXTENSION = petals").replace("bloom--1.0", "petals--1.0"))
    return directory


def everything_in(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): sha256_of(path) for path in sorted(directory.rglob("*")) if path.is_file()
    }


@BUILDS
def test_a_contrib_module_is_built_installed_and_works_at_this_block_size(
    apart: Build, build: Build, renamed_bloom: Path, journal: Journal, account: Account,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source, shared = everything_in(renamed_bloom), everything_in(build.prefix)
    with_extension([apart], renamed_bloom, journal)
    assert "petals 1.0, 3 files, built in" in capsys.readouterr().out
    with scratch_server(apart, journal, account, {}) as server, server.connect("postgres") as connection:
        connection.execute("CREATE EXTENSION petals")
        connection.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 20000) i")
        connection.execute("CREATE INDEX ON t USING bloom (i)")
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute("EXPLAIN SELECT * FROM t WHERE i = 7").fetchall()
        assert any("Bitmap Index Scan" in str(row) for row in plan)
        assert connection.execute("SELECT i FROM t WHERE i = 7").fetchall() == [{"i": 7}]
    # The library finds libpq and others only in the build.
    dynamic = children.check(children.run(["readelf", "-d", apart.prefix / "lib" / "petals.so"], journal, role="test"),
                             "readelf").stdout  # fmt: skip
    assert "[$ORIGIN/../lib]" in dynamic
    assert everything_in(renamed_bloom) == source
    assert everything_in(build.prefix) == shared
    with_extension([apart], renamed_bloom, journal)
    assert "petals 1.0, 3 files, cached; CREATE EXTENSION works" in capsys.readouterr().out


@BUILDS
def test_a_new_source_replaces_the_old_one_and_does_not_write_through_links(
    apart: Build, renamed_bloom: Path, journal: Journal
) -> None:
    first = build_extension(apart, renamed_bloom, journal)
    other = links_of(apart, builds_directory() / "other")
    before = everything_in(other.prefix)
    with (renamed_bloom / "blutils.c").open("a") as code:
        code.write("\nconst char petals_mark[] = __FILE__;\n")
    (renamed_bloom / "petals--1.0.sql").rename(renamed_bloom / "petals--2.0.sql")
    for name in ("Makefile", "petals.control"):
        path = renamed_bloom / name
        path.write_text(path.read_text().replace("petals--1.0", "petals--2.0").replace("'1.0'", "'2.0'"))
    second = build_extension(apart, renamed_bloom, journal)
    assert (first.record["version"], second.record["version"]) == ("1.0", "2.0")
    assert first.record["files"]["lib/petals.so"] != second.record["files"]["lib/petals.so"]
    assert not (apart.prefix / "share" / "extension" / "petals--1.0.sql").exists()
    assert second.record["files"].items() <= everything_in(apart.prefix).items()
    assert everything_in(other.prefix) == before
    assert [record["version"] for record in installed_extensions(other)] == ["1.0"]


@BUILDS
def test_an_installation_that_is_stopped_half_way_is_none(
    apart: Build, renamed_bloom: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, copied = shutil.copy2, list[str]()

    def stop_at_the_second(source: Path, target: Path, *, follow_symlinks: bool = True) -> None:
        if copied:
            raise KeyboardInterrupt
        copied.append(str(source))
        copy(source, target, follow_symlinks=follow_symlinks)

    digest = source_digest(renamed_bloom)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            build_extension(apart, renamed_bloom, journal)
    assert copied
    assert installed_extensions(apart) == []
    again = build_extension(apart, renamed_bloom, journal)
    assert (again.cached, again.record["source_sha256"]) == (False, digest)
    assert again.record["files"].items() <= everything_in(apart.prefix).items()
    assert [path.name for path in (apart.prefix / "extensions").iterdir()] == ["petals.json"]


@BUILDS
def test_what_does_not_compile_is_one_line_with_a_log(apart: Build, renamed_bloom: Path, journal: Journal) -> None:
    before = everything_in(apart.prefix)
    with (renamed_bloom / "blutils.c").open("a") as code:
        code.write("\n#error no such luck\n")
    with pytest.raises(OctavoError, match=r"compilation of petals for .*no such luck; see (.*)$") as caught:
        build_extension(apart, renamed_bloom, journal)
    assert "no such luck" in Path(str(caught.value).rpartition("; see ")[2]).read_text()
    assert everything_in(apart.prefix) == before
    assert not [path for path in work_directory().iterdir() if path.is_dir()]


@BUILDS
def test_a_library_that_wants_to_be_preloaded_is(
    apart: Build, renamed_bloom: Path, journal: Journal, account: Account
) -> None:
    code = renamed_bloom / "blutils.c"
    text = code.read_text()
    assert "_PG_init(void)\n{" in text
    refusal = 'elog(ERROR, "petals must be loaded via shared_preload_libraries");'
    code.write_text(
        text.replace(
            "_PG_init(void)\n{", f"_PG_init(void)\n{{\nif (!process_shared_preload_libraries_in_progress) {refusal}"
        ).replace('#include "postgres.h"', '#include "postgres.h"\n#include "miscadmin.h"')
    )
    assert try_extension(build_extension(apart, renamed_bloom, journal), journal, account) is None


@BUILDS
def test_what_is_postgresqls_own_is_not_replaced(apart: Build, renamed_bloom: Path, journal: Journal) -> None:
    makefile = renamed_bloom / "Makefile"
    makefile.write_text(makefile.read_text().replace("MODULE_big = petals", "MODULE_big = pageinspect"))
    before = everything_in(apart.prefix)
    with pytest.raises(OctavoError, match=r"would replace lib/pageinspect.so in .* belongs to PostgreSQL itself"):
        build_extension(apart, renamed_bloom, journal)
    assert everything_in(apart.prefix) == before


@BUILDS
def test_a_directory_that_is_no_extension_is_refused(apart: Build, tmp_path: Path, journal: Journal) -> None:
    for wrong in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UsageError, match="--with-extension"):
            build_extension(apart, wrong, journal)
    (tmp_path / "Makefile").write_text("all:\n\ttrue\n")
    with pytest.raises(UsageError, match="does not use PGXS"):
        build_extension(apart, tmp_path, journal)


@pytest.fixture
def ip4r(apart: Build, tmp_path: Path, journal: Journal) -> Path:
    """An extension from outside PostgreSQL: types and index operator classes for IP ranges, from Debian's archive."""
    kept = make_directory(apart.prefix.parents[1] / "sources" / "extensions")
    if not (found := sorted(kept.glob("ip4r_*.orig.tar.gz"))):
        found = [fetch_debian_source("ip4r", tmp_path, kept, journal)]
    with tarfile.open(found[-1]) as archive:
        archive.extractall(tmp_path / "outside", filter="data")
    (directory,) = (tmp_path / "outside").iterdir()
    return directory


def fetch_debian_source(package: str, scratch: Path, kept: Path, journal: Journal) -> Path:
    """Upstream's tarball from Debian's source package, its digest checked by apt; skips the test if there is none."""
    if shutil.which("apt-get") is None:
        pytest.skip("this is no Debian: no source of an extension to fetch")
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    address = next((line for line in listed if line.rstrip("/").endswith("/debian")), None)
    if address is None or not keyring.exists():
        pytest.skip("no Debian archive in the apt sources of this machine")
    for part in ("lists/partial", "cache/archives/partial"):
        make_directory(scratch / part)
    (scratch / "suite.sources").write_text(
        f"Types: deb-src\nURIs: {address}\nSuites: stable\nComponents: main\nSigned-By: {keyring}\n"
    )
    options = [
        "-o", f"Dir::State::lists={scratch / 'lists'}",
        "-o", f"Dir::Cache={scratch / 'cache'}",
        "-o", f"Dir::Etc::sourcelist={scratch / 'suite.sources'}",
        "-o", "Dir::Etc::sourceparts=-",
        "-o", "APT::Sandbox::User=",
        "-o", "Acquire::Languages=none",
    ]  # fmt: skip
    for arguments in (["update"], ["source", "--download-only", "--tar-only", package]):
        finished = children.run(["apt-get", "-q", *options, *arguments], journal, role="apt-get", directory=scratch)
        if finished.returncode != 0:
            pytest.skip(f"the source of {package} cannot be fetched: {finished.stderr.strip().splitlines()[0]}")
    (tarball,) = scratch.glob(f"{package}_*.orig.tar.gz")
    return Path(shutil.move(tarball, kept / tarball.name))


@BUILDS
def test_an_extension_from_elsewhere_works_in_every_build_chosen(
    apart: Build, home: Path, ip4r: Path, journal: Journal, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = [apart]
    older = [path.parent for path in (home / "builds").glob("17.*-b4w8-*/manifest.json")]
    if older:  # another major version, if one was built before
        links_of(Build(older[0].name, older[0], {}), builds_directory() / older[0].name)
        found = read_build(older[0].name)
        assert found is not None
        builds.append(found)
    with_extension(builds, ip4r, journal)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("; ")[2] for line in lines] == ["CREATE EXTENSION works"] * len(builds)
    assert {build.name for build in list_builds()} == {build.name for build in builds}
    with scratch_server(apart, journal, account, {}) as server, server.connect("postgres") as connection:
        connection.execute("CREATE EXTENSION ip4r")
        connection.execute(
            "CREATE TABLE r AS SELECT ip4r(ip4(i), ip4(i + 9)) AS r FROM generate_series(0, 90000, 10) i"
        )
        connection.execute("CREATE INDEX ON r USING gist (r)")
        connection.execute("SET enable_seqscan = off")
        rows = connection.execute("SELECT r::text FROM r WHERE r >>= ip4 '0.0.0.15'").fetchall()
        assert rows == [{"r": "0.0.0.10-0.0.0.19"}]


@BUILDS
def test_an_extension_that_cannot_be_created_is_told(
    apart: Build, renamed_bloom: Path, journal: Journal, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    (renamed_bloom / "petals--1.0.sql").write_text("SELECT 1/0;\n")
    with pytest.raises(OctavoError, match="petals does not work in 1 of 1 builds"):
        with_extension([apart], renamed_bloom, journal)
    assert "division by zero" in capsys.readouterr().out
    assert installed_extensions(apart)[0]["problem"] == "division by zero"
    assert try_extension(build_extension(apart, renamed_bloom, journal), journal, account) == "division by zero"
