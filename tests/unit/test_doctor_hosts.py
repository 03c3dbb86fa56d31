"""The rows of many hosts, and the time that they get."""

import json
from typing import Any

from octavo.doctor.hosts import document, headline, rows_of, seconds_for
from octavo.doctor.html import render_hosts
from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import HostAnswer


def server(port: int) -> dict[str, Any]:
    return {"server": f"port {port}", "version": "18.1", "problem": None, "results": [], "page_stack": []}


def test_servers_beyond_the_limit_are_counted() -> None:
    """Otherwise their findings would look like none."""
    report = {"schema_version": 1, "servers": [server(5432 + number) for number in range(53)]}
    rows = rows_of(HostAnswer(RemoteHost("many", "many"), 0, json.dumps(report).encode()))
    assert len(rows) == 51
    assert rows[-1]["problem"] == "3 servers more than 50, left out here"
    assert headline(document(rows)) == "50 servers on 1 host: nothing to change; 1 host could not be examined"


def test_the_page_does_not_call_a_host_good_whose_rules_are_unknown() -> None:
    one = server(5432) | {"results": [{"rule": "oom", "status": "unknown", "severity": None}]}
    report = {"schema_version": 1, "servers": [one, server(5433) | {"problem": "it does not respond"}]}
    rows = rows_of(HostAnswer(RemoteHost("a", "a"), 0, json.dumps(report).encode()))
    page = render_hosts(document(rows))
    assert "nothing to change" not in page and "no findings; 1 result unknown" in page
    assert "not examined: it does not respond" in page


def test_a_long_interval_is_not_cut_off() -> None:
    assert seconds_for(0.0) == 60
    assert seconds_for(90.0) > 60 + 90
