"""What a dry run reports on connections that grow until something is killed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.workloads.oom import Oom, recovery

LEVELS = {
    "database": "480MB", "shared_buffers": "512MB", "memory": "768MB", "most_connections": "400", "zram_swap": "none",
    "holds": "nothing", "neighbour": "none",
}  # fmt: skip


def test_swap_takes_more_connections_and_each_of_them_longer() -> None:
    without, swapping = (Oom().seconds_asked({**LEVELS, "zram_swap": swap}) for swap in ("none", "512MB"))
    twice_as_far = Oom().seconds_asked({**LEVELS, "memory": "1280MB"})
    assert without < twice_as_far < swapping


def test_it_ends_at_the_most_connections_however_much_memory_there_is() -> None:
    estimates = [Oom().seconds_asked({**LEVELS, "memory": memory}) for memory in ("8GB", "80GB")]
    assert estimates[0] == estimates[1] > Oom().seconds_asked(LEVELS)


def test_without_room_for_a_connection_it_is_over_at_once() -> None:
    assert Oom().seconds_asked({**LEVELS, "memory": "256MB"}) == 0


def test_sessions_that_hold_hash_tables_and_a_neighbour_leave_room_for_fewer() -> None:
    """Each uses 3 MB, plus work_mem × hash_mem_multiplier."""
    plain, with_other = Oom().seconds_asked(LEVELS), Oom().seconds_asked({**LEVELS, "neighbour": "128MB"})
    assert with_other == plain / 2  # of the 256 MB that the buffers leave
    holding = {**LEVELS, "holds": "hash", "settings.work_mem": "4MB", "settings.hash_mem_multiplier": "1.5"}
    assert Oom().seconds_asked(holding) == pytest.approx(plain / 3)
    assert Oom().seconds_asked({**LEVELS, "settings.work_mem": "64MB"}) == plain  # no session holds one


def test_a_killed_postmaster_is_started_again_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of recovery is one with this shared_buffers, and not with the default."""
    started: list[tuple[dict[str, str], Path]] = []

    def start(_: object, __: object, settings: dict[str, str], *___: object, log: Path) -> None:
        started.append((settings, log))

    monkeypatch.setattr(recovery.cluster, "start", start)
    arguments = ("postgres", "-D", Path("/data"), "-c", "shared_buffers=1GB", "-c", "huge_pages=off")
    server: Any = SimpleNamespace(
        build=None, directory=Path("/data"), log=Path("/log"), journal=None, account=None, arguments=arguments
    )
    recovery._started_again(server)  # pyright: ignore[reportPrivateUsage]
    assert started == [({"shared_buffers": "1GB", "huge_pages": "off"}, Path("/log.again"))]
