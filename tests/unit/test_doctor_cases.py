"""Described hosts: the findings that each must give, and those that it must not give."""

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.doctor.engine import examine
from octavo.doctor.facts import read_facts
from octavo.doctor.rules import RULES

CASES = sorted((Path(__file__).parents[1] / "doctor_cases").glob("*.json"))


def test_there_are_cases() -> None:
    assert {"well-tuned", "pod-hugetlb-0", "rhel8-arm-64kb", "big-1000-connections", "laptop"} <= {
        path.stem for path in CASES
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_described_host_gives_its_findings_and_no_others(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text())
    results = examine(read_facts(case["facts"]), RULES.values())
    found = {one.rule: f"{one.severity}: {one.text}" for one in results if one.status == "finding"}
    assert set(case["must"]) <= set(RULES)
    assert set(case["must"]) <= set(found)
    if case["must_not"] == "*":
        assert found == {}
    else:
        assert set(case["must_not"]) <= set(RULES)
        assert not set(case["must_not"]) & set(found), found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_finding_says_what_it_costs_and_what_to_do(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text())
    for one in examine(read_facts(case["facts"]), RULES.values()):
        assert one.text and one.source
        if one.finding is not None:
            assert any(letter.isdigit() for letter in one.finding.cost + one.text), one.rule
            assert one.finding.fix and one.finding.check and one.finding.takes, one.rule
            assert one.evidence
