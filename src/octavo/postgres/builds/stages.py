"""Progress of a build: the current stage, the next one, and the estimated remaining time."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# The relative costs of the stages: CPU seconds of 18.6 with gcc 12.2 and an empty compiler cache. The cost of a second
# size; in a whole matrix each size costs a third of that.
_CONFIGURATION, _COMPILATION, _LOOKING, _LOOKING_AGAIN = 16.0, 278.0, 95.0, 11.0
_ANOTHER_SIZE = 37.0
_INSTRUMENTED, _TRAINING = 300.0, 60.0
# Until this part of the whole is done, the costs are a better estimate than the elapsed seconds.
_ENOUGH = 0.05

CONFIGURATION = "configuration"
COMPILATION = "compilation"
INSTRUMENTED, TRAINING = "compilation for the training", "training"
LOOKING = "finding what depends on the sizes"


@dataclass(frozen=True, slots=True)
class BuildStep:
    """`done` of `total` steps of the current stage (`doing`); `then` is the next stage, "" after the last one.

    `left` is the estimated number of seconds for the rest of the build.
    """

    doing: str
    done: int
    total: int
    left: float
    then: str


def compiling_more(sizes: int) -> str:
    """The name of the stage that makes so many more sizes."""
    return f"compilation of {sizes} more size{'' if sizes == 1 else 's'}"


def costs(builds: int, *, known: bool, trained: bool = False) -> dict[str, float]:
    """The stages of so many builds from one tree, in order, with the cost of each in CPU seconds.

    `known`: whether size dependence was determined before; `trained`: whether a profile is made first.

    >>> list(costs(1, known=False)), sum(costs(2, known=True).values()) < sum(costs(2, known=False).values())
    (['configuration', 'compilation'], True)
    """
    training = {INSTRUMENTED: _INSTRUMENTED, TRAINING: _TRAINING} if trained else {}
    stages = {CONFIGURATION: _CONFIGURATION, **training, COMPILATION: _COMPILATION}
    if builds > 1:
        stages[LOOKING] = _LOOKING_AGAIN if known else _LOOKING
        stages[compiling_more(builds - 1)] = _ANOTHER_SIZE * (builds - 1)
    return stages


class Stages:
    """Takes a builder's reports of its steps, and adds the remaining time and the next stage."""

    def __init__(
        self,
        stages: Mapping[str, float],
        tell: Callable[[BuildStep], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stages = stages
        self._tell = tell
        self._clock = clock
        self._began = clock()
        self._fraction = 0.0
        self._rate = 1.0 / (os.cpu_count() or 1)

    def __call__(self, doing: str, done: int, total: int) -> None:
        """Reports one step. An unknown stage, as in versions that make builds, does not change the remaining time."""
        names = list(self._stages)
        whole = sum(self._stages.values())
        then = ""
        if doing in self._stages:
            place = names.index(doing)
            then = names[place + 1] if place + 1 < len(names) else ""
            before = sum(self._stages[name] for name in names[:place])
            part = self._stages[doing] * min(1.0, done / max(total, 1))
            self._fraction = (before + part) / whole
        seconds = self._clock() - self._began
        if self._fraction > _ENOUGH:
            left = seconds / self._fraction * (1 - self._fraction)
        else:
            left = max(0.0, whole * self._rate - seconds)
        self._tell(BuildStep(doing, done, total, left, then))
