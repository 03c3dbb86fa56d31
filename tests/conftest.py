"""Fixtures for all tests: a separate state directory, the shared builds, a journal, the command itself."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck
from tests.state import DATA_BLOCKS, shared_builds, shared_state
from tests.tools import as_failure

from octavo.home import octavo_home
from octavo.host import cgroup
from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build

ROOT = Path(__file__).parents[1]

# In other directories the fixtures of a test determine its marker.
_INTEGRATION, _END_TO_END = (Path(__file__).parent / name for name in ("integration", "e2e"))

Octavo = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure() -> None:
    # The duration of an example is meaningless on a shared machine.
    hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    hypothesis.settings.load_profile("shared")
    # A suite in the background of a shell inherits that these signals are ignored, and so would all of its children.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # A suite that is stopped removes what it has made.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if "builds" in fixtures or _INTEGRATION in item.path.parents:
            item.add_marker(pytest.mark.integration)
        if "octavo" in fixtures or _END_TO_END in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    as_failure(report)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # A suite that is killed never prints its summary.
    if report.failed:
        print(f"\n{report.nodeid} failed in its {report.when} after {report.duration:.0f} s:", file=sys.__stderr__)
        print(report.longreprtext, file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def machine() -> Path:
    """The machine's own state directory."""
    return octavo_home()


@pytest.fixture(scope="session")
def home(machine: Path) -> Iterator[Path]:
    """OCTAVO_HOME for the session, removed at the end except for the builds, which the next session uses."""
    del machine  # requested first, while the environment still names it
    with shared_state() as directory:
        yield directory


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    with Journal() as opened:
        yield opened


@pytest.fixture(scope="session")
def account() -> Account:
    return server_account()


@pytest.fixture(scope="session")
def builds(home: Path) -> dict[str, Build]:
    """Builds of 18, by data block."""
    with Journal() as journal:
        return shared_builds(journal)


@pytest.fixture(scope="session", params=DATA_BLOCKS)
def build(request: pytest.FixtureRequest, builds: dict[str, Build]) -> Build:
    """Parametrizes the test with each of these data blocks."""
    return builds[request.param]


@pytest.fixture
def octavo(home: Path) -> Octavo:
    """Runs `./octavo` as a user does."""

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "octavo", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={**os.environ, **environment},
            timeout=600,
        )

    return call


def memory_groups_of_runs(home: Path) -> set[Path]:
    """The existing memory groups of servers that the runs of this state directory have made; other tests have theirs at
    the same time."""
    controller = cgroup.memory_controller()
    assert controller is not None
    return {group for token in tokens_of_runs(home) for group in controller.glob(f"octavo-{token[:8]}-*")}


def tokens_of_runs(home: Path) -> list[str]:
    """The tokens in the journals of this state directory's runs, which name what the runs make."""
    with closing(sqlite3.connect(home / "octavo.sqlite")) as store:
        tokens = [token for (token,) in store.execute("SELECT token FROM run")]
    assert tokens
    return tokens


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A plan that takes seconds: two cells and a control, read-write, two rounds."""
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
        recycled_wal = "32MB"
        shared_buffers = "16MB"

        [settings]
        autovacuum = "off"

        [validity]
        most_steal = "100%"  # these trials are about the way, not about their numbers
        most_foreign_cpu = "100%"
        most_foreign_io = "1TB"
        most_clock_step = "1h"
        fewest_transactions = 1
        shortest_duration = "50%"  # connecting takes its part of a second
        """
    )
    return path
