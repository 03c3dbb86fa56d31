"""`octavo run --fleet HOSTS.toml --dry-run`, with hosts that answer anything."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.unit.plans import small_plan

from octavo.cli.dry_run import print_dry_run
from octavo.fleet import estimates, launch
from octavo.fleet.orders import seed_of_host
from octavo.fleet.runs import FleetTarget
from octavo.lab.host_estimate import HostEstimate
from octavo.plan.cells import make_cells, order_of_round
from octavo.plan.model import Plan, restore_plan
from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import HostAnswer

PLAN = small_plan()
CELLS = make_cells(PLAN)
ABLE = HostEstimate({}, (), 0, 0, 2**30, 0.0, 24, 0, uncounted=False, trial_seconds=60.0, repeat_seconds=60.0)


def test_the_order_is_that_of_the_first_host_that_can_run_something(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had the seed of the first host that is listed, and no cell if that one can run none."""
    unable = replace(ABLE, skipped={cell.id: "its class is another one" for cell in CELLS})
    found = {"a": "the host does not respond", "b": unable, "c": ABLE}
    monkeypatch.setattr(estimates, "host_estimates", Mock(return_value=(PLAN, found)))
    print_dry_run(PLAN, 3, FleetTarget(Path("hosts.toml"), None))
    text = capsys.readouterr().out
    assert "on c; every host has an order of its own:" in text
    printed = text.partition("  round 1, load ")[2].splitlines()[1 : 1 + len(CELLS)]
    assert [line.strip() for line in printed] == [cell.id for cell in order_of_round(CELLS, 1, 1, seed_of_host(3, 3))]


def test_the_classes_of_the_hosts_are_levels_as_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It showed half of the cells that the run then measured, in another order."""
    file = tmp_path / "hosts.toml"
    file.write_text('[[host]]\nname = "a"\nclass = "arm"\n[[host]]\nname = "b"\nclass = "x86"\n')
    sent: list[Plan] = []

    def ask(hosts: Sequence[RemoteHost], _: object, inputs: Mapping[str, bytes]) -> list[HostAnswer]:
        sent.extend(restore_plan(json.loads(inputs[host.name])) for host in hosts)
        return [HostAnswer(host, 0, json.dumps(ABLE.as_dict()).encode()) for host in hosts]

    monkeypatch.setattr(estimates, "ask_hosts", ask)
    monkeypatch.setattr(launch, "ask_hosts", Mock(return_value=[]))
    print_dry_run(PLAN, 3, FleetTarget(file, None))
    text = capsys.readouterr().out
    assert text.startswith("the hosts are of 2 classes, each analysed separately: arm, x86\n")
    assert f"cells ({2 * len(CELLS)}):" in text
    assert [plan.factors["host_class"] for plan in sent] == [["arm", "x86"]] * 2


@pytest.mark.parametrize("value", ["Infinity", "NaN", "-1", "9" * 400, '"1"', "null"])
@pytest.mark.parametrize("name", ["loads", "trial_seconds"])
def test_a_number_that_no_estimate_has_is_not_printed(name: str, value: str) -> None:
    """It was a traceback when it was written as a count or a duration."""
    text = json.dumps(ABLE.as_dict() | {name: "…"}, ensure_ascii=False).replace('"…"', value)
    assert estimates._read(text) == "the output is not Octavo's"  # pyright: ignore[reportPrivateUsage]


def test_an_estimate_arrives_as_it_was_sent() -> None:
    assert estimates._read(json.dumps(ABLE.as_dict())) == replace(ABLE)  # pyright: ignore[reportPrivateUsage]
