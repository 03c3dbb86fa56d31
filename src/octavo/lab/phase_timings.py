"""The duration of each phase of a trial, stored with the results: it shows how much time Octavo itself takes."""

import time


class PhaseTimings:
    """A stopwatch. `seconds` has the completed phases by name, in the order of their ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def end(self, phase: str) -> None:
        """Ends the phase now; the next one begins."""
        now = time.monotonic()
        self.seconds[phase] = round(now - self._began, 3)
        self._began = now
