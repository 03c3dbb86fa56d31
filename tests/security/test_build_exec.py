"""`octavo build exec` runs programs of a build as the calling user; root is told if others wrote them."""

# pyright: reportPrivateUsage=false

import os
from pathlib import Path
from typing import Any

import pytest

from octavo.cli import build_cache
from octavo.host import foreground
from octavo.postgres import extension
from octavo.postgres.builds.cache import RECORDS, Build
from octavo.postgres.builds.flags import is_harmless
from octavo.postgres.builds.make import Planned, _whose_cache
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.traced import COMPILER_FLAG
from octavo.postgres.builds.usage import not_postgresqls
from octavo.postgres.builds.variants import WORDS, made_with
from octavo.postgres.sources.base import Source

_CHECKED = "Debian source package postgresql-18_18.6-3, signature checked by apt"


def test_flags_of_others_do_not_meet_the_cache_of_releases(tmp_path: Path) -> None:
    """A plan may name a plugin, which then runs as the account of all builds, and may write into the cache that it
    gets."""
    release = Source("18.6", tmp_path / "a", "f" * 64, _CHECKED)
    own = Source("18.6", tmp_path / "a", "f" * 64, "local file a", given=tmp_path / "a")

    def cache(source: Source, *flags: str, compiler: str = "gcc", options: tuple[str, ...] = ()) -> str:
        return _whose_cache(Planned(BuildSpec("18", compiler=compiler, flags=flags, options=options), source, {}))

    assert cache(release) == cache(release, "-O3", "-fno-plt") == cache(release, compiler="clang-16") == "releases"
    for words in WORDS:
        for version in ("15.18", "18.6"):
            flags, given = made_with(words, version)
            assert cache(release, *flags, options=given) == "releases", (words, version)
    others = [
        cache(release, options=("-Dc_args=-fplugin=/home/eve/x.so",)), cache(release, options=("CC=/home/eve/cc",)),
        cache(release, options=("-Db_lto=true", "-DBISON=/home/eve/bison")),
        cache(release, options=("-Dc_link_args=-fuse-ld=/home/eve/ld",)),
        cache(release, "-fplugin=/home/eve/x.so"), cache(release, "-fplugin=x"), cache(release, "-B/home/eve"),
        cache(release, "-O3", "-Dexit(x)=abort()"), cache(release, compiler="python3"), cache(own),
        cache(own, "-B/home/eve"),
    ]  # fmt: skip
    assert len({"releases", *others}) == 1 + len(others)


def test_what_a_build_has_of_others_does_not_meet_an_extensions_cache_in_other_builds(tmp_path: Path) -> None:
    """make runs the build's PGXS, and files that another extension has put beside it (Makefile.custom)."""
    (tmp_path / RECORDS).mkdir()
    own: dict[str, Any] = {"origin": "local source tree pg", "options": []}
    release = Build("18.6-b8w8-a", tmp_path, {"origin": _CHECKED, "options": []})
    others = Build("18.6-b8w8-b", tmp_path, own)

    def cache(build: Build) -> str:
        return extension._whose_cache(build, tmp_path / "vector")

    alone, of_others = cache(release), cache(others)
    assert alone == cache(Build("17.9-b4w8-c", tmp_path, release.manifest))
    (tmp_path / RECORDS / "petals.json").write_text("{}")
    found = [alone, of_others, cache(release), cache(others), cache(Build("18.6-b8w8-c", tmp_path, own))]
    assert len(set(found)) == len(found)


def test_octavos_own_options_are_harmless() -> None:
    for version in ("13.22", "15.18", "16.10", "18.6"):
        for spec in (BuildSpec("18"), BuildSpec("18", traced=True, asserts=True, debug_symbols=True)):
            own = options(spec, version)
            strange = [one for one in own if not is_harmless(one)]
            assert strange == [one for one in own if one.startswith("-Dc_args=") and COMPILER_FLAG in one], version


@pytest.mark.parametrize(
    ("origin", "added", "told"),
    [
        (_CHECKED, None, ""),
        (_CHECKED, "-Dc_args=-O3 -march=native", ""),
        (_CHECKED, "-Dc_args=-O3 -fplugin=/tmp/x.so", "itself, compiled by gcc -O3 -fplugin=/tmp/x.so"),
        (_CHECKED, "CFLAGS=-O2 -B/tmp", "itself, compiled by gcc -O2 -B/tmp"),
        (_CHECKED, "-DBISON=/tmp/bison", "itself, configured with -DBISON=/tmp/bison"),
        ("https://example.org/a.tar.bz2, sha256 known to Octavo", None, ""),
        ("https://example.org/a.tar.bz2, sha256 as published beside it", None, "itself from https://example.org"),
        ("local source tree pg", None, "itself from local source tree pg"),
        (_CHECKED, "petals.json", "the extension petals"),
        (_CHECKED, ".half.begun", "the extension half"),
    ],
)
def test_root_is_told_whose_programs_it_runs(
    origin: str, added: str | None, told: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    flags = [added] if added and "=" in added else []
    build = Build("one", tmp_path, {"origin": origin, "options": ["-Dcassert=false", *flags]})
    (tmp_path / RECORDS).mkdir()
    if added and not flags:
        (tmp_path / RECORDS / added).write_text("{}")
    assert ", ".join(not_postgresqls(build)).startswith(told)
    ran: list[list[str]] = []

    def become(command: list[str], _: dict[str, str]) -> None:
        ran.append(command)

    def chosen(*_: object) -> Build:
        return build

    monkeypatch.setattr(foreground, "become", become)
    monkeypatch.setattr(build_cache, "_chosen", chosen)
    for uid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        build_cache.execute(["psql"])
        said = capfd.readouterr().err
        assert said.startswith(f"psql runs as root, and the build has {told}" if told and uid == 0 else "")
        assert bool(said) == bool(told and uid == 0)
        build_cache.print_environment()
        printed = capfd.readouterr()
        assert printed.out.startswith("export PATH=")
        assert bool(printed.err) == bool(told and uid == 0)
    assert ran == [["psql"]] * 2
