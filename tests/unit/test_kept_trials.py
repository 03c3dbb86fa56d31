import dataclasses
import math
from pathlib import Path

import pytest
from tests.store_contract import a_trial

from octavo.errors import OctavoError
from octavo.observation import Observation
from octavo.series import Series
from octavo.store.kept_trials import KeptTrials, new_identity
from octavo.store.trial_json import decode, encode

WHOLE = a_trial(
    identity=new_identity(),
    observations=(Observation("tps", 0.1, "1/s"), Observation("x", math.inf, "s", "q1", 3)),
    series=(Series("tps", "1/s", (0.5, 1.5), (0.1, 1e300), "checkpointer"),),
    settings={"work_mem": "4MB"},
    build={"version": "18.6"},
    facts={"deep": [None, {"ö": 1}]},
)


def test_a_trial_comes_back_as_it_was() -> None:
    assert decode(encode("one", WHOLE)) == ("one", WHOLE)
    assert decode(encode("one", a_trial())) == ("one", a_trial())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "run": "a", "trial": {}}', b"[" * 100_000,
        encode("one", WHOLE).replace(b'"ok"', b'"fine"'), encode("one", WHOLE).replace(b'"round": 1', b'"round": "1"'),
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


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    kept = KeptTrials(tmp_path)
    kept.keep("one", WHOLE)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(OctavoError, match=rf"{path}: it is not a trial.*move it away"):
        list(kept.waiting())


def test_only_identities_of_ours_are_names_of_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="new_identity"):
        KeptTrials(tmp_path).keep("one", dataclasses.replace(WHOLE, identity="../../x"))
