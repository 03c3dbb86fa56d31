"""Three hosts as network namespaces of this machine, reached over sshd if installed: certificates, a real run, and what
remains after it."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB
from tests.namespaces import ROOT, Network, network, processes_in
from tests.preset_plans import tolerant_plan
from tests.tools import found

from octavo.analysis.document import make_document
from octavo.host import cgroup
from octavo.host.journal import Journal
from octavo.lab.slices import eligibility
from octavo.plan.parts import host_of_part
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.store.store import Store
from octavo.workloads import find

# Each host has its own run lock, and its numbers are irrelevant.
pytestmark = needs_root

_SHORT = (
    "--size", "quick", "--rounds", "2", "--seed", "7",
    "--set", "scale=1", "--set", "duration=1s", "--set", "mode=read-only", "--set", "device=native",
    "--set", "clients=2", "--set", "recycled_wal=32MB",
)  # fmt: skip

_CERTIFICATE = ("host.pem", "host.key")


@pytest.fixture(scope="module")
def fleet(home: Path) -> Iterator[Network]:
    """`earlier` in alpha's state directory has its certificate from before the authority was renewed."""
    with Journal() as journal:  # the two that the plan needs, not all that other tests share
        ensure_builds([BuildSpec("18", size, "8kB") for size in ("4kB", "8kB")], journal)
    shared = [(home / name).resolve() for name in ("builds", "sources")]
    with network(["alpha", "beta", "gamma"], shared, ssh=found("sshd") is not None) as made:
        made.coordinator.octavo("fleet", "init", str(made.file))
        shutil.copytree(made.hosts[0].home / "fleet", made.hosts[0].home / "earlier")
        made.coordinator.octavo("fleet", "init", "--renew", str(made.file))
        yield made


def test_a_host_without_a_certificate_cannot_take_part_and_one_with_it_can(fleet: Network) -> None:
    told = fleet.coordinator.octavo("fleet", "check", str(fleet.file), check=False)
    assert told.returncode == 0
    assert re.findall(r"^(\w+): can take part$", told.stdout, re.MULTILINE) == ["alpha", "beta", "gamma"]
    key = fleet.hosts[0].home / "fleet" / "host.key"
    key.rename(key.with_name("away"))
    try:
        told = fleet.coordinator.octavo("fleet", "check", str(fleet.file), check=False)
        assert told.returncode == 1
        assert "alpha: no valid certificate" in told.stdout
    finally:
        key.with_name("away").rename(key)


def test_a_host_with_another_octavo_is_refused_and_the_run_goes_on_without(fleet: Network, tmp_path: Path) -> None:
    other = tmp_path / "src"
    shutil.copytree(ROOT / "src", other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "octavo" / "units.py").open("a") as file:
        file.write("# another\n")
    with fleet.changed(f"PYTHONPATH={ROOT / 'src'}", f"PYTHONPATH={other}", after="beta"):
        told = fleet.coordinator.octavo("fleet", "check", str(fleet.file), check=False)
        done = fleet.coordinator.run(sys.executable, "-m", "tests.fleet_coordinator", str(fleet.file), "1")
    assert told.returncode == 1
    assert "beta: another package: " in told.stdout
    assert "; install the same Octavo" in told.stdout
    assert re.findall(r"^(\w+): can take part$", told.stdout, re.MULTILINE) == ["alpha", "gamma"]
    assert "the run continues without beta: beta has another Octavo" in done.stdout
    assert set(re.findall(r"^trial (\w+)", done.stdout, re.MULTILINE)) == {"alpha", "gamma"}


def test_only_who_has_a_certificate_is_let_in_and_nothing_else_listens(fleet: Network) -> None:
    """A certificate of an earlier authority is refused; a new authority is refused as long as running processes would
    accept the earlier one."""
    fleet.coordinator.octavo("fleet", "run", str(fleet.file))
    try:
        for place, port in ((fleet.coordinator, 8786), *((host, 8790) for host in fleet.hosts)):
            listening = [line.split()[4] for line in place.run("ss", "-Hlntu").stdout.splitlines()]
            assert listening == [f"{place.address}:{port}"]
        alpha = fleet.hosts[0].home
        files = [str(alpha / place / name) for place in ("earlier", "fleet") for name in _CERTIFICATE]
        for address in (f"{fleet.coordinator.address}:8786", f"{fleet.hosts[1].address}:8790"):
            stranger = fleet.coordinator.run(sys.executable, "-c", _STRANGER, address, *files)
            assert stranger.stdout.splitlines() == ["refused", "refused", "refused", "let in"]
        again = fleet.coordinator.octavo("fleet", "init", "--renew", str(fleet.file), check=False)
        assert (again.returncode, "stop it first: octavo fleet stop" in again.stderr) == (2, True)
    finally:
        fleet.coordinator.octavo("fleet", "stop", str(fleet.file))
    assert not [pid for place in (fleet.coordinator, *fleet.hosts) for pid in processes_in(place)]


