"""Waiting for clients to leave: a backend reports the rest of its statistics when it exits, shortly after its
client."""

import time
from collections.abc import Callable
from typing import Any

_MOST_SECONDS = 5.0


def wait_for_clients_to_leave(query: Callable[[str], list[dict[str, Any]]], others: int = 0) -> int:
    """Waits until no more than `others` clients are connected besides that of `query` (rows of a query from
    `postgres/sql`), at most 5 s. Returns how many are still connected."""
    deadline = time.monotonic() + _MOST_SECONDS
    while (clients := int(query("other_clients")[0]["clients"])) > others and time.monotonic() < deadline:
        time.sleep(0.01)
    return clients
