"""The factor `build_options`: options with which a build is made, as flags and options of both build systems."""

from pathlib import Path

import pytest
from tests.tools import needs

from octavo.errors import UsageError
from octavo.plan.factors import COMMON, build_of
from octavo.postgres.builds import training
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.variants import WORDS, refused
from octavo.postgres.builds.workspace import ToolFailed, set_up

FACTOR = next(factor for factor in COMMON if factor.name == "build_options")


def made(words: str, version: str = "18.6", flags: str = "none") -> list[str]:
    spec = build_of({"build_options": words, "version": version, "compiler_flags": flags})
    return options(spec, version)


def test_words_have_one_order_and_are_known() -> None:
    assert FACTOR.check("lto+O3") == FACTOR.check("O3+lto") == "O3+lto"
    assert FACTOR.check("none") == "none"
    for wrong in ("bolt", "lto+lto", "none+lto", "", "lto+"):
        with pytest.raises(UsageError, match="allowed: none, or"):
            FACTOR.check(wrong)


def test_a_build_of_before_is_the_build_of_none() -> None:
    assert build_of({}) == build_of({"build_options": "none"})
    assert build_of({}).options == () and build_of({}).flags == ()


def test_meson_gets_its_own_options() -> None:
    said = made("+".join(WORDS))
    assert "-Dc_args=-O3 -fno-plt" in said and "-Db_lto=true" in said
    links = [one for one in said if one.startswith("-Dc_link_args=")]
    # The last one takes effect, and keeps the run path that makes an installation relocatable.
    assert "max-page-size" not in links[0] and links[-1].startswith(f"{links[0]} ") and "max-page-size" in links[-1]
    assert "-Dc_args=-O3 -march=native" in made("O3", flags="-march=native")


def test_configure_gets_flags() -> None:
    said = made("lto+aligned-text", "15.18")
    assert "CFLAGS=-O2 -flto=auto -ffat-lto-objects" in said
    assert said[-1].startswith("LDFLAGS=-Wl,-rpath,'$$ORIGIN'/../lib -Wl,-z,max-page-size=2097152")


def test_a_profile_is_of_meson_and_gcc() -> None:
    assert training.USE in made("pgo") and made("lto+pgo")[-2:] == ["-Db_lto=true", training.USE]
    assert refused([training.USE], "gcc-12", "18.6") is None and refused([], "clang", "15.18") is None
    assert "needs PostgreSQL 16 or later" in (refused([training.USE], "gcc", "15.18") or "")
    assert "the compiler is clang" in (refused([training.USE], "clang", "18") or "")


def test_a_training_has_what_its_runs_name() -> None:
    named = {word.removeprefix("--file=") for run in training.RUNS for word in run if word.startswith("--file=")}
    assert {training.FILL, *named} == set(training.files())
    assert len(training.digest()) == 64


@needs("gcc")
def test_a_profile_is_found_where_objects_name_another_place(tmp_path: Path) -> None:
    """As with meson: a relative object path, whose profile is written by a program that runs in another directory."""
    workspace = set_up(tmp_path, "gcc", None)
    (tmp_path / "source").mkdir()
    (tmp_path / "build" / "x.p").mkdir(parents=True)
    (tmp_path / "source" / "x.c").write_text("int main(int n, char **a) { return n > 1 ? a[1][0] == 'x' : 0; }\n")

    def compiled(*options: str) -> None:
        words = ("gcc", "-O2", *options, "-c", "../source/x.c", "-o", "x.p/x.c.o")
        workspace.run("env", "-C", tmp_path / "build", *words, doing="compilation")

    compiled("-fprofile-generate")
    workspace.run("gcc", "-fprofile-generate", "build/x.p/x.c.o", "-o", "x", doing="link")
    workspace.run("env", "-C", "/", tmp_path / "x", doing="training")
    assert (tmp_path / "build" / "x.p" / "x.c.gcda").exists()
    compiled("-fprofile-use", "-Werror=missing-profile", "-Werror=coverage-mismatch")
    (tmp_path / "build" / "x.p" / "x.c.gcda").unlink()
    with pytest.raises(ToolFailed, match="not found"):
        compiled("-fprofile-use", "-Werror=missing-profile")
