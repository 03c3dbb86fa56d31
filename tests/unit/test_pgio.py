"""The workload pgio: its tables, its figures, and the work of each session."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from octavo import workloads
from octavo.cli import pgio_conf
from octavo.errors import HostError, UsageError
from octavo.lab.slices import eligibility
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.model import known_factors
from octavo.plan.presets import find_plan
from octavo.postgres.cluster import Server
from octavo.store.records import TrialRecord
from octavo.units import parse_size
from octavo.workload_support import pgbench_client
from octavo.workloads.base import COUNTED, CountsBySlices, MeasuresAfterwards, RunsInTurns, WorkloadResult
from octavo.workloads.pgio import Pgio, figures, sessions, tables
from octavo.workloads.pgio.conf import parse_conf
from octavo.workloads.pgio.figures import CounterGrowth
from octavo.workloads.pgio.original import result_lines

LEVELS = {factor.name: factor.default for factor in known_factors("pgio").values()}
BEFORE = {"hits": 9_196_454_698, "reads": 6_919_962, "rows_updated": 988_150}
AFTER = {"hits": 10_070_502_579, "reads": 6_919_975, "rows_updated": 988_183}


def result_of(**numbers: float) -> WorkloadResult:
    return WorkloadResult(
        tuple(Observation(name, value, "1") for name, value in numbers.items()), 1.0, 1, seconds_asked=1.0
    )


def test_the_published_counters_give_the_published_figures() -> None:
    counted = CounterGrowth.between(BEFORE, AFTER, 600.0, 8192)
    values = {one.metric: one.value for one in counted.observations(4)}
    assert int(values["riops"]) == 0
    assert int(values["cache_hits_per_second"]) == 1_456_746
    assert int(values["liops_per_thread"]) == 364_186  # the author has 1,456,746 / 4 rounded up
    assert values["looked_for_bytes_per_second"] == pytest.approx(values["liops"] * 8192)
    assert "session_liops_min" not in values


def test_sessions_share_what_all_of_them_looked_for() -> None:
    counted = CounterGrowth(hits=900, reads=100, updated=0, seconds=10.0, block=1024)
    shares = sessions.shares(Counter({0: 1, 1: 2, 3: 5}), 4)
    values = {one.metric: one.value for one in counted.observations(4, shares)}
    assert (values["session_liops_min"], values["session_liops_median"], values["session_liops_max"]) == (
        0,
        18.75,
        62.5,
    )


def test_a_call_that_costs_only_itself_has_no_work_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of no blocks descend the index, which are most blocks of a call with small units."""
    asked: dict[str, str | int] = {}

    @contextmanager
    def scripts(*_: object, **variables: str | int) -> Generator[list[str], None, None]:
        asked.update(variables)
        yield []

    def measure(*_: object) -> tuple[WorkloadResult, Counter[int]]:
        return WorkloadResult((), 1.0, 1000), Counter()

    monkeypatch.setattr(pgbench_client, "scripts", scripts)
    monkeypatch.setattr(sessions, "measure", measure)
    (own,) = Pgio().afterwards(cast("Server", None), LEVELS, WorkloadResult((), 1.0, 10))
    assert own.value == 0.01
    assert asked["units"] == "0"
    assert asked["read_blocks"] == LEVELS["work_unit"]


def test_no_time_and_no_calls_give_no_figure() -> None:
    assert CounterGrowth(1, 1, 1, 0.0, 8192).observations(4) == []
    assert sessions.shares({}, 4) == []


def test_slices_count_their_calls_with_the_blocks_of_an_average_call() -> None:
    seen = [
        Observation("block_hits_per_transaction", 12_900.0, "1"),
        Observation("block_reads_per_transaction", 0.0, "1"),
    ]
    values = {one.metric: one.value for one in figures.of_slices(result_of(tps=50.0), seen, 2, 8192)}
    assert values["liops_per_thread"] == 322_500
    assert values["updates_per_second"] == 0
    result = replace(result_of(tps=50.0), facts={COUNTED: Counter({0: 30, 1: 10})})
    counted = {
        one.metric: one.value for one in Pgio().of_slices({**LEVELS, "schemas": "2", "data_block": "8kB"}, result, seen)
    }
    assert (counted["session_liops_min"], counted["session_liops_max"]) == (161_250, 483_750)
    assert figures.of_slices(result_of(tps=50.0), [], 2, 8192) == ()
    assert figures.of_slices(result_of(tps=0.0), seen, 2, 8192) == ()


