import json
import shutil
from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.host.published import MANIFEST
from octavo.postgres.builds import recipe
from octavo.postgres.builds.cache import builds_directory, find_build
from octavo.postgres.builds.commands import Command
from octavo.postgres.builds.selection import selected_specs
from octavo.postgres.builds.size_dependence import NotShareable, files_with_conditionals, with_macros
from octavo.postgres.builds.spec import BuildSpec, Sizes
from octavo.postgres.sources import fetched

GB = 1024**3


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path


def test_sizes_are_written_as_postgresql_counts_them() -> None:
    assert Sizes(4096, 16384, GB).macros == {"BLCKSZ": 4096, "RELSEG_SIZE": 262144, "XLOG_BLCKSZ": 16384}
    assert Sizes(32768, 1024, 4 * GB).macros["RELSEG_SIZE"] == 131072
    assert BuildSpec("18", "1kB", "64kB").sizes.label == "b1w64"
    assert BuildSpec("18", data_segment="2GB").sizes.label == "b8w8s2"


def test_each_build_system_is_told_in_its_own_words() -> None:
    sizes = BuildSpec("18", "4kB", "16kB", "2GB").sizes
    assert recipe.size_options(sizes, "18.6") == ["-Dblocksize=4", "-Dwal_blocksize=16", "-Dsegsize=2"]
    assert recipe.size_options(sizes, "15.18") == [
        "--with-blocksize=4",
        "--with-wal-blocksize=16",
        "--with-segsize=2",
    ]
    spec = BuildSpec("18", flags=("-O3", "-g0"), options=("-Dllvm=enabled",), asserts=True, debug_symbols=True)
    told = recipe.options(spec, "18.6")
    assert {"-Dc_args=-O3 -g0", "-Dcassert=true", "-Ddebug=true", "-Dliburing=enabled"} <= set(told)
    assert told[-1] == "-Dllvm=enabled"  # the user's options come last, and take precedence
    assert "-Dliburing=enabled" not in recipe.options(spec, "17.11")
    configure = recipe.options(spec, "15.18")
    assert "--enable-cassert" in configure
    assert any(word.startswith("CFLAGS=") and word.endswith("-O3 -g0") for word in configure)
    assert {"--with-lz4", "--with-zstd", "--with-ssl=openssl"} < {*configure}
    old = {*recipe.options(spec, "13.22")}
    assert "--with-openssl" in old and not old & {"--with-lz4", "--with-zstd", "--with-ssl=openssl"}


def select(**given: str) -> list[BuildSpec]:
    levels = {"data_block": "8kB", "wal_block": "8kB", "data_segment": "1GB", "pg": "18", "compiler": "gcc"} | given
    return selected_specs(**levels, flags=[], options=[], asserts=False, debug_symbols=False)  # type: ignore[arg-type]


def test_lists_make_combinations_with_the_default_sizes_first() -> None:
    every = select(data_block="all", wal_block="all")
    assert len(every) == len(set(every)) == 42
    assert (every[0].data_block, every[0].wal_block) == ("8kB", "8kB")
    assert [spec.data_block for spec in select(data_block="4kB, 4kB,32kB")] == ["4kB", "32kB"]
    assert {spec.version for spec in select(pg="17,18.6")} == {"17", "18.6"}
    own = selected_specs(
        data_block="4kB", wal_block="8kB", data_segment="1GB", pg="19devel", compiler="gcc", flags=[], options=[],
        asserts=False, debug_symbols=False, own_source=True,
    )  # fmt: skip
    assert [spec.version for spec in own] == ["19devel"]
    for wrong in ({"data_block": ""}, {"wal_block": "8"}, {"pg": "18.x"}, {"pg": "18.6.1"}, {"data_segment": "3GB"}):
        with pytest.raises(UsageError, match="--"):
            select(**wrong)


def test_a_compiler_is_a_name_and_no_path() -> None:
    """A build writes a wrapper under the compiler's name: with a path it would replace the user's compiler."""
    assert [spec.compiler for spec in select(compiler="gcc, clang-16,gcc")] == ["gcc", "clang-16"]
    for wrong in ("/home/eve/bin/gcc", "./gcc", "bin/gcc", "..", "-x", "", "gcc,"):
        with pytest.raises(UsageError, match="--compiler: invalid level"):
            select(compiler=wrong)


