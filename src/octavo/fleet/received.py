"""The trials that hosts have delivered: collected, then stored together and only once, with times of the coordinator's
clock."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from octavo.fleet.events import Delivered
from octavo.lab.events import Notice, Notify
from octavo.store.records import TrialRecord

Commit = Callable[[Sequence[TrialRecord]], Sequence[TrialRecord]]

# How many trials may wait to be stored.
_MOST_WAITING = 1000
# Seconds that a host's clock may be off before its trials' times are corrected. Part of them is the delivery's own
# time.
_CLOCK_SLACK = 5.0
_LONGEST_NUMBER = 18


class ReceivedTrials:
    """The deliveries of one run. `commit` stores trials and returns those that were new."""

    def __init__(self, stored: Sequence[TrialRecord], commit: Commit, notify: Notify) -> None:
        self._commit, self._notify = commit, notify
        self._stored = _stored_before(stored)
        self._have = dict(self._stored)
        self._waiting: list[Delivered] = []
        self._corrected: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether anything received is not stored yet."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether enough trials wait that they should be stored now."""
        return sum(len(one.delivery.trials) for one in self._waiting) >= _MOST_WAITING

    def have(self, host: str) -> dict[str, int]:
        """By outbox of a host, the number up to which all trials were received. The host need not send these again now,
        but keeps them, because they may never be stored."""
        return {box: number for (of, box), number in self._have.items() if of == host}

    def stored(self, host: str) -> dict[str, int]:
        """By outbox of a host, the number up to which all trials are stored. The host may remove these."""
        return {box: number for (of, box), number in self._stored.items() if of == host}

    def add(self, came: Delivered) -> bool:
        """Accepts a delivery. Returns False when an earlier one was lost on its way: the host then sends both again."""
        key = came.host, came.delivery.outbox
        if came.delivery.after > self._have.get(key, 0):
            return False
        for text in came.delivery.notices:
            self._notify(Notice(f"{came.host}: {text}"))
        if came.delivery.trials:
            self._waiting.append(came)
            self._have[key] = max(self._have.get(key, 0), came.delivery.trials[-1][0])
        return True

    def store(self) -> Sequence[TrialRecord]:
        """Commits all waiting trials and returns those that are new. After an error they keep waiting."""
        if not self._waiting:
            return []
        # A host that got no acknowledgement sends waiting trials again. The first copy counts: the store may have it
        # from an attempt whose answer was lost, and the corrected times of the second copy differ slightly.
        records: dict[str | None, TrialRecord] = {}
        for came in self._waiting:
            for record in self._records(came):
                records.setdefault(record.identity, record)
        stored = self._commit(list(records.values()))
        self._waiting.clear()
        self._stored = dict(self._have)
        return stored

    def _records(self, came: Delivered) -> list[TrialRecord]:
        ahead = came.delivery.now - came.received
        corrected = ahead if abs(ahead) > _CLOCK_SLACK else 0.0
        if corrected and came.host not in self._corrected:
            self._corrected.add(came.host)
            word = "ahead" if ahead > 0 else "behind"
            self._notify(Notice(f"the clock of {came.host} is {abs(ahead):.0f} s {word}: its times are corrected"))
        return [
            _as_ours(came.host, came.delivery.outbox, number, one, corrected) for number, one in came.delivery.trials
        ]


def _stored_before(trials: Sequence[TrialRecord]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for trial in trials:
        if (host := (trial.facts or {}).get("host")) and trial.identity:
            box, _, number = trial.identity.rpartition("/")
            key = str(host), box
            if number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER:  # may be anything
                found[key] = max(found.get(key, 0), int(number))
    return found


def _as_ours(host: str, outbox: str, number: int, record: TrialRecord, ahead: float) -> TrialRecord:
    """A host's trial as it is stored: with its host, its number there, and times of our clock."""
    facts: dict[str, Any] = {**(record.facts or {}), "host": host}
    if ahead:
        facts["clock_ahead_seconds"] = round(ahead, 1)
    started, ended = record.started - ahead, record.ended - ahead
    return replace(record, facts=facts, identity=f"{outbox}/{number}", started=started, ended=ended)
