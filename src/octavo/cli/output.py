"""Consoles and JSON as every verb prints them."""

import json
import sys
from typing import TYPE_CHECKING, Any

from octavo.text import printable, unguarded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


def console(*, stderr: bool = False) -> "Console":
    """A console that honours NO_COLOR, pipes and narrow terminals, leaves names such as [x] alone, and replaces control
    characters in text."""
    from rich.console import Console
    from rich.segment import Segment

    class Piped(Console):
        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            """As rich does it; what it adds itself are control segments, and colours later."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            """The reader has gone, as `| head` may: rich would end us with 1, `main` knows that it is no error."""
            raise

    return Piped(file=unguarded(sys.stderr if stderr else sys.stdout), stderr=stderr, highlight=False, markup=False)


def tell(text: str) -> None:
    """Prints a line of progress to standard error."""
    print(f"octavo: {text}", file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Prints JSON; NaN is a defect, not a value."""
    json.dump(content, sys.stdout, indent=2, allow_nan=False)
    print()
