"""Compiler flags that cannot be used here are reported before anything is compiled."""

from pathlib import Path

from tests.tools import needs

from octavo.host.journal import Journal
from octavo.postgres.builds.flags import refused

needs_gcc = needs("gcc")


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
        assert reason is None or reason.endswith("which -march=native uses")
        assert refused("gcc", ("-march=native",), journal, everything) is None  # a CPU about which nothing is known
