"""What a check allows and what it does not, on planted differences; no server is started."""

import difflib
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.check import formulas
from octavo.check.classify import KINDS, Allowed, classify, load_entries
from octavo.check.crashes import crashes_in_log
from octavo.check.diffs import parse_diffs
from octavo.check.installation import _foreign_libraries  # pyright: ignore[reportPrivateUsage]
from octavo.check.outcome import CheckReport, ClassifiedDifference, Failure, Suite
from octavo.check.outputs import Difference, compare_isolation, compare_regression
from octavo.check.perl_tests import _judge_regression, parse_tap, waited_for  # pyright: ignore[reportPrivateUsage]
from octavo.check.report import as_dict, text
from octavo.check.run import SUITES, check_build, check_versions, covering_suites
from octavo.check.suites import run_driver
from octavo.errors import HostError, UsageError
from octavo.host import children
from octavo.host.children import Finished
from octavo.postgres.builds.cache import Build
from octavo.postgres.limits import DATA_BLOCKS, WAL_BLOCKS
from octavo.units import parse_size

OTHER_BLOCKS = [block for block in DATA_BLOCKS if block != "8kB"]

SCRIPT = """\
CREATE TABLE t (a int, b text);
COPY t FROM stdin;
1\tone
2\ttwo
\\.

SELECT a, b
  FROM t;
EXPLAIN (COSTS OFF)
SELECT * FROM t ORDER BY a;
SELECT a FROM t ORDER BY a;
INSERT INTO t VALUES (1 / 0);
""".splitlines()

OUTPUT = """\
CREATE TABLE t (a int, b text);
COPY t FROM stdin;
SELECT a, b
  FROM t;
 a |  b  
---+-----
 1 | one
 2 | two
(2 rows)

EXPLAIN (COSTS OFF)
SELECT * FROM t ORDER BY a;
     QUERY PLAN      
---------------------
 Sort
   Sort Key: a
   ->  Seq Scan on t
(3 rows)

SELECT a FROM t ORDER BY a;
 a 
---
 1
 2
(2 rows)

INSERT INTO t VALUES (1 / 0);
ERROR:  division by zero
""".splitlines()  # noqa: W291 (psql pads its columns)


def planted(before: str, after: str, test: str = "some") -> Difference:
    """The only difference in the output with this text replaced."""
    text = "\n".join(OUTPUT)
    assert text.count(before) == 1
    actual = text.replace(before, after).splitlines()
    (difference,) = compare_regression(test, SCRIPT, OUTPUT, actual)
    return difference


def test_equal_outputs_have_no_difference() -> None:
    assert compare_regression("some", SCRIPT, OUTPUT, OUTPUT) == []