def test_a_cached_build_answers_only_what_it_was_made_with(home: Path) -> None:
    spec = BuildSpec("18", "4kB")
    for name, version, options in (
        ("a", "18.6", recipe.options(spec, "18.6")),
        ("b", "18.10", recipe.options(spec, "18.10")),
        ("c", "18.11", recipe.options(BuildSpec("18", asserts=True), "18.11")),
    ):
        prefix = builds_directory() / name
        prefix.mkdir(parents=True)
        facts = {"data_block": "4kB", "wal_block": "8kB", "data_segment": "1GB", "compiler_command": "gcc"}
        (prefix / MANIFEST).write_text(json.dumps({**facts, "version": version, "options": options}))
    assert (found := find_build(spec)) is not None
    assert found.name == "b"  # the newest minor version, and no assertion build
    assert (exact := find_build(BuildSpec("18.6", "4kB"))) is not None
    assert exact.name == "a"
    assert find_build(BuildSpec("18", "8kB")) is None
    assert find_build(BuildSpec("18", "4kB", compiler="clang")) is None
    assert find_build(BuildSpec("1", "4kB")) is None


def test_where_a_source_was_fetched_builds_of_other_sources_need_their_name(home: Path) -> None:
    spec = BuildSpec("18", "4kB")
    for name, digest in (("patched", "b" * 64), ("release", "a" * 64)):
        prefix = builds_directory() / name
        prefix.mkdir(parents=True)
        facts = {"data_block": "4kB", "wal_block": "8kB", "data_segment": "1GB", "compiler_command": "gcc"}
        facts |= {"version": "18.6", "source_sha256": digest}
        (prefix / MANIFEST).write_text(json.dumps({**facts, "options": recipe.options(spec, "18.6")}))
        assert (found := find_build(spec)) is not None
        assert found.name == "patched"  # the first existing one
    sources = fetched.directory()
    sources.mkdir()
    (sources / "postgresql-18.6.tar.bz2").touch()
    (sources / "postgresql-18.6.tar.origin").write_text(f"{'a' * 64} somewhere\n")
    assert (found := find_build(spec)) is not None
    assert found.name == "release"
    shutil.rmtree(builds_directory() / "release")
    assert find_build(spec) is None


def test_a_header_that_does_not_define_a_size_once_is_refused() -> None:
    header = "#define BLCKSZ 8192\n#define XLOG_BLCKSZ 8192\n"
    assert with_macros(header, {"BLCKSZ": 4096}) == "#define BLCKSZ 4096\n#define XLOG_BLCKSZ 8192\n"
    for wrong in (header + "#define BLCKSZ 4096\n", "/* #undef BLCKSZ */\n"):
        with pytest.raises(NotShareable, match="BLCKSZ once"):
            with_macros(wrong, {"BLCKSZ": 4096})


def test_conditionals_on_a_size_are_found_through_other_macros(tmp_path: Path) -> None:
    texts = {
        "direct.c": "#if BLCKSZ < 4096\n#endif\n",
        "continued.c": "#  if defined(X) && \\\n   XLOG_BLCKSZ < 4096\n#endif\n",
        "limits.h": "#define MOST (OTHER \\\n * 2)\n#define OTHER (BLCKSZ / 8)\n#define NOT_A_SIZE 7\n",
        "through.c": "#ifdef A\n#elif MOST > 3\n#endif\n",
        "not.c": "#if NOT_A_SIZE\n#endif\nint BLCKSZ_in_text = BLCKSZ;\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = files_with_conditionals(list(texts), tmp_path, ["BLCKSZ", "XLOG_BLCKSZ"])
    assert found == {"direct.c", "continued.c", "through.c"}


def test_a_command_is_read_and_written_again() -> None:
    words = ["gcc", "-Isrc", "-MD", "-MQ", "a/x.c.o", "-MF", "a/x.c.o.d", "-o", "a/x.c.o", "-c", "../x.c"]
    command = Command(tuple(words), "a/x.c.o")
    assert command.compiles
    assert not command.links
    assert command.to_standard_output("-Imarked") == "gcc -Imarked -Isrc ../x.c -E -P"
    moved = command.replaced({"a/x.c.o": "sizes/b/a/x.c.o"}, "-Ihere")
    assert moved == ("gcc -Ihere -Isrc -MD -MQ sizes/b/a/x.c.o -MF sizes/b/a/x.c.o.d -o sizes/b/a/x.c.o -c ../x.c")
    assert command.of_text("sizes/b/x.i", "sizes/b/x.c.o") == "gcc -Isrc -o sizes/b/x.c.o -c sizes/b/x.i -w"
    archive = Command(("rm", "-f", "l.a", "&&", "gcc-ar", "csrD", "l.a", "a/x.c.o"), "l.a")
    assert archive.archives
    assert archive.replaced({"l.a": "s/l.a", "a/x.c.o": "s/x.o"}) == "rm -f s/l.a && gcc-ar csrD s/l.a s/x.o"
