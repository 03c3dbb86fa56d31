"""Consoles and JSON as every verb prints them."""

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> "Console":
    """A console that honours NO_COLOR, pipes and narrow terminals, and leaves names such as [x] alone."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            """The reader has gone, as `| head` may: rich would end us with 1, `main` knows that it is no error."""
            raise

    return Piped(stderr=stderr, highlight=False, markup=False)


def print_json(content: Any) -> None:
    """Prints JSON; NaN is a defect, not a value."""
    json.dump(content, sys.stdout, indent=2, allow_nan=False)
    print()
