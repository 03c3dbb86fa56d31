"""docs/experiments/README.md: every claim has a command that Octavo accepts, a short answer and a verdict."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.test_documented_commands import arguments_of, refusal

from octavo.plan.cells import make_cells
from octavo.plan.impossible import impossible_cells
from octavo.plan.presets import find_plan

TABLE = Path(__file__).parents[2] / "docs" / "experiments" / "README.md"
HEAD = ["#", "claim or question", "command", "answer", "verdict"]
VERDICTS = ("agree", "disagree", "part", "open", "not here")
_MOST_WORDS = 13
_NO_COMMAND = ("arithmetic", "none", "–", "-", "")


def rows() -> list[list[str]]:
    """The cells of each row, from all sections."""
    found: list[list[str]] = []
    for line in TABLE.read_text().splitlines():
        if re.match(r"\| \d{3}\.\d", line):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


ROWS = rows()
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])


@every_row
def test_a_claim_has_a_short_answer_and_a_verdict(row: list[str]) -> None:
    assert len(row) == len(HEAD)
    _, claim, _, answer, verdict = row
    assert claim and answer
    assert len(answer.split()) <= _MOST_WORDS
    assert verdict.partition(":")[0] in VERDICTS


@every_row
def test_its_command_is_one_that_octavo_accepts(row: list[str]) -> None:
    if row[2] in _NO_COMMAND:
        return
    command = re.fullmatch(r"`octavo ([^`]+)`", row[2])
    assert command is not None
    words = arguments_of(command[1])
    assert refusal(words) is None
    if words[0] == "run":
        given = list(zip(words[2::2], words[3::2], strict=True))
        pairs = [value.partition("=") for word, value in given if word == "--set"]
        changes = {name: levels.split(",") for name, _, levels in pairs}
        plan = find_plan(words[1], changes=changes, size=dict(given).get("--size"))[0]
        assert impossible_cells(plan, make_cells(plan)) == []


def test_numbers_follow_each_other_in_every_section() -> None:
    by_document: dict[str, list[int]] = {}
    for row in ROWS:
        document, _, number = row[0].partition(".")
        by_document.setdefault(document, []).append(int(number))
    assert {"000", "001", "002", "003", "004"} <= by_document.keys()
    for document, numbers in by_document.items():
        assert numbers == list(range(1, len(numbers) + 1)), document


def test_the_summary_counts_the_verdicts() -> None:
    summary = re.search(
        r"Of (\d+) claims and questions, (\d+) agree [^,]*, (\d+) disagree, (\d+) hold in part, (\d+) are open, "
        r"and (\d+) cannot be tested",
        " ".join(TABLE.read_text().split()),
    )
    assert summary is not None
    counted = Counter(row[4].partition(":")[0] for row in ROWS)
    expected = [len(ROWS)] + [counted[verdict] for verdict in ("agree", "disagree", "part", "open", "not here")]
    assert [int(number) for number in summary.groups()] == expected
