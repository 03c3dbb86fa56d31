"""A Dask that somebody else operates: his scheduler, workers and certificates, as described in docs/fleet.md."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.namespaces import Network, Place, network, processes_in
from tests.sleeping_bench import SECONDS

from octavo import _core
from octavo.fleet import certificates
from octavo.store.store import Store
from octavo.trace.files import summarize
from octavo.trace.surface import SurfaceRequest, surface

pytestmark = needs_root

PORT = 8786
_ACCESSES, _PAGES = 400_000, 30_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An authority that is not Octavo's, and one certificate of it for all."""
    place = tmp_path_factory.mktemp("tls")
    place.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "octavo_home", lambda: place)
        patch.setattr("octavo.home.octavo_home", lambda: place)
        certificates.make_authority()
    made = {name: place / "fleet" / file for name, file in _FILES.items()}
    assert all(path.is_file() for path in made.values())
    return made


_FILES = {"ca": "ca.pem", "cert": "coordinator.pem", "key": "coordinator.key"}


@pytest.fixture(scope="module")
def dask(files: dict[str, Path]) -> Iterator[Network]:
    """A scheduler and two workers, started only with Dask's own commands."""
    tls = ["--tls-ca-file", str(files["ca"]), "--tls-cert", str(files["cert"]), "--tls-key", str(files["key"])]
    client = "DASK_DISTRIBUTED__COMM__TLS__"
    environment = [
        f"{client}CA_FILE={files['ca']}",
        f"{client}CLIENT__CERT={files['cert']}",
        f"{client}CLIENT__KEY={files['key']}",
        f"{SECONDS}=0.05",
    ]
    with network(["alpha", "beta"], environment=environment) as made, ExitStack() as stack:
        scheduler = f"tls://{made.coordinator.address}:{PORT}"

        def start(place: Place, *words: str) -> None:
            process = subprocess.Popen(
                [*place.through, sys.executable, "-m", "dask", *words, *tls],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start(made.coordinator, "scheduler", "--host", made.coordinator.address, "--port", str(PORT), "--protocol",
              "tls", "--no-dashboard")  # fmt: skip
        for host in made.hosts:
            start(host, "worker", scheduler, "--nthreads", "1", "--no-nanny", "--resources", "bench=1", "--name",
                  host.name, "--host", host.address, "--no-dashboard", "--local-directory", str(host.home))  # fmt: skip
        made.coordinator.run(sys.executable, "-c", _WAIT, scheduler, *map(str, files.values()))
        yield made


_WAIT = """
import sys
from distributed import Client
from distributed.security import Security
scheduler, ca, cert, key = sys.argv[1:]
with Client(scheduler, security=Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key,
                                     require_encryption=True), timeout=300) as client:
    client.wait_for_workers(2, timeout=300)
"""


def test_a_run_goes_to_its_workers(dask: Network) -> None:
    words = ["-m", "tests.fleet_coordinator", f"tls://{dask.coordinator.address}:{PORT}", "2"]
    done = dask.coordinator.run(sys.executable, *words)
    assert "ended" in done.stdout
    with closing(Store.open_to_read(dask.coordinator.home / "octavo.sqlite")) as store:
        (run,) = [path.name for path in (dask.coordinator.home / "runs").iterdir()]
        trials = store.trials(run)
    assert {(trial.facts or {})["host"] for trial in trials} == {"alpha", "beta"}
    places = [(trial.round, trial.part, trial.cell) for trial in trials]
    assert len(places) == len(set(places)) == 2 * 2 * 6
    for host in dask.hosts:
        assert not list((host.home / "fleet" / "outbox").glob("*"))
        assert not list((host.home / "journal").glob("*"))
        assert processes_in(host)  # his workers continue


def test_a_dry_run_asks_its_workers(dask: Network) -> None:
    scheduler = f"tls://{dask.coordinator.address}:{PORT}"
    done = dask.coordinator.octavo("run", "oltp-blocks-demo", "--size", "quick", "--dry-run", "--scheduler", scheduler)
    assert "alpha:\n  builds needed" in done.stdout
    assert "all 2 hosts at the same time" in done.stdout


def test_a_trace_on_many_hosts_is_that_of_one_and_in_parts_within_its_error(dask: Network, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "skewed.octrace"
    write_skewed(path)
    whole = surface(SurfaceRequest(path, page_sizes=(4096, 8192, 32768), shared_buffers=16 * 1024**2, threads=1))
    words = [
        "trace", "surface", str(path), "--page-size", "4kB", "--page-size", "8kB", "--page-size", "32kB",
        "--shared-buffers", "16MB", "--scheduler", f"tls://{dask.coordinator.address}:{PORT}", "--threads", "1",
        "--format", "json",
    ]  # fmt: skip
    by_size = json.loads(dask.coordinator.octavo(*words).stdout)
    assert by_size["parts"] == 1
    assert by_size["curves"] == json.loads(json.dumps(whole["curves"]))
    parts = json.loads(dask.coordinator.octavo(*words, "--parts", "4").stdout)
    assert parts["parts"] == 4
    assert parts["clock_sweep"] == whole["clock_sweep"]
    assert parts["capacities_bytes"] == whole["capacities_bytes"]
    compared = 0
    for one, other in zip(whole["curves"], parts["curves"], strict=True):
        assert (one["page_size_bytes"], one["layout"]) == (other["page_size_bytes"], other["layout"])
        triples = zip(parts["capacities_bytes"], one["hit_ratios"], other["hit_ratios"], strict=True)
        for (capacity, exact, estimated), error in zip(triples, other["standard_errors"], strict=True):
            if capacity >= other["resolved_from_bytes"]:
                compared += 1
                assert abs(exact - estimated) <= 4 * error + 0.002
    assert compared > 50
    assert summarize(path)["reads"] == _ACCESSES


def test_a_trace_that_is_not_there_is_an_error_in_a_line(dask: Network, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "here.octrace"
    write_skewed(path, 20_000)
    scheduler = f"tls://{dask.coordinator.address}:{PORT}"
    for host in dask.hosts:
        host.run("mount", "-t", "tmpfs", "none", str(tmp_path))
    try:
        told = dask.coordinator.octavo("trace", "surface", str(path), "--scheduler", scheduler, check=False)
    finally:
        for host in dask.hosts:
            host.run("umount", str(tmp_path))
    assert told.returncode == 2
    assert "alpha: " in told.stderr and "cannot be read" in told.stderr
    assert "Traceback" not in told.stderr


def write_skewed(path: Path, count: int = _ACCESSES) -> None:
    """Writes accesses to pages of one relation, at the cube of a uniform random number."""
    drawn = random.Random(7)
    writer = _core.TraceWriter(path, 8192)
    writer.push([(number, 1, 1663, 5, 16384, 0, int(drawn.random() ** 3 * _PAGES), 0, 0) for number in range(count)])
    writer.finish()
    path.chmod(0o644)
