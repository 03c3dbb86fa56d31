"""The tests of a store on any database: `tests/unit/test_store.py` runs them on SQLite, and
`tests/integration/test_team_store.py` on a PostgreSQL server of our own builds."""

import dataclasses
import math
from collections.abc import Callable
from contextlib import closing
from threading import Thread
from typing import Any

import pytest
from tests.unit.plans import small_plan

from octavo.errors import OctavoError, UnstorableError, UsageError
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.series import Series
from octavo.store.address import StoreAddress
from octavo.store.kept_trials import new_identity
from octavo.store.listing import find_run, list_runs
from octavo.store.records import RunRecord, RunStatus, TrialRecord
from octavo.store.schema import SCHEMA_VERSION
from octavo.store.store import Store

# Runs a test's own statement on the database, and returns its rows.
Sql = Callable[[str], list[tuple[Any, ...]]]

# Turns the tables of this version into those of the first one.
TO_THE_FIRST_VERSION = (
    "DROP INDEX trial_identity",
    "ALTER TABLE trial DROP COLUMN identity",
    "ALTER TABLE cell DROP COLUMN dataset",
    "ALTER TABLE trial DROP COLUMN part",
    "DROP TABLE series",
    "UPDATE schema_version SET version = 1",
)


def add_run(
    store: Store, identifier: str, *, started: float = 0.0, status: RunStatus = "finished", token: str = ""
) -> None:
    record = RunRecord(identifier, "small", status, token, 1, started, None, {}, "", "", {}, {})
    store.create_run(record, make_cells(small_plan()))


def a_trial(**changes: object) -> TrialRecord:
    values: dict[str, object] = {
        "cell": "a", "round": 1, "attempt": 1, "position": 1, "load": 1, "status": "ok", "reason": None,
        "started": 1.0, "ended": 2.0, "seed": 3,
    }  # fmt: skip
    return TrialRecord(**{**values, **changes})  # type: ignore[arg-type]


