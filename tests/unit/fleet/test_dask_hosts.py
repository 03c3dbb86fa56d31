"""Tasks that raise the exceptions that Dask itself raises when a host is lost."""

import errno
import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import distributed
import pytest

from octavo.errors import HostError
from octavo.fleet import dask_hosts
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.events import Came, Left, Refused
from octavo.fleet.orders import Delivery
from octavo.fleet.workshop import NotBegun

_dask: Any = distributed  # its types are partly unknown


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def late(*_: Any) -> None:
    raise TimeoutError("the source did not answer")


def not_begun(_: object) -> None:
    raise NotBegun("this host has not started the run")


_TRIAL_ENDED = threading.Event()
_LEFT: list[str] = []


def finish(run: str, _: dict[str, int]) -> Delivery | None:
    """Blocks in a trial until that ends; `short` is in none, and `rest` has something to deliver."""
    if run == "rest":
        return Delivery("box", (), time.time())
    if run != "short":
        assert _TRIAL_ENDED.wait(60)
    return None


def leave(run: str) -> None:
    _LEFT.append(run)


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
        found = DaskHosts(
            "127.0.0.1:8786",
            tasks=SimpleNamespace(begin=full, measure=not_begun, finish=finish, leave=leave),
            secured=object(),
        )
        found.look()
        yield found
        found.close()


def test_a_host_whose_disk_is_full_is_there_and_refuses(hosts: DaskHosts) -> None:
    """It was considered lost, seen again and asked again, for as long as the run lasted."""
    (host,) = hosts.present()
    order: Any = SimpleNamespace(host=host)
    assert hosts.next_event(10) == Came(host)
    hosts.begin(order)
    assert hosts.next_event(10) == Refused(host, "OSError: [Errno 28] No space left on device")
    assert hosts.present() == {host}


def test_a_host_whose_worker_was_started_anew_is_asked_to_begin(hosts: DaskHosts) -> None:
    """A worker that had begun no run took the task of its predecessor at the same address: it was left out for good."""
    (host,) = hosts.present()
    order: Any = SimpleNamespace()
    assert hosts.next_event(10) == Came(host)
    hosts.measure(host, order)
    assert [hosts.next_event(10), hosts.next_event(10)] == [Left(host), Came(host)]


def test_an_answer_that_is_a_timeout_of_the_task_is_not_waited_for(hosts: DaskHosts) -> None:
    (host,) = hosts.present()
    (answer,) = hosts.answers([(host, late)]).values()
    assert isinstance(answer, HostError)
    assert str(answer) == f"{host}: TimeoutError: the source did not answer"


def have(_: str) -> dict[str, int]:
    return {}


def test_a_host_that_is_still_in_a_trial_when_the_run_is_over_is_told_that_it_is_left(
    hosts: DaskHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request made at the end is dropped with our connection: the host remained in the state of the run."""
    monkeypatch.setattr(dask_hosts, "_LAST_WORDS_SECONDS", 0.2)
    _TRIAL_ENDED.clear()
    _LEFT.clear()
    try:
        assert hosts.finish("long", have) == []
        assert _LEFT == ["long"]
    finally:
        _TRIAL_ENDED.set()


def test_a_host_that_answers_at_once_has_the_right_time_although_another_one_is_waited_for(
    hosts: DaskHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock was taken to be behind by as long as the slowest host needed, and its trials' times were changed."""

    def wait(*_: object, timeout: float) -> None:
        time.sleep(1)

    monkeypatch.setattr(dask_hosts, "_wait", wait)
    (delivered,) = hosts.finish("rest", have)
    assert delivered.received - delivered.delivery.now < 0.9


def test_hosts_that_have_put_themselves_back_are_told_nothing_more(hosts: DaskHosts) -> None:
    _LEFT.clear()
    assert hosts.finish("short", have) == []
    assert _LEFT == []
