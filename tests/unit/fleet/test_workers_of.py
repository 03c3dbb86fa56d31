"""The workers at a scheduler, on a machine so busy that Dask's own loop runs between a question and its answer."""

from typing import Any

import distributed
import pytest

from octavo.fleet.connection import workers_of

_dask: Any = distributed  # its types are partly unknown


def test_nobody_is_missed_when_the_clients_loop_asks_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "inproc"}
    with (
        _dask.LocalCluster(**one, dashboard_address=None) as cluster,
        _dask.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(1)
        ask = client.sync

        def asked_late(*arguments: Any, **options: Any) -> Any:
            answer = ask(*arguments, **options)
            ask(client._update_scheduler_info)  # as Dask does every two seconds
            return answer

        monkeypatch.setattr(client, "sync", asked_late)
        assert len(workers_of(client)) == 1
        monkeypatch.undo()
