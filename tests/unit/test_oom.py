"""What a dry run says of connections that grow until something is killed."""

from octavo.workloads.oom import Oom

LEVELS = {
    "database": "480MB", "shared_buffers": "512MB", "memory": "768MB", "most_connections": "400", "zram_swap": "none",
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
