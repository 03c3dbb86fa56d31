"""Sends ended trials to a store that may be unavailable: each arrives exactly once, in order, at once or later.

A trial that the store will never accept is set aside, so that later ones arrive.
"""

from octavo.errors import StoreAwayError, UnstorableError
from octavo.store.address import ServerAddress
from octavo.store.kept_trials import KeptTrials
from octavo.store.records import TrialRecord
from octavo.store.set_aside import Notice, SetAside, unheard
from octavo.store.store import PATIENCE, Store
from octavo.units import human_count

# A trial of a minute is not held up for longer by a server that is restarted; afterwards the run goes on without it.
_TRIAL_PATIENCE = 10.0


class TrialSender:
    """The interface by which the coordinator of a run adds trials. For a store that is a file it adds nothing."""

    def __init__(self, store: Store, kept: KeptTrials | None = None, notice: Notice = unheard) -> None:
        """`notice` is given a line for each trial that is set aside."""
        self._store = store
        self._kept = kept or KeptTrials.of_this_home(notice)
        self._notice = notice
        self._away = False

    def add(self, run: str, record: TrialRecord) -> int:
        """Keeps the trial, and sends all that wait; returns how many still wait.

        Raises HostError when it can neither be stored nor kept.
        """
        if not isinstance(self._store.address, ServerAddress):
            try:
                self._store.add_trial(run, record)
            except UnstorableError as error:
                self._notice(SetAside.of_this_home().put_trial(run, record, str(error)))
            return 0
        self._kept.keep(run, record)
        try:
            # Who was away a trial ago is asked once more, not waited for.
            self._send(0.0 if self._away else _TRIAL_PATIENCE)
        except StoreAwayError:
            self._away = True
            return sum(1 for waiting, _ in self._kept.waiting() if waiting == run)
        self._away = False
        return 0

    def flush(self) -> int:
        """Sends all that wait, those of earlier sittings too; returns how many it were. Raises StoreAwayError, saying
        how many wait, when the store is away for a minute."""
        try:
            return self._send(PATIENCE)
        except StoreAwayError as error:
            waiting = human_count(len(self._kept), "ended trial")
            raise StoreAwayError(f"{error}; {waiting} kept on this host until it responds") from error

    def _send(self, patience: float) -> int:
        sent = 0
        if isinstance(self._store.address, ServerAddress):
            known: dict[str, bool] = {}
            for run, record in self._kept.waiting():
                if run not in known:
                    known[run] = self._store.has_run(run, patience)
                if known[run]:  # else it is another store's
                    try:
                        self._store.add_trial(run, record, patience)
                    except UnstorableError as error:
                        self._kept.set_aside(run, record, str(error))
                        continue
                    self._kept.drop(str(record.identity))
                    sent += 1
        return sent
