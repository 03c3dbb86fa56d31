"""Kills and full disks, a few of each: `benchmarks/faults.py` counts what is lost, left behind and not resumed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT

from octavo.postgres.builds.cache import Build

pytestmark = pytest.mark.alone  # the host's fingerprint is taken before and after

_SCENARIOS = ("a run with every knob", "octavo hugepages apply", "octavo build --matrix", "octavo io --make")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_kills_and_full_disks_cost_nothing(builds: dict[str, Build], machine: Path) -> None:
    """More than a minute: every kill is followed by a restore, and by the command that completes the work."""
    assert builds, "what the runs need"
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks/faults.py", "--quick"],
        capture_output=True, text=True, check=False, env={**os.environ, "OCTAVO_HOME": str(machine)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for scenario in _SCENARIOS:
        assert f"| {scenario} |" in ended.stdout
    assert "0 differences from the host as it was" in ended.stdout
