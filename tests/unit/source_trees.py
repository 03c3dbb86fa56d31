"""Minimal source trees, for tests of sources."""

from pathlib import Path

import pytest

from octavo.errors import OctavoError

CONFIGURE = "AC_INIT([PostgreSQL], [{}], [pgsql-bugs@lists.postgresql.org], [], [https://www.postgresql.org/])\n"
MESON = "project('postgresql',\n  ['c'],\n  version: '{}',\n  license: 'PostgreSQL',\n)\n"


def make_tree(root: Path, version: str) -> Path:
    """A minimal source tree that is accepted as one: a program to run, a link, and a directory below another."""
    (root / "src" / "include").mkdir(parents=True)
    (root / "configure.ac").write_text("# how it is configured\n" + CONFIGURE.format(version))
    (root / "configure").write_text("#!/bin/sh\n")
    (root / "configure").chmod(0o755)
    (root / "src" / "include" / "c.h").write_text("/* c */\n")
    (root / "README").symlink_to("configure.ac")
    return root


def one_line(problem: pytest.ExceptionInfo[OctavoError]) -> str:
    text = str(problem.value)
    assert "\n" not in text
    return text
