"""What becomes of a task that raises what Dask raises itself where a host is lost."""

import errno
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import distributed
import pytest

from octavo.errors import HostError
from octavo.fleet import dask_hosts
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.events import Came, Refused

_dask: Any = distributed  # its types are partly unknown


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def late(*_: Any) -> None:
    raise TimeoutError("the source did not answer")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskHosts]:
    """One host, which is a thread of this process."""
    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "inproc", "resources": {"bench": 1}}
    with (
        _dask.LocalCluster(**one, dashboard_address=None) as cluster,
        _dask.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(1)

        def connect(*_: object) -> Any:
            return client

        monkeypatch.setattr(dask_hosts, "connect", connect)
        found = DaskHosts("127.0.0.1:8786", tasks=SimpleNamespace(begin=full), secured=object())
        found.look()
        yield found
        found.close()


def test_a_host_whose_disk_is_full_is_there_and_refuses(hosts: DaskHosts) -> None:
    """It was taken for lost, seen again and asked again, for as long as the run lasted."""
    (host,) = hosts.present()
    order: Any = SimpleNamespace(host=host)
    assert hosts.next_event(10) == Came(host)
    hosts.begin(order)
    assert hosts.next_event(10) == Refused(host, "OSError: [Errno 28] No space left on device")
    assert hosts.present() == {host}


def test_an_answer_that_is_a_timeout_of_the_task_is_not_waited_for(hosts: DaskHosts) -> None:
    (host,) = hosts.present()
    (answer,) = hosts.answers([(host, late)]).values()
    assert isinstance(answer, HostError)
    assert str(answer) == f"{host}: TimeoutError: the source did not answer"