def test_a_difference_is_the_whole_output_of_its_statement() -> None:
    difference = planted("(1 / 0);\nERROR:  division by zero", "(1 / 0);\nERROR:  no")
    assert difference.statement == "INSERT INTO t VALUES (1 / 0);"
    assert (difference.expected, difference.actual) == (("ERROR:  division by zero",), ("ERROR:  no",))
    assert OUTPUT[difference.line - 1] == "ERROR:  division by zero"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(" 1 | one\n", " 1 | won\n", id="a wrong value"),
        pytest.param(" 2 | two\n(2 rows)", "(1 row)", id="a lost row"),
        pytest.param(" 2 | two\n", " 1 | one\n", id="a row twice in place of another"),
        pytest.param(" 2 | two\n(2 rows)", " 2 | two\n 3 | two\n(3 rows)", id="a row too many"),
        pytest.param(" a |  b  \n", " a |  c  \n", id="another column"),
        pytest.param(" 1\n 2\n", " 2\n 1\n", id="another order than ORDER BY asks for"),
        pytest.param("ERROR:  division by zero", "ERROR:  division by one", id="another error"),
        pytest.param("ERROR:  division by zero", "", id="an error that is missing"),
        pytest.param("FROM stdin;\n", "FROM stdin;\nERROR:  invalid page in block 0\n", id="a new error"),
        pytest.param("FROM stdin;\n", "FROM stdin;\nWARNING:  page verification failed\n", id="a new warning"),
        pytest.param("ERROR:  division by zero", "PANIC:  could not write", id="a PANIC"),
        pytest.param("   Sort Key: a\n", "   Sort Key: a\n 42\n", id="a plan with a row that is none of a plan"),
        pytest.param("FROM stdin;\n", "FROM stdin;\nERROR:  row is too big: size 9000, maximum size 8160\n",
                     id="a limit of another block"),
        pytest.param("FROM stdin;\n", "FROM stdin;\nERROR:  row is too big: size 50, maximum size 992\n",
                     id="a limit that is kept"),
        pytest.param("FROM stdin;\n", "FROM stdin;\nERROR:  row is too big: size 40000, maximum size 992\n",
                     id="a row too big for 8 kB too"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", DATA_BLOCKS)
def test_what_nothing_explains_is_a_failure_at_every_block(before: str, after: str, block: str) -> None:
    assert classify("regression", planted(before, after), block) is None
    for test in {entry.test for entry in load_entries()}:  # known differences of a test do not excuse others
        assert classify("regression", planted(before, after, test), block) is None


def test_an_output_that_breaks_off_is_one_difference_that_nothing_explains() -> None:
    actual = [*OUTPUT[:9], "server closed the connection unexpectedly"]
    (difference,) = compare_regression("some", SCRIPT, OUTPUT, actual)
    assert difference.expected == tuple(OUTPUT)
    assert classify("regression", difference, "4kB") is None


PLAN = "   Sort Key: a\n   ->  Seq Scan on t\n(3 rows)"
OTHER_PLAN = "   Sort Key: a\n   ->  Index Scan using i on t\n         Index Cond: (a > 1)\n(4 rows)"
ORDER = (" 1 | one\n 2 | two\n", " 2 | two\n 1 | one\n")


@pytest.mark.parametrize(
    ("before", "after", "kind"), [(PLAN, OTHER_PLAN, "plan"), (*ORDER, "order")], ids=["plan", "order"]
)
def test_another_plan_or_order_is_allowed_except_at_8kb(before: str, after: str, kind: str) -> None:
    difference = planted(before, after)
    for block in OTHER_BLOCKS:
        allowed = classify("regression", difference, block)
        assert allowed is not None
        assert allowed.kind == kind
        assert allowed.reason
    assert classify("regression", difference, "8kB") is None


def test_a_plan_that_returned_other_rows_is_a_failure() -> None:
    output = [" QUERY PLAN ", "----", " Seq Scan on t (actual rows={} loops=1)", "   Filter: (a > 1)", "(2 rows)", ""]
    for rows, allowed in (("3.00", True), ("4.00", False)):
        expected = tuple(line.format("3.00") for line in output)
        actual = (*expected[:2], f" Result (actual rows={rows} loops=1)", "   One-Time Filter: (a > 1)", "(2 rows)", "")
        difference = Difference("some", 1, "EXPLAIN (ANALYZE) SELECT 1;", expected, actual)
        assert (classify("regression", difference, "4kB") is not None) == allowed


@pytest.mark.parametrize("block", OTHER_BLOCKS)
def test_a_limit_is_allowed_only_with_the_numbers_of_this_block(block: str) -> None:
    size = parse_size(block)
    for pattern, formula in (
        ("ERROR:  row is too big: size {}, maximum size {}", formulas.heap_tuple),
        ('ERROR:  index row size {} exceeds btree version 4 maximum {} for index "i"', formulas.btree_tuple),
        ('ERROR:  index row size {} exceeds maximum {} for index "i"', formulas.brin_tuple),
    ):
        most, default = formula(size), formula(8192)

        def allowed(wanted: int, named: int, pattern: str = pattern) -> bool:
            difference = Difference("some", 1, "INSERT INTO t VALUES (1);", (), (pattern.format(wanted, named),))
            return classify("regression", difference, block) is not None

        assert allowed(default, most) == (most < default)
        assert not allowed(most, most)  # it fits
        assert not allowed(default, most + 24)
        assert not allowed(default + 8, most)  # it does not fit into 8 kB either


def test_another_maximum_in_the_same_error_is_checked() -> None:
    output = (
        'ERROR:  value 0 out of bounds for option "siglen"',
        'DETAIL:  Valid values are between "1" and "{}".',
    )
    expected = tuple(line.format(2024) for line in output)

    def judge(most: int) -> Allowed | None:
        actual = tuple(line.format(most) for line in output)
        return classify("regression", Difference("some", 1, "CREATE INDEX;", expected, actual), "4kB")

    allowed = judge(1000)
    assert allowed is not None
    assert allowed.kind == "limit"
    assert judge(1008) is None


def test_every_entry_has_a_reason_a_kind_and_lines_and_none_is_for_8kb() -> None:
    for entry in load_entries():
        assert entry.kind in KINDS
        assert len(entry.reason) > 20
        assert "\n" not in entry.reason
        assert entry.blocks
        assert set(entry.blocks) <= set(OTHER_BLOCKS)
        assert entry.removed or entry.added
        for pattern in (*entry.removed, *entry.added):
            assert not re.fullmatch(pattern.replace("{block}", ""), "ERROR:  could not read block 1"), pattern
            assert not re.fullmatch(pattern.replace("{block}", ""), "WARNING:  page verification failed"), pattern


def test_an_entry_covers_its_own_lines_and_no_more() -> None:
    statement = "SELECT pg_size_pretty(pg_relation_size('large_tuple_test'::regclass, 'main'));"

    def judge(block: str, size: str) -> Allowed | None:
        head = (" pg_size_pretty ", "----------------")
        expected, actual = (*head, " 8192 bytes", "(1 row)", ""), (*head, f" {size}", "(1 row)", "")
        return classify("regression", Difference("insert", 94, statement, expected, actual), block)

    for block, size in (("1kB", "1024 bytes"), ("4kB", "4096 bytes"), ("32kB", "32 kB")):
        assert judge(block, size) == Allowed("size", "one block, told in bytes")
    assert judge("4kB", "1024 bytes") is None


def test_steps_of_an_isolation_test_are_set_side_by_side() -> None:
    expected = [
        "Parsed test spec with 2 sessions", "",
        "starting permutation: a b", "step a: SELECT 1;", "x", "-", "1", "(1 row)", "", "step b: COMMIT;",
    ]  # fmt: skip
    actual = [*expected, "ERROR:  could not serialize access"]
    (difference,) = compare_isolation("some", expected, actual)
    assert difference.statement == "starting permutation: a b\nstep b: COMMIT;"
    assert difference.actual == ("ERROR:  could not serialize access",)
    assert classify("isolation", difference, "32kB") is None
    (whole,) = compare_isolation("some", expected, expected[:-1])  # a step is missing
    assert classify("isolation", whole, "32kB") is None


LINES = st.lists(
    st.sampled_from(["", " a", "-- x", "--- y", "+++ z", "@@ -1 +1 @@", "diff -U3 a b", "\\ b", "(1 row)"])
)


@given(LINES, LINES)
def test_the_parser_reads_what_diff_writes(expected: list[str], actual: list[str]) -> None:
    written = list(difflib.unified_diff(expected, actual, "/e/some.out", "/a/some.out", "then", "now", 3, ""))
    found = parse_diffs("\n".join(["diff -U3 /e/some.out /a/some.out", *written, ""]))
    if expected == actual:
        assert found == []
        return
    (diff,) = found
    assert (diff.expected, diff.actual, diff.test) == (Path("/e/some.out"), Path("/a/some.out"), "some")
    assert len(expected) - len(diff.removed) == len(actual) - len(diff.added)
    kept = list(expected)
    for line in diff.removed:
        kept.remove(line)
    assert sorted([*kept, *diff.added]) == sorted(actual)


def test_the_lines_of_all_hunks_are_in_their_file_in_their_order() -> None:
    hunks = [f"@@ -{line},2 +{line},3 @@\n kept\n-was {line}\n+is {line}\n+--- {line}\n" for line in range(1, 20_001)]
    first = "diff -U3 /e/one.out /a/one.out\n--- /e/one.out\tthen\n+++ /a/one.out\tnow\n"
    second = "diff -U3 /e/two.out /a/two.out\n--- /e/two.out\tthen\n+++ /a/two.out\tnow\n@@ -7,1 +6,0 @@\n-gone\n"
    one, two = parse_diffs(first + "".join(hunks) + second)
    assert (one.expected, one.actual) == (Path("/e/one.out"), Path("/a/one.out"))
    assert one.removed == tuple(f"was {line}" for line in range(1, 20_001))
    assert one.added == tuple(text for line in range(1, 20_001) for text in (f"is {line}", f"--- {line}"))
    assert (two.test, two.removed, two.added) == ("two", ("gone",), ())


@pytest.mark.parametrize(
    "broken", ["@@ -1 +1 @@\n-a\n+b\n", "--- a\tx\nb\n", "--- a\tx\n+++ b\ty\n@@ -1,3 +1 @@\n-a\n"]
)
def test_what_is_no_difference_is_not_read_as_one(broken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_diffs(broken)


@given(st.data())
def test_no_line_is_lost_between_statements(data: st.DataObject) -> None:
    """Whatever replaces one line of an output, all differing lines are in the differences."""
    place = data.draw(st.integers(0, len(OUTPUT) - 1))
    actual = [*OUTPUT[:place], *data.draw(LINES), *OUTPUT[place + 1 :]]
    differences = compare_regression("some", SCRIPT, OUTPUT, actual)
    assert bool(differences) == (actual != OUTPUT)
    allowed = [classify("regression", difference, "8kB") for difference in differences]
    assert allowed == [None] * len(differences)


LOG = """\
2026-01-01 00:00:00 LOG:  database system is ready
TRAP: failed Assert("offset > 0"), File: "bufpage.c", Line: 7, PID: 12
postgres: octavo regression SELECT(ExceptionalCondition+0x54) [0x55]
2026-01-01 00:00:01 LOG:  client backend (PID 12) was terminated by signal 6: Aborted
2026-01-01 00:00:02 LOG:  client backend (PID 13) was terminated by signal 9: Killed
2026-01-01 00:00:02 FATAL:  could not restore file "02": child process was terminated by signal 3: Quit
2026-01-01 00:00:03 PANIC:  could not locate a valid checkpoint record
"""


@pytest.mark.parametrize(("killing", "crashes"), [(True, 3), (False, 4)])
def test_crashes_are_found_in_a_log_with_their_backtrace(tmp_path: Path, killing: bool, crashes: int) -> None:
    log = tmp_path / "postmaster.log"
    log.write_text(LOG)
    found = crashes_in_log(log, killing_is_tested=killing)
    assert len(found) == crashes
    assert "TRAP: failed Assert" in found[0].what
    assert any("ExceptionalCondition+0x54" in line for line in found[0].details)


@pytest.mark.parametrize(
    ("told", "failed", "complete", "skipped"),
    [
        ("ok 1 - fine\nok 2\n1..2", [], True, None),
        ("ok 1 - fine\nnot ok 2 - archived\n1..2", ["archived"], True, None),
        ("not ok 1 - known # TODO some day\n1..1", [], True, None),
        ("ok 1 - fine\nok 2 # skip no tar program available\n1..2", [], True, None),
        ("ok 1 - fine\nnot ok 2 # TODO & SKIP not yet\n1..2", [], True, None),
        ("1..0 # SKIP no injection points", [], True, "no injection points"),
        ("ok 1 - fine", [], False, None),
        ("1..3\nok 1 - fine", [], False, None),
        ("ok 1 - fine\n1..1\nBail out!  pg_ctl start failed", [], False, None),
        ("", [], False, None),
    ],
)  # fmt: skip
def test_what_a_script_of_the_recovery_suite_says(
    told: str, failed: list[str], complete: bool, skipped: str | None
) -> None:
    tap = parse_tap(told.splitlines())
    assert (tap.failed, tap.complete, tap.skipped) == (failed, complete, skipped)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A workspace of an empty build, whose children end with `ended`, and print the lines of `told`."""
    place = SimpleNamespace(
        build=SimpleNamespace(prefix=tmp_path / "build", manifest={"data_block": "8kB"}), tests=tmp_path,
        directory=tmp_path, driver=tmp_path, libraries=tmp_path, journal=None, account=None,
        environment=dict[str, str], ended=Finished(0, "", "", 0.0), told=[],
    )  # fmt: skip

    def run(*_: object, on_line: Callable[[str], None] | None = None, **__: object) -> Finished:
        if on_line is not None:
            for line in place.told:
                on_line(line)
        return place.ended

    monkeypatch.setattr(children, "run", run)
    (place.build.prefix / "bin").mkdir(parents=True)
    return place


def test_suites_whose_results_a_version_writes_otherwise_are_refused() -> None:
    check_versions(["18.6", "17", "16.0"], SUITES)
    check_versions(["15", "15.18"], ["installation", "recovery"])
    for suites in (["installation", "regression"], ["isolation"], ["contrib"]):
        with pytest.raises(UsageError, match=rf"{suites[-1]} can be read from PostgreSQL 16 on, not of 15\.18"):
            check_versions(["18.6", "15.18"], suites)


def test_a_driver_that_fails_after_its_tests_is_a_failure(workplace: Any, tmp_path: Path) -> None:
    """For example if the server does not stop."""
    workplace.told = ["ok 1         - boolean                   12 ms", "1..1", "# could not stop postmaster"]

    def failures(code: int) -> list[Failure]:
        workplace.ended = Finished(code, "", "", 0.0)
        ran = run_driver(workplace, "regression", "regress", tmp_path, tmp_path, [], 1, lambda _: None)
        assert (ran.tests, ran.identical) == (1, 1)
        return ran.failures

    assert failures(0) == []
    (failure,) = failures(2)
    assert failure.what == "pg_regress failed (exit 2), though every test passed"
    assert failure.details[-1] == "# could not stop postmaster"


def test_regression_tests_behind_a_standby_that_never_ran_are_a_failure(workplace: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "regress_log_027_stream_regress").write_text("could not connect to the server\n")
    judged, (failure,) = _judge_regression(workplace, tmp_path)
    assert judged == []
    assert (failure.test, failure.details) == ("027_stream_regress", ("could not connect to the server",))


def test_a_program_whose_libraries_cannot_be_listed_is_a_failure(workplace: Any) -> None:
    (workplace.build.prefix / "bin" / "postgres").touch()
    for code, stderr, expected in (
        (0, "", []),
        (1, "\tnot a dynamic executable\n", []),
        (1, "ldd: exited with 139\n", ["postgres cannot be examined: ldd: exited with 139"]),
        (1, "", ["postgres cannot be examined: ldd ended with 1"]),
    ):
        workplace.ended = Finished(code, "", stderr, 0.0)
        assert _foreign_libraries(workplace, workplace.build.prefix) == expected


def test_what_a_script_waited_for_in_vain_is_told_without_how_it_ended() -> None:
    told = [
        "perl: warning",
        "# poll_query_until timed out executing this query:",
        "# SELECT 1",
        "# ",
        "# with stderr:",
        "# 4",
    ]
    assert waited_for(told) == ["poll_query_until timed out executing this query:", "SELECT 1"]
    assert waited_for(["# fine"]) == []


def a_report(tmp_path: Path, *judged: ClassifiedDifference, failures: tuple[Failure, ...] = ()) -> CheckReport:
    build = Build("18.6-b4w8-0", tmp_path, {"version": "18.6", "data_block": "4kB", "wal_block": "8kB"})
    suite = Suite("regression", 231, 230, judged, failures, (("recovery", "no perl"),), 1.5, tmp_path)
    return CheckReport(build, (suite,))


def test_a_report_passes_only_when_everything_is_allowed(tmp_path: Path) -> None:
    allowed = ClassifiedDifference(planted(*ORDER), Allowed("order", "the reason"))
    unknown = ClassifiedDifference(planted(" 1 | one\n", " 1 | won\n", "other"), None)
    crash = Failure("postmaster", "the server crashed: PANIC:  no", ("PANIC:  no",))
    good = a_report(tmp_path, allowed)
    assert good.passed
    assert "order: the reason: some" in text(good)
    assert "skipped recovery: no perl" in text(good)
    bad = a_report(tmp_path, allowed, unknown)
    assert not bad.passed
    assert bad.suites[0].failed == ["other"]
    assert "- 1 | one" in text(bad).replace("-  1", "- 1")
    assert not a_report(tmp_path, failures=(crash,)).passed
    assert "PANIC:  no" in text(a_report(tmp_path, failures=(crash,)))
    content = as_dict([good, bad])
    assert content["schema_version"] == 1
    assert [build["passed"] for build in content["builds"]] == [True, False]
    assert [found["kind"] for found in content["builds"][1]["suites"][0]["differences"]] == ["order", None]


def test_a_full_disk_is_no_failure_of_the_build(
    workplace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octavo.check.run.open_workspace", Mock(return_value=nullcontext(workplace)))
    monkeypatch.setattr("octavo.check.run.server_account", Mock())
    workplace.build.name = "18.6-b4w8-0"
    nothing: Any = None
    for what, is_full in (("PANIC:  no", False), ("PANIC:  could not write: No space left on device", True)):
        suite = a_report(tmp_path, failures=(Failure("postmaster", what),)).suites[0]
        monkeypatch.setattr("octavo.check.run._ALL", {"regression": Mock(return_value=suite)})
        with pytest.raises(HostError, match="no room left for regression") if is_full else nullcontext():
            assert not check_build(workplace.build, nothing, nothing, suites=["regression"]).passed


def test_one_suite_a_build_meets_every_block_when_it_is_the_whole_matrix() -> None:
    """All pairs of data block, WAL block and suite, in 42 runs of one suite each."""
    names = ("regression", "isolation", "recovery")
    builds = [
        Build(f"b{data}w{wal}", Path(data), {"data_block": data, "wal_block": wal})
        for data in DATA_BLOCKS
        for wal in WAL_BLOCKS
    ]
    chosen = covering_suites(builds)
    assert all(suites[0] == "installation" and len(suites) == 2 for suites in chosen.values())
    for name, blocks in (("data_block", DATA_BLOCKS), ("wal_block", WAL_BLOCKS)):
        met = {(build.manifest[name], chosen[build.name][1]) for build in builds}
        assert met == {(block, suite) for block in blocks for suite in names}


def test_one_suite_a_build_when_there_are_few() -> None:
    builds = [Build(data, Path(data), {"data_block": data, "wal_block": "8kB"}) for data in ("4kB", "8kB", "32kB")]
    assert {suites[1] for suites in covering_suites(builds).values()} == {"regression", "isolation", "recovery"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--check", "--suite", "regression,speed"), "unknown suite 'speed'; allowed: all, covering, or some of"),
        (("--with-extension", "/nonexistent"), "--with-extension /nonexistent: no such directory"),
    ],
)
def test_what_cannot_be_done_with_builds_is_refused_before_they_are_made(
    arguments: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from octavo.cli.app import app

    def make(*_: object, **__: object) -> None:
        raise AssertionError("builds are made")

    monkeypatch.setattr("octavo.postgres.builds.make.ensure_builds", make)
    ran = CliRunner().invoke(app, ["build", "--matrix", *arguments])
    assert isinstance(ran.exception, UsageError) and problem in str(ran.exception)
