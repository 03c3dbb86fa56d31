"""`octavo doctor` on facts from a file: formats, exit codes, refused input."""

# pyright: reportPrivateUsage=false

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.unit.elf_files import CASAL, LDAXR, STLXR, elf, words
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.cli.doctor import _look
from octavo.errors import UsageError

CASES = Path(__file__).parents[1] / "doctor_cases"
PAGES = str(CASES / "rhel8-arm-64kb.json")


def doctor(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", *arguments])
    if isinstance(done.exception, UsageError):
        raise done.exception
    return done.exit_code, done.stdout


@pytest.mark.parametrize(
    ("case", "fail_on", "code"),
    [
        ("pod-hugetlb-0", None, 1),
        ("pod-hugetlb-0", "never", 0),
        ("rhel8-arm-64kb", None, 0),
        ("rhel8-arm-64kb", "warning", 1),
        ("laptop", "warning", 0),
        ("laptop", "note", 1),
        ("well-tuned", "note", 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(case: str, fail_on: str | None, code: int) -> None:
    options = ["--fail-on", fail_on] if fail_on else []
    assert doctor("--facts", str(CASES / f"{case}.json"), *options)[0] == code


def test_the_verdict_comes_first_then_the_stack_then_the_worst_finding() -> None:
    _, text = doctor("--facts", PAGES)
    assert text.startswith("PostgreSQL 15.0 at rhel8-arm-64kb.json: 3 warnings\n")
    assert text.index("CPU memory page") < text.index("WARNING kernel-page") < text.index("WARNING cloud-volume")
    # Lines to be copied are not wrapped, however narrow the terminal.
    assert "\n      dnf install kernel-core kernel-modules && grubby --set-default /boot/vmlinuz-$(rpm -q" in text


def test_verbose_lists_every_rule_with_its_reason() -> None:
    _, text = doctor("--facts", PAGES, "--verbose")
    for word in ("not applicable", "Franck Pachot", "io-method"):
        assert word in text


def test_the_formats(tmp_path: Path) -> None:
    _, text = doctor("--facts", PAGES, "--format", "md")
    assert text.startswith("# PostgreSQL 15.0 at rhel8-arm-64kb.json: 3 warnings\n")
    assert "## warning: kernel-page" in text
    assert "<h1>" in doctor("--facts", PAGES, "--format", "html")[1]
    _, text = doctor("--facts", PAGES, "--format", "json")
    report = json.loads(text)
    assert report["findings"] == {"error": 0, "warning": 3, "note": 0}
    again = tmp_path / "report.json"
    again.write_text(text)
    # A report contains its facts: they can be examined elsewhere.
    assert json.loads(doctor("--facts", str(again), "--format", "json")[1])["findings"] == report["findings"]
    code, text = doctor("--compare", str(again), str(again))
    assert code == 0 and text.startswith("no finding was added, resolved or changed\nstays: kernel-page at")
    assert json.loads(doctor("--compare", str(again), str(again), "--format", "json")[1])["changes"] == []


def test_rules_without_facts_are_no_clean_bill(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    _, text = doctor("--facts", str(nothing))
    assert re.match(r"nothing.json: no findings; (\d+) of \d+ rules unknown\n", text)
    assert "nothing to change" not in text


def test_more_buffers_than_memory_are_reported_without_a_negative_rest(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps({"setting.shared_buffers": 99 * 1024**4, "host.memory.total_bytes": 16 * 1024**3}))
    _, text = doctor("--facts", str(facts))
    assert "shared_buffers = 99TB, and the memory is 16 GB" in text and "-9" not in text


def test_before_the_start_settings_are_lines_of_the_configuration_file() -> None:
    _, text = doctor("--before-start", "--shared-buffers", "99TB")
    assert re.search(r"to do \(restart\): *\n      shared_buffers = \d+[MG]B   # postgresql.conf\n", text)
    assert "ALTER SYSTEM" not in text


def test_a_program_for_arm_is_looked_at_anywhere(tmp_path: Path) -> None:
    program = tmp_path / "postgres"
    program.write_bytes(elf(words(LDAXR, STLXR)))
    code, text = doctor("--binary", str(program), "--fail-on", "warning")
    assert code == 1 and "WARNING lse: the program has 2 load- and store-exclusive instructions" in text
    program.write_bytes(elf(words(LDAXR, STLXR, CASAL)))
    assert doctor("--binary", str(program), "--fail-on", "note")[0] == 0
    for file in (program.with_name("nothing"), Path(__file__)):
        with pytest.raises(UsageError, match="--binary"):
            doctor("--binary", str(file))


def test_a_rule_is_explained() -> None:
    _, text = doctor("--explain", "kernel-page")
    assert text.startswith("kernel-page: Is a data block smaller") and "Source: Franck Pachot" in text
    with pytest.raises(UsageError, match="unknown rule; allowed: all, kernel-page"):
        doctor("--explain", "nonsense")
    with pytest.raises(UsageError, match=r"unknown rule; did you mean kernel-page\?"):
        doctor("--explain", "kernel-pages")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dsn", "", "--before-start"), "give one of --dsn, --pgdata"),
        (("--bindir", "/x"), "--bindir has no effect without --pgdata"),
        (("--watch", "10ms"), "--watch 10ms: it must be from 1s to 24d"),
        (("--watch", "10", "--pgdata", "/x"), "--watch needs running servers"),
        (("--shared-buffers", "1GB"), "has no effect without --before-start"),
        (("--pgdata", "/nowhere"), "No such file or directory; name the data directory, or use --before-start"),
        (("--pgdata", "/proc"), "is not a data directory; before initdb: .* octavo doctor --before-start"),
        (("--facts", "/nowhere"), "cannot be read"),
        (("--before-start", "--shared-buffers", "many"), "--shared-buffers: 'many' is not a size"),
        (("--interval", "soon", "--dsn", ""), "--interval: 'soon' is not a duration"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        doctor(*arguments)


def test_watching_keeps_the_servers_that_cannot_be_examined() -> None:
    patient: Any = SimpleNamespace(owner=None, look=Mock(return_value={"server": "a", "results": []}))
    found = _look([patient], [{"server": "b", "results": []}], 0.0)
    assert [one["server"] for one in found["servers"]] == ["a", "b"]
