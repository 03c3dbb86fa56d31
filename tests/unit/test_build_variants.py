"""The factor `build_options`: words for what a build is made with, as flags and options of both build systems."""

import pytest

from octavo.errors import UsageError
from octavo.plan.factors import COMMON, build_of
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.variants import WORDS

FACTOR = next(factor for factor in COMMON if factor.name == "build_options")


def made(words: str, version: str = "18.6", flags: str = "none") -> list[str]:
    spec = build_of({"build_options": words, "version": version, "compiler_flags": flags})
    return options(spec, version)


def test_words_have_one_order_and_are_known() -> None:
    assert FACTOR.check("lto+O3") == FACTOR.check("O3+lto") == "O3+lto"
    assert FACTOR.check("none") == "none"
    for wrong in ("pgo", "lto+lto", "none+lto", "", "lto+"):
        with pytest.raises(UsageError, match="allowed: none, or"):
            FACTOR.check(wrong)


def test_a_build_of_before_is_the_build_of_none() -> None:
    assert build_of({}) == build_of({"build_options": "none"})
    assert build_of({}).options == () and build_of({}).flags == ()


def test_meson_gets_its_own_options() -> None:
    said = made("+".join(WORDS))
    assert "-Dc_args=-O3 -fno-plt" in said and "-Db_lto=true" in said
    links = [one for one in said if one.startswith("-Dc_link_args=")]
    # The last one counts, and keeps the run path that makes an installation relocatable.
    assert "max-page-size" not in links[0] and links[-1].startswith(f"{links[0]} ") and "max-page-size" in links[-1]
    assert "-Dc_args=-O3 -march=native" in made("O3", flags="-march=native")


def test_configure_gets_flags() -> None:
    said = made("lto+aligned-text", "15.18")
    assert "CFLAGS=-O2 -flto=auto -ffat-lto-objects" in said
    assert said[-1].startswith("LDFLAGS=-Wl,-rpath,'$$ORIGIN'/../lib -Wl,-z,max-page-size=2097152")
