"""Tables of others' results, up to the run in the store."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.imports import mapped, percona_thp, run, vondra_pgbench, vondra_tpch

_PGBENCH = b"""\
1648831532;1648832432;8;8;16;50;ro;126325.97;900.05;6456
1648832492;1648833392;8;8;16;50;ro;126710.27;900.05;0
1648834414;1648836214;4;8;16;50;rw;20835.72;1800.04;9749742448
1648838134;1648838591;4;8;1;50;rw;20709.90;457.1;9603197336
"""
_QUERIES = b"""\
8;8;1;16;1;1;1600000000;19.5;p1;r1
8;8;1;16;9;1;1600000020;91;p9;r9
8;8;1;16;1;2;1600000120;14;p1;r1
4;8;1;16;1;1;1600000200;15;p1;r1
"""
_STEPS = b"8;8;1;16;copy;1600000000;108;108000\n8;8;1;16;fkey;1600000108;26;26000\n4;8;1;16;copy;1600000300;1;2\n"
_SIZES = b"8;8;1;16;65536;32768;131072\n"
_SETTINGS = b"shared_buffers = 1GB  # a comment\nlc_time = 'C'\n"
_THP = b"""\
starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 3000
number of clients: 128
duration: 600 s
number of transactions actually processed: 24763872
latency average = 3.101 ms
tps = 41274.912576 (excluding connections establishing)
    27,474,110,482      dTLB-load-misses          #    3.33% of all dTLB cache hits   (58.32%)
sysbench 1.0.16 (using bundled LuaJIT 2.1.0-beta2)
Number of threads: 128
    transactions:                        3529510 (5881.52 per sec.)
    total time:                          600.0997s
         avg:                                   21.76
 Performance counter stats for './tpcc.lua --time=600 --threads=128 --tables=20 --scale=48 run':
"""
_MAP = b"""\
baseline = { data_block = "8kB" }
[factors]
data_block = { column = "bs", unit = "kB" }
mode = "mode"
scale = { level = 100 }
[metrics.tps]
column = "tps"
total = true
[trial]
load = "load"
round = "round"
item = "query"
repetition = "run"
started = "start"
seconds = "took"
seconds_asked = 30
"""
_TABLE = b"""\
bs,mode,load,round,query,run,start,tps,took
8,"read, only",a,1,q1,1,1600000000,1000,30
8,"read, only",a,1,q2,1,1600000030,1100,30.1
4,rw,b,2,"a ""quoted"" one",1,1600000060,990,12
4,rw,b,2,q2,1,1600000060,1e3,31
"""


def _saved(read: Callable[[Path], run.Imported], name: str) -> Callable[[bytes, Path], object]:
    """Also stores the result, in a separate store."""

    def parse(text: bytes, place: Path) -> object:
        (place / name).write_bytes(text)
        imported = read(place)
        store = place / "store.sqlite"
        try:
            return run.save(imported, store)
        finally:
            for file in place.glob("store.sqlite*"):
                file.unlink()

    return parse


def _tpch(place: Path) -> run.Imported:
    others = {"queries.csv": _QUERIES, "load.csv": _STEPS, "size.csv": _SIZES, "settings.conf": _SETTINGS}
    for name, text in others.items():
        if not (place / name).exists():
            (place / name).write_bytes(text)
    return vondra_tpch.read(place, named="fuzz")


def _mapped(place: Path) -> run.Imported:
    (place / "map.toml").write_bytes(_MAP)
    return mapped.read(place / "table.csv", place / "map.toml")


def _mapped_by(text: bytes, place: Path) -> object:
    (place / "table.csv").write_bytes(_TABLE)
    (place / "map.toml").write_bytes(text)
    return mapped.read(place / "table.csv", place / "map.toml")


def _thp(place: Path) -> run.Imported:
    for mode in ("disabled-thp", "enabled-thp"):
        (place / mode).mkdir(exist_ok=True)
        (place / mode / "tps-128").write_bytes((place / "tps").read_bytes())
    return percona_thp.read(place, named="fuzz")


PARSERS: Sequence[Parser] = (
    Parser(
        "import vondra-pgbench", _saved(lambda at: vondra_pgbench.read(at / "results.csv"), "results.csv"), (_PGBENCH,)
    ),
    Parser("import vondra-tpch, queries", _saved(_tpch, "queries.csv"), (_QUERIES,)),
    Parser("import vondra-tpch, load", _saved(_tpch, "load.csv"), (_STEPS,)),
    Parser("import vondra-tpch, size", _saved(_tpch, "size.csv"), (_SIZES,)),
    Parser("import vondra-tpch, settings", _saved(_tpch, "settings.conf"), (_SETTINGS,)),
    Parser("import percona-thp", _saved(_thp, "tps"), (_THP,)),
    Parser("import csv", _saved(_mapped, "table.csv"), (_TABLE,)),
    Parser("import csv, map", _mapped_by, (_MAP,)),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
