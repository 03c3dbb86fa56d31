"""The interim analyses of one condition, in order: after each, decided cells are no longer measured."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from octavo.analysis.alpha_spending import next_analysis
from octavo.analysis.contrasts import contrasts
from octavo.analysis.interval import CONFIDENCE, Estimate, critical_value
from octavo.analysis.layout import Floats, Integers, Layout
from octavo.analysis.ratios import Contrasts
from octavo.analysis.verdict import Decisions, judge


class Role(IntEnum):
    """The role of a row of a layout."""

    BASELINE = 0
    CONTROL = 1  # the baseline again, with loads of its own
    NEGATIVE = 2  # differs from the baseline in what cannot matter
    COMPARED = 3


@dataclass(frozen=True, slots=True)
class Question:
    """The question that the analyses decide about the rows of a layout.

    `threshold` and `precision` are fractions. `conditions`: how many the run has; `affected`: in how many of them a
    cell differs from its baseline (1 while none is known). `has_floor`: there should be controls of either kind.
    `once`: one analysis, at the end; else the first after round `first_look`. `loads`: their maximum.
    `waits_for_loads`: they are enough for loads in general, so that nothing is decided before.
    """

    roles: tuple[Role, ...]
    threshold: float
    precision: float
    conditions: int = 1
    affected: int = 1
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
        """Of one condition: 1 less alpha times the share of the conditions that are affected.

        Y. Benjamini, Y. Hochberg, J. Roy. Statist. Soc. B 57, 1995; for intervals Y. Benjamini, D. Yekutieli, J. Amer.
        Statist. Assoc. 100, 2005.
        """
        return 1 - (1 - CONFIDENCE) * self.affected / self.conditions

    @property
    def alarm_confidence(self) -> float:
        """Of one condition's control, so that those of all conditions hold simultaneously."""
        return CONFIDENCE ** (1 / self.conditions)

    @property
    def targets(self) -> list[int]:
        """The rows that are measured until they are decided: the negative controls if nothing else is compared."""
        return self.rows(Role.COMPARED) or self.rows(Role.NEGATIVE)

    @property
    def controls(self) -> list[int]:
        """The rows that cannot differ from the baseline."""
        return self.rows(Role.CONTROL) + self.rows(Role.NEGATIVE)


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """One analysis: `number` from 1 (0: the only one), after `round`; the first was after round `first`."""

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

    def judge(self, question: Question) -> Decisions:
        """The verdict on every row."""
        found = self.contrasts
        return judge(found.centre, self.half_widths, self.floor(question), question.threshold, question.precision)

    def is_alarm(self, question: Question, row: int) -> bool:
        """Whether this row is a control that seems to differ from the baseline, in any condition by chance in 1 of 20.

        Its own interval holds for its condition alone: of many conditions some would alarm for nothing.
        """
        role = question.roles[row]
        variance = float(self.contrasts.variance[row])
        if role not in (Role.CONTROL, Role.NEGATIVE) or not np.isfinite(variance):
            return False
        comparisons, freedom = len(question.rows(role)), int(self.contrasts.freedom[row])
        critical = critical_value(comparisons, freedom, question.alarm_confidence, self.first, self.number)
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
            analyses=self.number,
            hosts=1 if found.hosts is None else int(found.hosts[row]),
            of_hosts=None
            if found.of_hosts is None or found.hosts is None or found.hosts[row] < 2
            else float(found.of_hosts[row]),
            hosts_in_general=found.hosts_in_general is not None and bool(found.hosts_in_general[row]),
        )


@dataclass(frozen=True, slots=True)
class InterimAnalyses:
    """The analyses so far, and for each row the round after which it was decided; 0 is open."""

    analyses: tuple[InterimAnalysis, ...]
    stopped: Integers

    def open(self, question: Question) -> list[int]:
        """The targets that need more trials."""
        return [row for row in question.targets if not self.stopped[row]]

    def at_level(self, question: Question) -> "InterimAnalyses":
        """The last analysis at the confidence of this question, and its decisions."""
        if not self.analyses:
            return self
        *earlier, last = self.analyses
        now = analyse(last.contrasts, question, last.round, last.first, last.number)
        stopped = self.stopped.copy()
        if not question.once:
            rows = [row for row in question.targets if stopped[row] in (0, last.round)]
            stopped[rows] = np.where(now.judge(question).settled[rows], last.round, 0)
        return InterimAnalyses((*earlier, now), stopped)

    def has_effect(self, question: Question) -> bool:
        """Whether a compared cell was found to differ from the baseline."""
        at = {one.round: one for one in self.analyses}
        for row in question.rows(Role.COMPARED):
            round_number = self.analyses[-1].round if question.once and self.analyses else int(self.stopped[row])
            if (one := at.get(round_number)) is not None and one.judge(question).different[row]:
                return True
        return False

    def limits(self, round_number: int) -> Integers:
        """Up to which round each row's trials count in an analysis after that round."""
        return np.where(self.stopped > 0, np.minimum(self.stopped, round_number), round_number)


def begin(question: Question) -> InterimAnalyses:
    """Before the first analysis."""
    return InterimAnalyses((), np.zeros(len(question.roles), dtype=np.int64))


def after_round(history: InterimAnalyses, layout: Layout, question: Question, round_number: int) -> InterimAnalyses:
    """Analyses after one more round, unless there is no interval yet or too little is new, and records which rows are
    decided. Decisions are final: later trials of such a row do not count.
    """
    open_rows = history.open(question)
    due = next_analysis(history.analyses[-1].round) if history.analyses else question.first_look
    if not open_rows or round_number < due:
        return history
    found = contrasts(layout.until(history.limits(round_number)))
    if not np.isfinite(found.variance[open_rows]).any() or (question.waits_for_loads and not found.components.general):
        return history
    first = history.analyses[0].first if history.analyses else round_number
    now = analyse(found, question, round_number, first, len(history.analyses) + 1)
    stopped = history.stopped.copy()
    stopped[open_rows] = np.where(now.judge(question).settled[open_rows], round_number, 0)
    return InterimAnalyses((*history.analyses, now), stopped)


def analyse(found: Contrasts, question: Question, round_number: int, first: int, number: int) -> InterimAnalysis:
    """The intervals of an analysis: simultaneous for the compared cells, and for the negative controls.

    Those of the targets are adjusted for interim analyses. Those of the controls are not: they give the noise floor,
    which stops nothing by itself, and the adjustment is in the target's interval already.
    """
    roles = np.array(question.roles)
    critical = np.full(len(roles), np.nan)
    targets = set(question.targets)
    families = (
        (Role.COMPARED, question.confidence),
        (Role.NEGATIVE, CONFIDENCE),
        (Role.CONTROL, CONFIDENCE),
    )
    for role, confidence in families:
        comparisons = int((roles == role).sum())
        for row in np.flatnonzero((roles == role) & np.isfinite(found.variance)):
            analyses = number if row in targets else 0
            critical[row] = critical_value(comparisons, int(found.freedom[row]), confidence, first, analyses)
    return InterimAnalysis(round_number, first, number, found, critical, critical * np.sqrt(found.variance))


def single_analysis(layout: Layout, question: Question) -> InterimAnalysis:
    """An analysis of all trials: the only one of a fixed plan, else as if it were the first."""
    last = int(layout.rounds[-1])
    return analyse(contrasts(layout), question, last, last, 0 if question.once else 1)
