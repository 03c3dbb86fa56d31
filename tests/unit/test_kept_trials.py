import dataclasses
import math
from contextlib import closing
from pathlib import Path

import pytest
from tests.store_contract import a_trial, add_run

from octavo.errors import OctavoError
from octavo.observation import Observation
from octavo.series import Series
from octavo.store.kept_trials import KeptTrials, new_identity
from octavo.store.sender import TrialSender
from octavo.store.set_aside import SetAside
from octavo.store.store import Store
from octavo.store.trial_json import decode, encode

WHOLE = a_trial(
    identity=new_identity(),
    observations=(Observation("tps", 0.1, "1/s"), Observation("x", math.inf, "s", "q1", 3)),
    series=(Series.of("tps", "1/s", (0.5, 1.5), (0.1, 1e300), "checkpointer"),),
    settings={"work_mem": "4MB"},
    build={"version": "18.6"},
    facts={"deep": [None, {"ö": 1}]},
)


def test_a_trial_comes_back_as_it_was() -> None:
    assert decode(encode("one", WHOLE)) == ("one", WHOLE)
    assert decode(encode("one", a_trial())) == ("one", a_trial())


def test_names_that_trials_share_are_in_memory_once() -> None:
    one, other = (decode(encode("one", WHOLE))[1].observations[1] for _ in range(2))
    assert one.item == "q1"
    assert one.item is other.item
    assert one.unit is other.unit


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "run": "a", "trial": {}}', b"[" * 100_000,
        encode("one", WHOLE).replace(b'"ok"', b'"fine"'), encode("one", WHOLE).replace(b'"round": 1', b'"round": "1"'),
        *(encode("one", WHOLE).replace(b"0.5, 1.5", moment) for moment in (b"0.5, 1e999", b"0.5, 1e30")),
    ],
)  # fmt: skip
def test_what_is_no_trial_is_told_in_a_line(content: bytes) -> None:
    with pytest.raises(OctavoError) as error:
        decode(content)
    assert "\n" not in str(error.value)


def test_kept_trials_wait_in_their_order_and_for_their_owner_alone(tmp_path: Path) -> None:
    kept = KeptTrials(tmp_path / "kept")
    assert (list(kept.waiting()), len(kept)) == ([], 0)
    trials = [a_trial(identity=new_identity(), ended=moment) for moment in (3.0, 20.0, 100.0)]
    for trial in reversed(trials):
        kept.keep("one", trial)
    assert [trial for _, trial in kept.waiting()] == trials
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kept").iterdir()} == {0o600}
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    kept.keep("one", trials[0])
    kept.drop(str(trials[1].identity))
    assert [trial for _, trial in KeptTrials(tmp_path / "kept").waiting()] == [trials[0], trials[2]]


def test_a_damaged_file_is_set_aside_and_those_behind_it_are_sent(tmp_path: Path) -> None:
    told: list[str] = []
    aside = SetAside(tmp_path / "aside")
    kept = KeptTrials(tmp_path / "kept", aside, told.append)
    kept.keep("one", WHOLE)
    (path,) = (tmp_path / "kept").iterdir()
    path.write_bytes(damaged := path.read_bytes()[:-20])
    behind = a_trial(identity=new_identity(), ended=WHOLE.ended + 1)
    kept.keep("one", behind)
    assert list(kept.waiting()) == [("one", behind)]
    assert len(kept) == 1
    (one,) = aside.listed()
    assert "it is not a trial" in one.reason
    assert Path(one.file).read_bytes() == damaged
    assert one.file in told[0]


def test_a_trial_that_the_store_never_takes_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    told: list[str] = []
    with closing(Store.open(tmp_path / "octavo.sqlite")) as store:
        add_run(store, "one")
        sender = TrialSender(store, notice=told.append)
        sender.add("one", a_trial(identity=new_identity(), observations=(Observation("tps", math.nan, "1/s"),)))
        sender.add("one", a_trial(identity=new_identity()))
        assert store.count_trials("one") == 1
    (one,) = SetAside.of_this_home().listed()
    assert one.run == "one"
    assert "NOT NULL" in one.reason
    assert len(told) == 1


def test_a_set_aside_trial_is_its_owners_and_there_once(tmp_path: Path) -> None:
    aside = SetAside(tmp_path / "aside")
    for _ in range(2):
        aside.put_trial("one\x1b", WHOLE, "a\nreason")
    assert [(one.run, one.reason) for one in aside.listed()] == [("one\ufffd", "a reason")]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "aside").iterdir()} == {0o600}
    (tmp_path / "aside" / "other.reason").write_text("[]")
    assert len(aside.listed()) == 1


def test_only_identities_of_ours_are_names_of_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="new_identity"):
        KeptTrials(tmp_path).keep("one", dataclasses.replace(WHOLE, identity="../../x"))
