"""The results of a build's tests."""

from dataclasses import dataclass
from pathlib import Path

from octavo.check.classify import Allowed
from octavo.check.outputs import Difference
from octavo.postgres.builds.cache import Build


@dataclass(frozen=True, slots=True)
class ClassifiedDifference:
    """A difference, and why it is allowed, or None."""

    difference: Difference
    allowed: Allowed | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure other than a difference: a test that ended early, a crash; `details` are lines of its log."""

    test: str
    what: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite's outcome: how many tests there are, which were identical, and the rest with reasons.

    `skipped` has (test or suite, reason). `kept` is the directory with the whole differences and logs.
    """

    name: str
    tests: int
    identical: int
    judged: tuple[ClassifiedDifference, ...]
    failures: tuple[Failure, ...]
    skipped: tuple[tuple[str, str], ...]
    seconds: float
    kept: Path

    @property
    def differing(self) -> dict[str, list[ClassifiedDifference]]:
        """The differences by test."""
        tests: dict[str, list[ClassifiedDifference]] = {}
        for judged in self.judged:
            tests.setdefault(judged.difference.test, []).append(judged)
        return tests

    @property
    def failed(self) -> list[str]:
        """The tests with a difference that nothing allows, or another failure."""
        differing = [test for test, found in self.differing.items() if any(each.allowed is None for each in found)]
        return list(dict.fromkeys([*differing, *(failure.test for failure in self.failures)]))

    @property
    def allowed(self) -> list[str]:
        """The tests that differ for allowed reasons only."""
        failed = self.failed
        return [test for test in self.differing if test not in failed]

    def count(self, kind: str) -> int:
        """How many differences are allowed for this kind of reason."""
        return sum(judged.allowed is not None and judged.allowed.kind == kind for judged in self.judged)

    @property
    def unexplained(self) -> list[Difference]:
        """The differences that nothing allows."""
        return [judged.difference for judged in self.judged if judged.allowed is None]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of all suites on one build."""

    build: Build
    suites: tuple[Suite, ...]

    @property
    def passed(self) -> bool:
        """Whether every test is identical or differs for allowed reasons only, and nothing crashed."""
        return not any(suite.failed for suite in self.suites)
