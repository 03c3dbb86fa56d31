"""The estimate of a plan on each host of a fleet, for `octavo run --fleet … --dry-run`. Nothing is started."""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from octavo.fleet.launch import ask_hosts, classes_of
from octavo.fleet.runs import FleetTarget, by_class
from octavo.lab.events import Notify
from octavo.lab.host_estimate import HostEstimate, host_estimate, host_estimate_of
from octavo.lab.runnable import class_here
from octavo.plan.model import Plan, restore_plan
from octavo.remote.hosts_file import UNNAMED_CLASS, RemoteHost, read_fleet


def host_estimates(target: FleetTarget, plan: Plan, notify: Notify) -> tuple[Plan, dict[str, HostEstimate | str]]:
    """The plan as these hosts would run it (see `runs.by_class`), and for each host the estimate or one line that says
    why there is none. The hosts of a file are asked over SSH, those of another Dask cluster through its scheduler.
    Raises OctavoError when the scheduler does not answer, or the classes cannot be levels."""
    if target.file is None:
        from octavo.fleet.dask_hosts import DaskHosts

        assert target.scheduler is not None
        with closing(DaskHosts.of_others(target.scheduler)) as hosts:
            hosts.look()
            classed = by_class(plan, hosts.ask_all(class_here), notify)
            told: Mapping[str, Any] = hosts.ask_all(estimate_here, classed.model_dump_json())
            return classed, {name: _read(told.get(name)) for name in sorted(hosts.present())}

    chosen = read_fleet(target.file).hosts
    classed = by_class(plan, classes_of(chosen), notify)
    content = classed.model_dump_json().encode()

    def words(host: RemoteHost) -> list[str]:
        return ["estimate", *([] if host.host_class == UNNAMED_CLASS else ["--class", host.host_class])]

    answers = ask_hosts(chosen, words, {host.name: content for host in chosen})
    return classed, {
        answer.host.name: answer.failure or _read(answer.output.decode(errors="replace")) for answer in answers
    }


def estimate_here(plan: str, of_class: str | None = None) -> str:
    """A task, also the output of `octavo fleet host estimate`: this host's estimate as JSON."""
    return json.dumps(host_estimate(restore_plan(json.loads(plan)), of_class).as_dict())


def _read(text: str | None) -> HostEstimate | str:
    if text is None:
        return "the host does not respond"
    try:
        return host_estimate_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "the output is not Octavo's"
