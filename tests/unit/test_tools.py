"""OCTAVO_STRICT: a skip for a missing program is a failure, any other skip stays one."""

import pytest
from tests import tools


def report(text: str) -> pytest.TestReport:
    where = ("test_x.py", 1, f"Skipped: {text}")
    return pytest.TestReport("test_x.py::test_x", ("test_x.py", 1, "test_x"), {}, "skipped", where, "call")


@pytest.mark.parametrize(
    ("strict", "text", "outcome"),
    [
        (True, tools.reason("pgbouncer"), "failed"),
        (True, "needs root", "skipped"),
        (False, tools.reason("pgbouncer"), "skipped"),
    ],
)
def test_only_a_missing_program_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, strict: bool, text: str, outcome: str
) -> None:
    monkeypatch.setattr(tools, "STRICT", strict)
    made = report(text)
    tools.as_failure(made)
    assert made.outcome == outcome
    assert outcome == "skipped" or "pgbouncer" in str(made.longrepr)


def test_programs_are_found_by_any_of_their_names() -> None:
    assert tools.found("no-such-program", "sh") is not None
    assert tools.found("no-such-program") is None
