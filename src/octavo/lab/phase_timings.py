"""How long each phase of a trial took: Octavo's own time is stored with the results."""

import time


class PhaseTimings:
    """A stopwatch. `seconds` has the phases that ended, by name, in the order in which they ended."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def end(self, phase: str) -> None:
        """The phase has ended now; the next one begins."""
        now = time.monotonic()
        self.seconds[phase] = round(now - self._began, 3)
        self._began = now
