"""The rows of many hosts, and the time that they get."""

import json
from typing import Any

from octavo.doctor.hosts import document, headline, rows_of, seconds_for
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


def test_a_long_interval_is_not_cut_off() -> None:
    assert seconds_for(0.0) == 60
    assert seconds_for(90.0) > 60 + 90