class StoreContract:
    """The tests; subclasses have the fixtures `address`, `store` (opened there) and `sql`."""

    def test_what_is_written_is_read_back(self, store: Store) -> None:
        add_run(store, "one")
        observations = (Observation("tps", 12.5, "1/s"), Observation("seconds", 0.25, "s", "q1", 3))
        trial = a_trial(observations=observations, settings={"work_mem": "4MB"}, facts={"x": 1, "a": [None, "ö"]})
        identifier = store.add_trial("one", trial)
        assert store.trials("one") == [dataclasses.replace(trial, settings=None, id=identifier)]
        assert store.settings_by_cell("one") == {"a": {"work_mem": "4MB"}}
        assert store.cells("one") == make_cells(small_plan())
        assert store.count_trials("one") == 1

    def test_many_observations_of_many_trials_come_back_in_their_order(self, store: Store) -> None:
        add_run(store, "one")
        trials = [
            a_trial(
                round=number, identity=new_identity(),
                observations=tuple(Observation(f"metric_{one}", one / 7 + number, "1/s") for one in range(count)),
                series=tuple(Series.of(f"metric_{one}", "1/s", (0.5,), (float(one),)) for one in range(count)),
            )
            for number, count in enumerate((499, 2, 1203, 0), 1)
        ]  # fmt: skip
        identifiers = store.add_trials("one", trials)
        assert [one.observations for one in store.trials("one")] == [one.observations for one in trials]
        found = [one for _, one in store.series(identifiers)]
        assert found == [one for trial in trials for one in trial.series]

    def test_a_run_is_changed(self, store: Store) -> None:
        add_run(store, "one")
        store.set_plan("one", {"budget": "1h"})
        store.set_environment("one", {"host": {"cpu": "a"}})
        store.set_status("one", "failed", token="of another", ended=3.5)  # noqa: S106
        record = store.run("one")
        assert (record.plan, record.environment) == ({"budget": "1h"}, {"host": {"cpu": "a"}})
        assert (record.status, record.token, record.ended) == ("failed", "of another", 3.5)

    def test_settings_that_trials_share_are_stored_once(self, store: Store, sql: Sql) -> None:
        add_run(store, "one")
        for _ in range(5):
            store.add_trial("one", a_trial(settings={"work_mem": "4MB"}))
        assert sql("SELECT count(*) FROM document") == [(1,)]

    @pytest.mark.parametrize("value", [None, math.nan])
    def test_a_trial_is_committed_whole_or_not_at_all(self, store: Store, sql: Sql, value: float) -> None:
        add_run(store, "one")
        broken = (Observation("tps", 1.0, "1/s"), Observation("tps", value, "1/s"))
        with pytest.raises(UnstorableError, match="refuses it"):
            store.add_trials("one", [a_trial(), a_trial(observations=broken, settings={"a": "b"})])
        assert store.trials("one") == []
        assert sql("SELECT count(*) FROM document") == [(0,)]

    def test_a_trial_that_arrives_again_is_the_same(self, store: Store, sql: Sql) -> None:
        add_run(store, "one")
        trial = a_trial(identity=new_identity(), observations=(Observation("tps", 1.0, "1/s"),))
        other = dataclasses.replace(trial, identity=new_identity(), cell="b")
        first = store.add_trial("one", trial)
        assert store.add_trial("one", trial) == first
        second, again, third = store.add_trials("one", [other, trial, other])
        assert (again, third) == (first, second)
        assert [each.cell for each in store.trials("one")] == ["a", "b"]
        assert sql("SELECT count(*) FROM observation") == [(2,)]

    def test_another_trial_of_its_identity_is_refused(self, store: Store) -> None:
        add_run(store, "one")
        trial = a_trial(identity=new_identity())
        store.add_trial("one", trial)
        with pytest.raises(OctavoError, match="another trial under the identity"):
            store.add_trials("one", [a_trial(), dataclasses.replace(trial, cell="b")])
        assert len(store.trials("one")) == 1

    def test_what_can_be_stored_is_beside_what_never_can_be(self, store: Store) -> None:
        add_run(store, "one")
        there = a_trial(identity=new_identity())
        store.add_trial("one", there)
        bad = (
            dataclasses.replace(there, cell="b"),
            a_trial(identity=new_identity(), observations=(Observation("tps", math.nan, "1/s"),)),
            a_trial(identity=new_identity(), round=2**80),
            a_trial(identity=new_identity(), observations=(Observation("tps", 1.0, "1/s", None, 2**33),)),
            a_trial(identity=new_identity(), observations=(Observation("tps", "x", "1/s"),)),  # type: ignore[arg-type]
            a_trial(identity=new_identity(), status="failed", reason={"of": "no text"}),
        )
        good = [a_trial(identity=new_identity(), position=position) for position in range(9)]
        refused: list[TrialRecord] = []
        stored = store.add_storable_trials(
            "one", [*good[:4], *bad, *good[4:]], 0.0, lambda trial, reason: refused.append(trial)
        )
        assert refused == list(bad)
        assert [one.position for one in stored] == list(range(9))
        assert [one.id for one in store.trials("one")[1:]] == [one.id for one in stored]

    def test_text_that_a_database_has_no_place_for_is_stored_all_the_same(self, store: Store) -> None:
        add_run(store, "one")
        odd, seen = "a\0b\udc80", Observation("tps", 1.0, "1/s", "q\0")
        store.add_trial("one", a_trial(reason=odd, facts={odd: odd, "x": [math.inf]}, observations=(seen,)))
        (trial,) = store.trials("one")
        assert trial.reason is not None
        assert "\0" not in trial.reason
        assert trial.facts is not None
        assert trial.facts["x"] == [None]
        assert trial.observations[0].item == "q\ufffd"

    def test_a_seed_is_any_number_of_64_bits(self, store: Store) -> None:
        add_run(store, "one")
        store.add_trial("one", a_trial(seed=2**62))
        assert store.trials("one")[0].seed == 2**62

    def test_the_store_can_be_read_while_it_is_written(self, store: Store, address: StoreAddress) -> None:
        add_run(store, "one")
        with closing(Store.open(address)) as reader, closing(Store.open_to_read(address)) as another:
            store.add_trial("one", a_trial())
            assert len(reader.trials("one")) == len(another.trials("one")) == 1

    def test_who_opens_it_to_read_cannot_write(self, store: Store, address: StoreAddress) -> None:
        add_run(store, "one")
        with closing(Store.open_to_read(address)) as reader, pytest.raises(OctavoError, match="is not writable"):
            reader.add_trial("one", a_trial())

    def test_several_write_at_once(self, store: Store, address: StoreAddress) -> None:
        """Each writes in its own transaction, all with the same documents, in another order."""
        add_run(store, "one")
        settings = [{"number": str(number)} for number in range(5)]

        def write(turn: int) -> None:
            with closing(Store.open(address)) as own:
                for _ in range(10):
                    order = settings[turn:] + settings[:turn]
                    own.add_trials("one", [a_trial(settings=one, build=order[0]) for one in order])

        writers = [Thread(target=write, args=(turn,)) for turn in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len(store.trials("one")) == 4 * 10 * 5

    def test_two_make_its_tables_at_once(self, address: StoreAddress) -> None:
        failed: list[Exception] = []

        def make() -> None:
            try:
                Store.open(address).close()
            except Exception as error:  # any error, which the test reports
                failed.append(error)

        makers = [Thread(target=make) for _ in range(4)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert failed == []
        assert list_runs(address) == []

    def test_a_store_of_another_version_is_left_alone(self, store: Store, address: StoreAddress, sql: Sql) -> None:
        store.close()
        sql("UPDATE schema_version SET version = 99")
        with pytest.raises(OctavoError, match="schema version 99"):
            Store.open(address)
        with pytest.raises(OctavoError, match="schema version 99"):
            Store.open_to_read(address)

    def test_a_store_whose_tables_were_never_made_has_no_runs(self, address: StoreAddress) -> None:
        assert list_runs(address) == []
        with pytest.raises(UsageError, match="no runs yet"):
            find_run(address, "last")
        with closing(Store.open(address)) as store:
            add_run(store, "one")
        assert [row["id"] for row in list_runs(address)] == ["one"]

    def test_the_quick_list_agrees_with_the_store(self, store: Store, address: StoreAddress) -> None:
        add_run(store, "20260101-a", started=1.0)
        add_run(store, "20260102-b", started=2.0, status="running", token="nobody")  # noqa: S106
        store.add_trial("20260101-a", a_trial())
        store.add_trial("20260101-a", a_trial(status="invalid", reason="short"))
        rows = list_runs(address)
        assert [(row["id"], row["status"], row["trials"], row["ok"]) for row in rows] == [
            ("20260102-b", "interrupted", 0, 0),  # its process is gone
            ("20260101-a", "finished", 2, 1),
        ]
        assert set(rows[0]) == {"id", "name", "status", "started", "ended", "trials", "ok"}
        for row in rows:
            assert store.run(row["id"]).status == row["status"]

    def test_runs_are_found_by_how_they_begin(self, store: Store, address: StoreAddress) -> None:
        with pytest.raises(UsageError, match="no runs yet"):
            find_run(address, "last")
        add_run(store, "20260101-a", started=1.0)
        add_run(store, "20260102-b", started=2.0)
        assert find_run(address, "last") == "20260102-b"
        assert find_run(address, "20260101") == "20260101-a"
        with pytest.raises(UsageError, match="more than one run starts with '2026'"):
            find_run(address, "2026")
        with pytest.raises(UsageError, match=r"no run 'x'.*20260102-b"):
            find_run(address, "x")

    def test_series_come_back_as_they_were(self, store: Store) -> None:
        add_run(store, "one")
        tps = Series.of("tps", "1/s", (0.5, 1.5), (0.1, 1e300))
        role = Series.of("process_page_table_bytes", "bytes", (1.0,), (4096.0,), "checkpointer")
        identifier = store.add_trial("one", a_trial(series=(tps, role)))
        store.add_trial("one", a_trial())
        assert list(store.series([identifier])) == [(identifier, tps), (identifier, role)]
        assert list(store.series([identifier], ["process_page_table_bytes"])) == [(identifier, role)]
        assert list(store.series([identifier + 1])) == []

    def test_a_store_of_the_first_version_is_brought_to_this_one(self, address: StoreAddress, sql: Sql) -> None:
        with closing(Store.open(address)) as store:
            add_run(store, "one")
            store.add_trial("one", a_trial())
        for statement in TO_THE_FIRST_VERSION:
            sql(statement)
        with closing(Store.open_to_read(address)) as store:
            assert [cell.dataset for cell in store.cells("one")] == [cell.id for cell in make_cells(small_plan())]
            assert [trial.part for trial in store.trials("one")] == [1]
            assert list(store.series([1])) == []
        with closing(Store.open(address)) as store:
            new = a_trial(identity=new_identity(), series=(Series.of("tps", "1/s", (0.5,), (0.1,)),))
            assert store.add_trial("one", new) == store.add_trial("one", new)
        assert sql("SELECT version FROM schema_version") == [(SCHEMA_VERSION,)]
