"""Progress of a pass over a trace, on a terminal's standard error."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from octavo.cli.output import console


@contextmanager
def counting() -> Generator[Callable[[int], object], None, None]:
    """A callback that shows the number of accesses so far on a terminal, and nothing elsewhere."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda _accesses: None
        return
    with screen.status("reading the trace") as status:
        yield lambda accesses: status.update(f"{accesses:,} accesses")
