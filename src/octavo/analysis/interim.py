"""The looks at one condition, in order: after each the cells that are settled stop being measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from octavo.analysis.alpha_spending import next_analysis
from octavo.analysis.contrasts import contrasts
from octavo.analysis.interval import CONFIDENCE, Estimate, critical_value
from octavo.analysis.layout import Floats, Integers, Layout
from octavo.analysis.ratios import Contrasts
from octavo.analysis.verdict import judge


class Role(IntEnum):
    """What a row of a layout is for."""

    BASELINE = 0
    CONTROL = 1  # the baseline again, with loads of its own
    NEGATIVE = 2  # differs from the baseline in what cannot matter
    COMPARED = 3


@dataclass(frozen=True, slots=True)
class Question:
    """What the looks are to decide about the rows of a layout.

    `threshold` and `precision` are fractions. `conditions`: how many share the confidence of the run. `has_floor`:
    there should be controls of either kind. `once`: one look, at the end; else the first is after round `first_look`.
    `loads`: the most there will be. `waits_for_loads`: they are enough to speak of loads in general, so that nothing
    is decided before that is so.
    """

    roles: tuple[Role, ...]
    threshold: float
    precision: float
    conditions: int = 1
    has_floor: bool = True
    once: bool = False
    first_look: int = 2
    loads: int = 1
    waits_for_loads: bool = False

    def rows(self, role: Role) -> list[int]:
        """The rows with that role."""
        return [row for row, its in enumerate(self.roles) if its is role]

    @property
    def confidence(self) -> float:
        """Of one condition, so that all of them hold at once with the confidence of the run."""
        return CONFIDENCE ** (1 / self.conditions)

    @property
    def asked(self) -> list[int]:
        """The rows that are measured until they are settled: the negative controls, where nothing else is compared."""
        return self.rows(Role.COMPARED) or self.rows(Role.NEGATIVE)

    @property
    def controls(self) -> list[int]:
        """The rows that cannot differ from the baseline."""
        return self.rows(Role.CONTROL) + self.rows(Role.NEGATIVE)


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """One look: `number` from 1 (0: the only one), after `round`; the first was after round `first`."""

    round: int
    first: int
    number: int
    contrasts: Contrasts
    critical: Floats
    half_widths: Floats

    def floor(self, question: Question) -> float:
        """The noise floor on the log scale: the farthest end of the controls' intervals; infinite while unknown."""
        if not question.has_floor:
            return 0.0
        ends = np.abs(self.contrasts.centre) + self.half_widths
        return max((float(ends[row]) for row in question.controls if np.isfinite(ends[row])), default=np.inf)

    def is_alarm(self, question: Question, row: int) -> bool:
        """Whether this row is a control that seems to differ from the baseline, in any condition by chance in 1 of 20.

        Its own interval holds for its condition alone: of many conditions some would alarm for nothing.
        """
        role = question.roles[row]
        variance = float(self.contrasts.variance[row])
        if role not in (Role.CONTROL, Role.NEGATIVE) or not np.isfinite(variance):
            return False
        comparisons, freedom = len(question.rows(role)), int(self.contrasts.freedom[row])
        critical = critical_value(comparisons, freedom, question.confidence, self.first, self.number)
        return bool(abs(self.contrasts.centre[row]) > critical * np.sqrt(variance))

    def estimate(self, row: int) -> Estimate | None:
        """The estimate of a row; None without any ratio."""
        found = self.contrasts
        if not found.rounds[row]:
            return None
        known = bool(np.isfinite(self.half_widths[row]))
        return Estimate(
            log_ratio=float(found.centre[row]),
            half_width=float(self.half_widths[row]) if known else None,
            degrees_of_freedom=int(found.freedom[row]),
            loads=int(found.loads[row]),
            rounds=int(found.rounds[row]),
            conditional=bool(found.conditional[row]),
            critical=float(self.critical[row]) if known else None,
            of_loads=float(found.of_loads[row]),
            own=bool(found.own[row]),
            look=self.number,
            hosts=1 if found.hosts is None else int(found.hosts[row]),
            of_hosts=None
            if found.of_hosts is None or found.hosts is None or found.hosts[row] < 2
            else float(found.of_hosts[row]),
            hosts_in_general=found.hosts_in_general is not None and bool(found.hosts_in_general[row]),
        )


@dataclass(frozen=True, slots=True)
class InterimAnalyses:
    """The looks so far, and for each row the round after which it was settled; 0 is open."""

    looks: tuple[InterimAnalysis, ...]
    stopped: Integers

    def open(self, question: Question) -> list[int]:
        """The rows asked about that need more trials."""
        return [row for row in question.asked if not self.stopped[row]]

    def limits(self, round_number: int) -> Integers:
        """Up to which round each row's trials count at a look after that round."""
        return np.where(self.stopped > 0, np.minimum(self.stopped, round_number), round_number)


def begin(question: Question) -> InterimAnalyses:
    """Before the first look."""
    return InterimAnalyses((), np.zeros(len(question.roles), dtype=np.int64))


def after_round(course: InterimAnalyses, layout: Layout, question: Question, round_number: int) -> InterimAnalyses:
    """One more round has ended: looks, unless too little is known for any interval or too little is new, and notes
    which rows are settled.

    What was settled stays so: later trials of such a row do not count.
    """
    going_on = course.open(question)
    due = next_analysis(course.looks[-1].round) if course.looks else question.first_look
    if not going_on or round_number < due:
        return course
    found = contrasts(layout.until(course.limits(round_number)))
    if not np.isfinite(found.variance[going_on]).any() or (question.waits_for_loads and not found.components.general):
        return course
    first = course.looks[0].first if course.looks else round_number
    now = analyse(found, question, round_number, first, len(course.looks) + 1)
    judged = judge(found.centre, now.half_widths, now.floor(question), question.threshold, question.precision)
    stopped = course.stopped.copy()
    stopped[going_on] = np.where(judged.settled[going_on], round_number, 0)
    return InterimAnalyses((*course.looks, now), stopped)


def analyse_rounds(layout: Layout, question: Question, rounds: Sequence[int]) -> InterimAnalyses:
    """The course over these rounds, each complete, in order."""
    course = begin(question)
    for round_number in rounds:
        course = after_round(course, layout, question, round_number)
    return course


def analyse(found: Contrasts, question: Question, round_number: int, first: int, number: int) -> InterimAnalysis:
    """The intervals of a look: those of the compared cells hold at once, and so do those of the negative controls.

    What is asked about holds after every look. The controls' are of this look alone: they make the noise floor, which
    stops nothing by itself, and what looking costs is in the other interval already.
    """
    roles = np.array(question.roles)
    critical = np.full(len(roles), np.nan)
    asked = set(question.asked)
    families = (
        (Role.COMPARED, question.confidence),
        (Role.NEGATIVE, CONFIDENCE),
        (Role.CONTROL, CONFIDENCE),
    )
    for role, confidence in families:
        comparisons = int((roles == role).sum())
        for row in np.flatnonzero((roles == role) & np.isfinite(found.variance)):
            looks = number if row in asked else 0
            critical[row] = critical_value(comparisons, int(found.freedom[row]), confidence, first, looks)
    return InterimAnalysis(round_number, first, number, found, critical, critical * np.sqrt(found.variance))


def single_analysis(layout: Layout, question: Question) -> InterimAnalysis:
    """A look at everything there is: the only one of a plan that looks once, else as if it were the first."""
    last = int(layout.rounds[-1])
    return analyse(contrasts(layout), question, last, last, 0 if question.once else 1)
