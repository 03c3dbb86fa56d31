"""The doctor's engine, facts, and its report in each format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.doctor import compare, html, markdown, report, sentences, subjects
from octavo.doctor.engine import DoctorRule, Finding, Ok, examine
from octavo.doctor.facts import Fact, Facts, NotApplicableError, RuleFacts, UnknownError, read_facts
from octavo.doctor.rules import RULES
from octavo.errors import UsageError

MB = 1024**2
CASES = Path(__file__).parents[1] / "doctor_cases"


def rule(name: str, judge: Any) -> DoctorRule:
    return DoctorRule(name, "?", "", "the manual", judge)


def finding(severity: Any) -> Finding:
    return Finding(severity, "seen", "costs 1 GB", ("line",), "reload", "SHOW x;")


def test_ok_finding_unknown_and_not_applicable_are_four_things_worst_first() -> None:
    def unknown(asked: RuleFacts) -> Ok:
        return Ok(str(asked.whole("host.x")))

    def absent(asked: RuleFacts) -> Ok:
        return Ok(str(asked.whole("setting.x")))

    def fine(asked: RuleFacts) -> Ok:
        return Ok("good")

    def always(severity: Any) -> Callable[[RuleFacts], Finding]:
        return lambda asked: finding(severity)

    rules = [
        rule("fine", fine),
        rule("absent", absent),
        rule("note", always("note")),
        rule("unknown", unknown),
        rule("error", always("error")),
        rule("warning", always("warning")),
    ]
    facts = Facts([Fact("host.", unknown="another host"), Fact("setting.", absent="16 has no such setting")])
    results = examine(facts, rules)
    assert [one.rule for one in results] == ["error", "warning", "note", "unknown", "fine", "absent"]
    assert [one.status for one in results[3:]] == ["unknown", "ok", "not applicable"]
    assert results[3].text == "host.x: another host"


def test_a_fact_knows_where_it_is_from_and_a_rule_its_evidence() -> None:
    asked = RuleFacts(read_facts({"host.a": 1, "host.b": {"value": 2.5, "source": "/proc/b"}, "host.c": None}))
    assert (asked.whole("host.a"), asked.number("host.b"), asked.whole_or_none("host.c")) == (1, 2.5, None)
    assert [fact.source for fact in asked.evidence.values()] == ["given", "/proc/b"]


@pytest.mark.parametrize("value", ["64kB", 1.5, True, None, [1]])
def test_a_value_of_another_kind_is_unknown(value: Any) -> None:
    with pytest.raises(UnknownError):
        RuleFacts(Facts([Fact("x", value)])).whole("x")


def test_a_name_with_a_dot_holds_for_all_below_it() -> None:
    facts = read_facts({"host.": {"unknown": "elsewhere"}, "host.fs.": {"absent": "none"}, "host.fs.type": "xfs"})
    assert facts["host.memory.total_bytes"].unknown == "elsewhere"
    assert facts["host.fs.block_bytes"].absent == "none"
    assert facts["host.fs.type"].value == "xfs"
    with pytest.raises(NotApplicableError, match="none"):
        RuleFacts(facts).whole("host.fs.block_bytes")


def test_facts_are_written_and_read_as_json() -> None:
    facts = Facts([Fact("a", 1, "/proc/a"), Fact("b", unknown="why"), Fact("c", absent="not here"), Fact("d", None)])
    again = read_facts(json.loads(json.dumps(facts.as_dict())))
    assert {name: again[name] for name in again} == {name: facts[name] for name in facts}
    with pytest.raises(UsageError):
        read_facts([1])


def test_an_infinite_number_is_unknown() -> None:
    facts = Facts([Fact("server.wal.seconds", float("inf"), "pg_stat_wal: seconds")])
    assert "pg_stat_wal: seconds says inf" in facts["server.wal.seconds"].unknown
    json.dumps(facts.as_dict(), allow_nan=False)


HOSTILE = "<script>alert(1)</script> | `x` \x1b[31m"


def hostile_report() -> dict[str, Any]:
    facts = read_facts({"setting.block_size": 8192, "host.thp.enabled": "always", "host.thp.defrag": HOSTILE,
                        "host.fs.type": HOSTILE, "server.version": HOSTILE})  # fmt: skip
    return report.document([report.part(HOSTILE, facts, HOSTILE)])


def test_what_a_host_says_is_escaped_in_each_format() -> None:
    found = hostile_report()
    page, text = html.render(found), markdown.render(found, verbose=True)
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in page and "\x1b" not in text
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert json.loads(json.dumps(found)) == found


def test_a_report_counts_its_findings_and_marks_the_stack() -> None:
    facts = read_facts({"setting.block_size": 8192, "host.memory.page_bytes": 65536, "setting.shared_buffers": MB})
    found = report.document([report.part("x", facts)])
    assert found["findings"] == {"error": 0, "warning": 1, "note": 0}
    marks = {row["layer"]: row["findings"] for row in found["servers"][0]["page_stack"]}
    assert marks["CPU memory page"] == marks["data block"] == ["kernel-page"]
    assert marks["WAL segment"] == []
    assert report.is_as_bad(found, "warning") and report.is_as_bad(found, "note")
    assert not report.is_as_bad(found, "error")


def test_settings_are_statements_for_a_running_server_and_lines_of_the_file_for_another() -> None:
    facts = {"setting.random_page_cost": 0.5, "setting.seq_page_cost": 1.0}
    for more, lines in (
        ({}, ["ALTER SYSTEM SET random_page_cost = '1.1';", "SELECT pg_reload_conf();"]),
        ({"server.": {"absent": "the server does not run"}}, ["random_page_cost = 1.1   # postgresql.conf"]),
        (
            {"setting.allow_alter_system": False},
            ["random_page_cost = 1.1   # postgresql.conf", "SELECT pg_reload_conf();"],
        ),
    ):
        results = report.part("x", read_facts(facts | more))["results"]
        assert next(one["fix"] for one in results if one["rule"] == "random-page-cost") == lines


def test_a_setting_of_a_managed_service_is_set_there() -> None:
    facts = {"setting.random_page_cost": 0.5, "setting.seq_page_cost": 1.0, "host.": {"unknown": "elsewhere"},
             "server.managed": "Google Cloud SQL: database flag"}  # fmt: skip
    for more, first in (
        ({}, "random_page_cost = 1.1   # Google Cloud SQL: database flag"),
        # A role with that name may come from a dump.
        ({"host.memory.page_bytes": 4096}, "ALTER SYSTEM SET random_page_cost = '1.1';"),
    ):
        results = report.part("x", read_facts(facts | more))["results"]
        (lines,) = (one["fix"] for one in results if one["rule"] == "random-page-cost")
        assert lines[0] == first and len(lines) == 1 + bool(more)


def test_rules_that_are_unknown_for_one_reason_are_one_line() -> None:
    facts = json.loads((CASES / "managed-service.json").read_text())["facts"]
    reason = facts["host."]["unknown"]
    part = report.part("x", read_facts(facts))
    (line,) = (one for one in sentences.unknowns(part) if reason in one)
    rules = [one["rule"] for one in part["results"] if one["status"] == "unknown" and reason in one["text"]]
    assert line == f"{len(rules)} rules need its host and are unknown ({reason}): {', '.join(rules)}"
    assert len(rules) > 10
    rows = sentences.others(part)
    assert rows[0] == (f"{len(rules)} rules", "unknown", f"{reason}: {', '.join(rules)}")
    assert not {row[0] for row in rows} & set(rules)
    first, second, *_ = sentences.layers(part)
    assert (first["layer"], first["detail"]) == ("huge page", "huge_pages on")
    assert second["layer"] == "shared_buffers"
    found = report.document([part])
    assert markdown.render(found, verbose=False).count(reason) == 1
    assert html.render(found).count(reason) == 2  # and below "Other rules"


def test_a_setting_of_the_command_line_is_changed_there() -> None:
    cost = {"value": 0.5, "source": "pg_settings: random_page_cost (command line)"}
    results = report.part("x", read_facts({"setting.random_page_cost": cost, "setting.seq_page_cost": 1.0}))["results"]
    (lines,) = (one["fix"] for one in results if one["rule"] == "random-page-cost")
    assert lines[0].startswith("# random_page_cost is set on the server's command line")
    cost["source"] = "pg_settings: random_page_cost (configuration file)"
    results = report.part("x", read_facts({"setting.random_page_cost": cost, "setting.seq_page_cost": 1.0}))["results"]
    assert next(one["fix"] for one in results if one["rule"] == "random-page-cost")[0].startswith("ALTER SYSTEM")


def test_two_reports_are_compared(tmp_path: Path) -> None:
    files: list[Path] = []
    for name, page in (("before", 65536), ("after", 4096)):
        facts = read_facts({"setting.block_size": 8192, "host.memory.page_bytes": page, "setting.shared_buffers": MB})
        files.append(tmp_path / name)
        files[-1].write_text(json.dumps(report.document([report.part("db", facts)])))
    before, after = map(compare.read_report, files)
    assert compare.lines(compare.changes(before, after)) == [
        "better: kernel-page at db: warning → ok (host.memory.page_bytes 64kB → 4kB)",
        "CPU memory page at db: 64kB → 4kB",
    ]
    assert compare.lines(compare.changes(after, before))[0].startswith("worse: kernel-page at db: ok → warning")
    assert compare.lines(compare.changes(after, after)) == ["no finding was added, resolved or changed"]
    assert compare.lines(compare.changes(before, before))[1] == "stays: kernel-page at db: warning"


def test_a_finding_that_cannot_be_seen_any_more_is_not_better() -> None:
    facts = read_facts({"setting.block_size": 8192, "host.memory.page_bytes": 65536, "setting.shared_buffers": MB})
    before = report.document([report.part("db", facts), report.part("gone", facts)])
    lost = Facts([Fact(name, unknown="the server could not be examined") for name in ("setting.", "host.")])
    after = report.document([report.part("db", lost, "connection refused")])
    changed = compare.changes(before, after)
    assert [line for line in compare.changed_lines(changed) if "kernel-page" in line] == [
        "not known: kernel-page at db: warning → unknown", "not known: kernel-page at gone: warning → absent",
    ]  # fmt: skip
    assert not any(row["better"] for row in changed["changes"])
    assert compare.changed_lines(compare.changes(after, before))[0].startswith("worse: ")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema_version": 1}', '{"schema_version": 1, "servers": [1]}', "[" * 99999]
)
def test_what_is_no_report_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UsageError, match=r"octavo doctor --format json"):
        read = compare.read_report(tmp_path / "x")
        compare.changes(read, read)


def test_other_verbs_show_the_rules_of_their_subject() -> None:
    assert {name for names in subjects.SUBJECTS.values() for name in names} <= set(RULES)
    facts = read_facts({"host.thp.enabled": "always", "host.thp.defrag": "madvise"})
    rules = subjects.rules_on("host", facts)
    assert [one["rule"] for one in rules if one["status"] == "finding"] == ["transparent-huge-pages"]
    head, first, *fix = subjects.lines(rules)
    assert head == "octavo doctor finds:"
    assert first.startswith("  note: transparent-huge-pages: enabled = always")
    assert fix[0] == "      echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    assert subjects.lines(subjects.rules_on("host", read_facts({"host.thp.enabled": "madvise"}))) == []
    sysv = {"setting.shared_memory_type": "sysv", "setting.huge_pages": "try", "setting.shared_memory_size": 1024**3}
    for more, line in (
        ({}, "      ALTER SYSTEM SET shared_memory_type = 'mmap';"),
        ({"setting.allow_alter_system": False}, "      shared_memory_type = mmap   # postgresql.conf"),
    ):
        assert line in subjects.lines(subjects.rules_on("huge pages", read_facts(sysv | more)))