@pytest.mark.parametrize(("block", "blocks"), [("1kB", 262_144), ("8kB", 32_768), ("32kB", 8_192)])
def test_a_scale_is_bytes_at_any_block_size(block: str, blocks: int) -> None:
    levels = {**LEVELS, "data_block": block}
    assert tables.blocks_of(levels) == blocks
    assert 1.0 < tables.database_bytes(levels) / (4 * 256 * 1024**2) < 1.1


def test_it_can_be_stopped_and_says_what_it_does() -> None:
    workload = workloads.find("pgio")
    assert isinstance(workload, RunsInTurns)
    assert isinstance(workload, CountsBySlices)
    assert isinstance(workload, MeasuresAfterwards)
    assert workload.only_reads(LEVELS)
    assert not workload.only_reads({**LEVELS, "update_pct": "1"})
    assert workload.metrics[0].name == "liops_per_thread"


def test_a_work_unit_fits_its_schema() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    class NoServer:
        execute = query = never

    levels = {**LEVELS, "data_block": "32kB", "scale": "4MB"}
    with pytest.raises(UsageError, match=r"^scale: 4MB has 128 blocks, fewer than a work unit of 255$"):
        Pgio().fill(NoServer(), levels)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["quick", "here", "full"])
def test_logical_reads_are_measured_in_slices(size: str) -> None:
    plan, _ = find_plan("pgio-lio", size=size)
    cells = make_cells(plan)
    eligibility.refuse(plan, workloads.find(plan.workload), cells)
    assert all(tables.database_bytes(cell.levels) < 0.9 * parse_size(cell.levels["shared_buffers"]) for cell in cells)


PUBLISHED = """\
 UPDATE_PCT=0
 RUN_TIME=$(( 60 * 60))
 NUM_SCHEMAS=4
 NUM_THREADS=1
 WORK_UNIT=255
 UPDATE_WORK_UNIT=8
 SCALE=1024M
 DBNAME=pgio
 CONNECT_STRING="pgio"
 CREATE_BASE_TABLE=TRUE
"""


def test_the_published_pgio_conf_becomes_levels() -> None:
    conf = parse_conf(PUBLISHED, "pgio.conf")
    assert conf.levels == {
        "update_pct": "0", "duration": "3600s", "schemas": "4", "threads": "1", "work_unit": "255",
        "update_work_unit": "8", "scale": "1GB",
    }  # fmt: skip
    assert conf.database == "pgio"
    assert conf.makes_data
    plan, _ = find_plan("pgio-lio", changes={name: [level] for name, level in conf.levels.items()})
    eligibility.refuse(plan, workloads.find("pgio"), make_cells(plan))


