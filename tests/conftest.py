"""A state directory of the tests' own, which shares sources and compiled objects with the machine's."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home
from octavo.host.children import server_account
from octavo.postgres.builds.as_account import COMPILER_CACHE, compiler_cache

# What costs minutes to make is shared with other sessions. Builds are the tests' own: a user puts extensions in his.
_SHARED = {"builds": "tests/builds", "sources": "sources"}


def pytest_configure() -> None:
    # How long an example takes says nothing on a machine that others share.
    hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    hypothesis.settings.load_profile("shared")
    # A suite in the background of a shell inherits that these are ignored, and so would all that it interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # A suite that is cut off never comes to its summary.
    if report.failed:
        print(f"\n{report.nodeid} failed in its {report.when} after {report.duration:.0f} s:", file=sys.__stderr__)
        print(report.longreprtext, file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def machine() -> Path:
    """The state directory that is the machine's own."""
    return octavo_home()


@pytest.fixture(scope="session")
def home(machine: Path) -> Iterator[Path]:
    """OCTAVO_HOME for the session, gone at the end but for the builds, which the next one finds."""
    # Not below pytest's own directory, which the servers' user may not enter.
    directory = Path(tempfile.mkdtemp(prefix="octavo-test-", dir="/var/tmp"))
    directory.chmod(0o755)
    for name, place in _SHARED.items():
        (directory / name).symlink_to(make_directory(machine / place))
    with suppress(HostError):  # without the account nothing is built
        (directory / COMPILER_CACHE).symlink_to(compiler_cache(machine / "tests", server_account()))
    before = os.environ.get("OCTAVO_HOME")
    os.environ["OCTAVO_HOME"] = str(directory)
    yield directory
    if before is None:
        del os.environ["OCTAVO_HOME"]
    else:
        os.environ["OCTAVO_HOME"] = before
    shutil.rmtree(directory)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A plan of seconds: two cells and a control, read-write, two rounds."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        """
        name = "tiny"
        question = "Does the whole way work?"
        workload = "pgbench"
        rounds = 2
        loads = 1

        [baseline]
        data_block = "8kB"

        [factors]
        data_block = ["4kB", "8kB"]
        mode = "read-write"
        scale = 1
        clients = 2
        duration = "1s"
        cache = "cold"
        recycled_wal = "64MB"
        shared_buffers = "16MB"

        [settings]
        autovacuum = "off"

        [validity]
        most_steal = "100%"  # these trials are about the way, not about their numbers
        most_foreign_cpu = "100%"
        most_foreign_io = "1TB"
        shortest_duration = "50%"  # connecting takes its part of a second
        """
    )
    return path
