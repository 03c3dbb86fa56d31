"""How far a pass over a trace is, on a terminal's standard error."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from octavo.cli.output import console


@contextmanager
def counting() -> Generator[Callable[[int], object], None, None]:
    """What is told the accesses so far, and shows them; elsewhere than on a terminal nothing."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda _accesses: None
        return
    with screen.status("reading the trace") as status:
        yield lambda accesses: status.update(f"{accesses:,} accesses")