# Connects with TLS but no certificate, without TLS, then with an earlier certificate: each is refused before any
# message of Dask's. With a valid certificate it is accepted.
_STRANGER = """
import socket, ssl, sys

def says(certificate, secret=True):
    address, port = sys.argv[1].split(":")
    raw = socket.create_connection((address, port), timeout=20)
    try:
        context = ssl._create_unverified_context()
        if certificate:
            context.load_cert_chain(*certificate)
        sock = context.wrap_socket(raw) if secret else raw
        if not certificate:
            sock.sendall(b"\\0" * 64)
        return "let in" if sock.recv(1) else "refused"
    except (OSError, ssl.SSLError):
        return "refused"

print(says(()), says((), secret=False), says(sys.argv[2:4]), says(sys.argv[4:6]), sep="\\n")
"""


def test_a_preset_over_three_hosts_is_analysed_as_the_same_trials_in_one_store(
    fleet: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a minute: three hosts on one machine make three loads each, and measure three cells in two rounds; each
    cell has its own memory group if there can be any, and runs in slices if memory groups can be frozen."""
    memory = "none" if cgroup.memory_controller() is None else "512MB"
    plan = fleet.coordinator.home / "oltp-blocks-demo.toml"
    plan.write_text(tolerant_plan("oltp-blocks-demo", loads=1))
    words = ("run", str(plan), *_SHORT, "--set", f"memory={memory}", "--fleet", str(fleet.file))
    done = fleet.coordinator.octavo(*words, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("OCTAVO_HOME", str(fleet.coordinator.home))
    with closing(Store.open_to_read(fleet.coordinator.home / "octavo.sqlite")) as store:
        (run,) = re.findall(r"runs/([^/]+)/report.html", done.stdout.replace("\n", ""))
        document = make_document(store, run)
        record, cells, trials = store.run(run), store.cells(run), store.trials(run)
    places = {(trial.round, host_of_part(trial.part), trial.cell) for trial in trials if trial.status == "ok"}
    assert len(places) == 2 * 3 * 3  # rounds, hosts, and 4 kB, 8 kB and 8 kB again
    assert {(trial.facts or {})["host"] for trial in trials} == {"alpha", "beta", "gamma"}
    limits = {None} if memory == "none" else {512 * MB}
    assert {(trial.facts or {}).get("memory_limit_bytes") for trial in trials} == limits
    # A round that is too slow for slices is continued without them.
    if eligibility.not_here(find(record.plan["workload"]), cells) is None:
        assert "slices" in {(trial.facts or {}).get("interleave") for trial in trials}
    assert "on these 3 hosts" in document["verdicts"][0]["sentence"]
    # A metric that was zero on a host, for example a wait, has no ratio there.
    assert {row["hosts"] for row in document["effects"] if row["metric"] == "tps"} == {3}

    # As if a single host had measured one part after another.
    ordered = sorted(trials, key=lambda trial: (trial.part, trial.round, trial.position))
    with closing(Store.open(tmp_path / "one.sqlite")) as one:
        one.add_finished_run(record, cells, ordered)
        again = make_document(one, run)
    for part in ("effects", "noise_floor", "model", "verdicts"):
        assert again[part] == document[part]
    for host in fleet.hosts:
        assert not list((host.home / "scratch").glob("*"))
        assert not list((host.home / "journal").glob("*"))
        assert not list((host.home / "fleet" / "outbox").glob("*"))
    _secrets_are_nowhere_else(fleet, document)


def _secrets_are_nowhere_else(fleet: Network, document: dict[str, Any]) -> None:
    secret = (fleet.coordinator.home / "fleet" / "coordinator.key").read_text().splitlines()[1]
    assert secret not in str(document)
    logs = [file for place in (fleet.coordinator, *fleet.hosts) for file in (place.home / "fleet").glob("*.log")]
    assert len(logs) == 4
    assert not [file for file in logs if secret in file.read_text()]
