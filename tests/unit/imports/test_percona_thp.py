from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.imports.percona_thp import read

PERF = """
 Performance counter stats for '{command}':

   825,204,469,140      dTLB-loads                                                    (63.33%)
    {misses:,}      dTLB-load-misses          #    3.33% of all dTLB cache hits   (58.32%)

     600.452951832 seconds time elapsed

"""


def pgbench(scale: int, transactions: int, tps: float, *, clients: int = 128, misses: int = 27_474_110_482) -> str:
    """The output of pgbench 11 for a run of 600 s, and of perf for pgbench."""
    return f"""starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: {scale}
query mode: simple
number of clients: {clients}
number of threads: {clients}
duration: 600 s
number of transactions actually processed: {transactions}
latency average = 3.101 ms
tps = {tps - 2} (including connections establishing)
tps = {tps} (excluding connections establishing)
{PERF.format(command=f"./pgbench db -U me -T 600 -j {clients} -c {clients}", misses=misses)}"""


def sysbench(transactions: int, seconds: float = 600.1) -> str:
    """The output of sysbench 1.0 for a TPC-C run at 20 sets of tables of scale 48."""
    return f"""sysbench 1.0.16 (using bundled LuaJIT 2.1.0-beta2)

Running the test with following options:
Number of threads: 128
Report intermediate results every 1 second(s)

Threads started!

[ 1s ] thds: 128 tps: 3503.99 qps: 102104.28 (r/w/o: 46626.59/48217.52/7260.16) lat (ms,95%): 86.00 err/s 23.64
    transactions:                        {transactions} (5881.52 per sec.)
    ignored errors:                      15367  (25.61 per sec.)

General statistics:
    total time:                          {seconds}s

Latency (ms):
         min:                                    0.68
         avg:                                   21.76
{PERF.format(command="./tpcc.lua --time=600 --threads=128 --tables=20 --scale=48 run", misses=23_020_960_502)}"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two scales with and without huge pages, the second one including a run that ended early; one pair of TPC-C."""
    files = {
        "pgbench-tpcb/10m/disabled-thp/tps-128": pgbench(3000, 24_763_872, 41_274.9)
        + pgbench(3000, 24_600_266, 40_997.8) + pgbench(7000, 24_102_506, 40_170.9),
        "pgbench-tpcb/10m/enabled-thp/tps-128": pgbench(3000, 24_790_951, 41_320.0)
        + pgbench(3000, 4_000, 40_000.0) + pgbench(7000, 24_243_522, 40_404.8),
        "sysbench-tpcc/disabled-thb/tps-128": sysbench(3_529_510),
        "sysbench-tpcc/enabled-thp/tps-128": sysbench(3_500_000),
        "pgbench-tpcb/10m/disabled-thp/tps": " shared_buffers \n----------------\n 64GB\n(1 row)\n",  # settings, no run
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "results"


def test_runs_are_trials_of_their_workload_scale_and_mode(results: Path) -> None:
    made = read(results)
    assert [(cell.condition, cell.levels["thp"]) for cell in made.cells] == [
        ("TPC-B, duration 10min, scale 3000, clients 128", "never"),
        ("TPC-B, duration 10min, scale 3000, clients 128", "always"),
        ("TPC-B, duration 10min, scale 7000, clients 128", "never"),
        ("TPC-B, duration 10min, scale 7000, clients 128", "always"),
        ("TPC-C, duration 10min, scale 960, clients 128", "never"),
        ("TPC-C, duration 10min, scale 960, clients 128", "always"),
    ]
    assert [cell.baseline for cell in made.cells] == [True, False] * 3
    assert sorted((trial.round, trial.load) for trial in made.trials) == [(1, 1)] * 6 + [(2, 1)] * 2
    seen = {one.metric: one.value for one in made.trials[0].observations}
    assert seen["tps"] == pytest.approx(41_274.9)
    assert seen["client_dtlb_load_misses_per_transaction"] == pytest.approx(27_474_110_482 / 24_763_872)
    tpcc = {one.metric: one.value for one in made.trials[-1].observations}
    assert (tpcc["transactions"], tpcc["latency_avg_ms"]) == (3_500_000, 21.76)
    assert made.sources[0].name == "pgbench-tpcb/10m/disabled-thp/tps-128"
    assert any("perf stat counts only the command" in limit for limit in made.limits)


def test_a_run_that_ended_early_is_invalid(results: Path) -> None:
    reasons = [trial.reason for trial in read(results).trials if trial.status == "invalid"]
    assert reasons == ["ran 0.10 s of the 600 s requested"]


def test_what_lacks_a_number_is_named_and_left_out(results: Path) -> None:
    file = results / "pgbench-tpcb/10m/enabled-thp/tps-128"
    text = file.read_text().replace("number of transactions actually processed: 24243522\n", "")
    file.write_text(text)
    line = text[: text.rindex("transaction type")].count("\n") + 1
    made = read(results)
    assert len(made.trials) == 7
    assert [problem for source in made.sources for problem in source.problems] == [
        f"pgbench-tpcb/10m/enabled-thp/tps-128:{line}: a run without transactions, time or scale; left out"
    ]


@pytest.mark.parametrize("what", ["nothing", "file", "empty"])
def test_what_holds_no_results_is_said(what: str, tmp_path: Path) -> None:
    place = tmp_path / what
    if what == "file":
        place.write_text("")
    elif what == "empty":
        place.mkdir()
    with pytest.raises(UsageError, match=r"not a directory|has no results"):
        read(place)
