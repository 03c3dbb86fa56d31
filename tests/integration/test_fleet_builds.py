"""A build that one host has is sent to a host that lacks it, and used for measuring there."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.namespaces import Network, network
from tests.preset_plans import tolerant_plan

from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.store.store import Store

pytestmark = needs_root

_SHORT = (
    "--size", "quick", "--rounds", "1", "--seed", "7", "--set", "data_block=8kB,4kB",
    "--set", "scale=1", "--set", "duration=1s", "--set", "mode=read-only", "--set", "device=native",
    "--set", "memory=none", "--set", "clients=2", "--set", "recycled_wal=32MB",
)  # fmt: skip


@pytest.fixture
def fleet(home: Path) -> Iterator[Network]:
    """Alpha has the builds of all tests, beta only one of the two that the plan needs; both have the sources."""
    with Journal() as journal:
        one, _ = ensure_builds([BuildSpec("18", size, "8kB") for size in ("8kB", "4kB")], journal)
    with network(["alpha", "beta"], [(home / "sources").resolve()]) as made:
        alpha, beta = made.hosts
        (alpha.home / "builds").symlink_to((home / "builds").resolve())
        (beta.home / "builds").mkdir()
        (beta.home / "builds" / one.name).symlink_to(one.prefix.resolve())
        made.coordinator.octavo("fleet", "init", str(made.file))
        yield made


def test_a_build_travels_to_the_host_that_lacks_it(fleet: Network) -> None:
    """More than a minute: each of two hosts makes loads and measures two cells, twice. Then one has copies of the
    other's loads, as if its disk had been cloned: they do not count as its own loads."""
    alpha, beta = fleet.hosts
    plan = fleet.coordinator.home / "oltp-blocks-demo.toml"
    plan.write_text(tolerant_plan("oltp-blocks-demo").replace("control = true", "control = false"))
    told = fleet.coordinator.octavo("run", str(plan), *_SHORT, "--fleet", str(fleet.file), check=False)
    assert told.returncode == 0, told.stderr
    sent = re.findall(r"(\S+): made on alpha, sent to beta", told.stdout + told.stderr)
    (name,) = sent
    assert f"preparing {name}: packing on alpha, to send it to beta" in told.stderr
    there, here = (host.home / "builds" / name for host in (alpha, beta))
    assert (here / "manifest.json").read_text() == (there / "manifest.json").read_text()
    assert {str(path.relative_to(here)) for path in here.rglob("*")} == {
        str(path.relative_to(there)) for path in there.rglob("*")
    }
    assert {path.stat().st_uid for path in here.rglob("*")} == {0}
    assert not [path for path in here.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert not list((beta.home / "builds").glob(".new*"))
    assert not [host.name for host in (alpha, beta) if (host.home / "fleet" / "parcels").exists()]
    with closing(Store.open_to_read(fleet.coordinator.home / "octavo.sqlite")) as store:
        (run,) = [path.name for path in (fleet.coordinator.home / "runs").iterdir()]
        measured = {((trial.facts or {})["host"], trial.status) for trial in store.trials(run)}
    assert measured == {("alpha", "ok"), ("beta", "ok")}
    shutil.rmtree(beta.home / "datasets")
    subprocess.run(["cp", "-a", alpha.home / "datasets", beta.home / "datasets"], check=True)
    again = fleet.coordinator.octavo("run", str(plan), *_SHORT, "--fleet", str(fleet.file), check=False)
    assert again.returncode == 0, again.stderr
    found = re.findall(r"the run continues without (\w+): its load \S+ is a copy of (\w+)'s", again.stderr)
    assert [set(one) for one in found] == [{"alpha", "beta"}]
