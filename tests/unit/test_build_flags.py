"""Compiler flags that are no use here are known before anything is compiled."""

import shutil
from pathlib import Path

import pytest

from octavo.host import children
from octavo.host.journal import Journal
from octavo.postgres.builds.flags import refused

needs_gcc = pytest.mark.skipif(shutil.which("gcc", path=children.PLAIN_PATH) is None, reason="there is no gcc")


@needs_gcc
def test_flags_are_tried_with_the_compiler_and_the_cpu(home: Path, tmp_path: Path) -> None:
    everything = tmp_path / "cpuinfo"
    everything.write_text("")
    with Journal() as journal:
        assert refused("gcc", (), journal) is None
        assert refused("no-such-compiler", ("-O3",), journal) is None
        assert refused("gcc", ("-O3",), journal) is None
        reason = refused("gcc", ("-march=no-such-machine",), journal) or ""
        assert reason.startswith("gcc refuses -march=no-such-machine: ")
        assert "no-such-machine" in reason.partition(": ")[2]
        bare = tmp_path / "bare"
        bare.write_text("flags\t\t: fpu\nFeatures\t: fp\n")
        reason = refused("gcc", ("-march=native",), journal, bare)
        assert reason is None or reason.endswith("which -march=native makes use of")
        assert refused("gcc", ("-march=native",), journal, everything) is None  # a CPU of which nothing is known