@pytest.mark.parametrize(
    ("line", "name", "level"),
    [
        ("SCALE=1024", "scale", "8MB"),
        ("SCALE='2 G' # two", "scale", "2GB"),
        ("export RUN_TIME=90", "duration", "90s"),
        ("NUM_SCHEMAS=2 NUM_THREADS=$((-(2-10)*3/5%3))", "threads", "1"),
        ("WORK_UNIT=10\nWORK_UNIT=20", "work_unit", "20"),
    ],
)
def test_what_a_shell_would_read_is_read(line: str, name: str, level: str) -> None:
    assert parse_conf(line, "pgio.conf").levels[name] == level


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\nTHREADS=1", "^pgio.conf, line 2: unknown key 'THREADS'; allowed: NUM_SCHEMAS,"),
        ("RUN_TIME=$(date)", "RUN_TIME: the file is parsed, not executed|is not an assignment"),
        ("DBNAME=`id`", "DBNAME: the file is parsed, not executed, so that '`' has no meaning"),
        ("DBNAME=${HOME}", "parsed, not executed"),
        ("rm -rf x", "'rm' is not an assignment"),
        ("DBNAME='a", "unterminated"),
        ("SCALE=1023", "^pgio.conf: SCALE=1023: allowed: 1024 blocks"),
        ("SCALE=1024K", "SCALE=1024K: allowed"),
        ("UPDATE_PCT=101", "allowed: whole numbers from 0 to 100"),
        ("RUN_TIME=0", "from 1 to 86400"),
        ("RUN_TIME=$((1/0))", "division by zero"),
        ("RUN_TIME=$((010 * 60))", "010 .* is octal in a shell"),  # 480 s to PGIO
        ("RUN_TIME=$((1+))", "is expected"),
        ("RUN_TIME=$(((1))", "unbalanced"),
        ("DBNAME=a\nCONNECT_STRING=b", "^pgio.conf: CONNECT_STRING leads to the database 'b' and DBNAME is 'a'"),
        ("CONNECT_STRING='host=db.example dbname=a'", "CONNECT_STRING has host, and octavo run measures servers"),
        ("CONNECT_STRING=postgresql://db.example:5433/a", "has host, port, and"),
        ("CONNECT_STRING='-h x a'", "CONNECT_STRING has options of psql"),
        ("CONNECT_STRING='a=b=c d'", "CONNECT_STRING is not a connection string"),
        ("RUN_TIME=$((999999999999999*999999999999999))", "larger than"),
    ],
)
def test_what_is_not_understood_is_one_line_with_its_place(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_conf(line, "pgio.conf")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "database"),
    [
        ("", "pg10"),
        ("DBNAME=a", "a"),
        ("CONNECT_STRING=b", "b"),
        ("CONNECT_STRING='dbname=a user=u'\nDBNAME=a", "a"),
        ("CONNECT_STRING=user=u", "pg10"),
    ],
)
def test_the_database_is_the_one_that_is_used_and_counted(text: str, database: str) -> None:
    assert parse_conf(text, "pgio.conf").database == database


def test_without_a_base_table_the_data_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    plan, _ = find_plan("pgio-lio")
    pgio_conf.check_data(parse_conf("CREATE_BASE_TABLE=TRUE", "pgio.conf"), plan)
    with pytest.raises(HostError, match=r"^CREATE_BASE_TABLE is not TRUE and \d+ loads are not there yet"):
        pgio_conf.check_data(parse_conf("CREATE_BASE_TABLE=FALSE", "pgio.conf"), plan)


def test_pgio_conf_is_for_plans_of_pgio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pgio.conf"
    path.write_text(PUBLISHED)
    with pytest.raises(UsageError, match="that of thp is pgbench"):
        pgio_conf.read(str(path), "thp")
    _, levels = pgio_conf.read(str(path), "pgio-lio")
    assert levels["schemas"] == ["4"]
    assert capsys.readouterr().out == ""
    with pytest.raises(UsageError, match=r"cannot be read: No such file .*--set"):
        pgio_conf.read(str(tmp_path / "none"), "pgio-lio")


def test_the_original_s_line_has_medians_of_the_trials_that_count() -> None:
    plan, _ = find_plan("pgio-lio")
    cell = next(cell for cell in make_cells(plan) if cell.baseline)

    def trial(number: int, riops: float, hits: float) -> TrialRecord:
        observations = (Observation("riops", riops, "1/s"), Observation("cache_hits_per_second", hits, "1/s"))
        return TrialRecord(
            id=number, round=number, part=1, attempt=1, position=1, cell=cell.id, load=1, status="ok",
            reason=None, started=0.0, ended=1.0, seed=1, observations=observations,
        )  # fmt: skip

    (line,) = result_lines([cell], [trial(1, 0.0, 10.0), trial(2, 2.9, 30.0), trial(3, 9.0, 20.9)], "pg10")
    assert line == (
        f"{cell.id}: DBNAME:  pg10. 2 schemas, 1 threads(each). Run time: 10 seconds. RIOPS >2< CACHE_HITS/s >20<"
    )
    assert result_lines([cell], [], "pg10") == []
