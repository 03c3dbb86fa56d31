"""Files and options that users write: plans, levels, maps of results, block lists."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.errors import UsageError
from octavo.imports.map_file import columns_of, read_map
from octavo.plan import presets
from octavo.plan.model import known_factors
from octavo.plan.parse import parse_plan
from octavo.plan.text import plan_text
from octavo.remote.hosts_file import parse_hosts
from octavo.units import parse_duration, parse_percentage, parse_size
from octavo.workloads.pgio.conf import parse_conf

_MAP = b"""\
name = "my-series"
baseline = { data_block = "8kB" }
[file]
delimiter = ";"
columns = ["bs", "mode", "tps", "took"]
[factors]
data_block = { column = "bs", unit = "kB" }
mode = "mode"
scale = { level = 100 }
[metrics.tps]
column = "tps"
unit = "1/s"
better = "higher"
total = true
[trial]
load = "load"
seconds = "took"
seconds_asked = 900
"""
_HOSTS = b"""\
[defaults]
user = "octavo"
identity = "keys/fleet"
[[host]]
name = "db1"
address = "2001:db8::1"
port = 2222
class = "x86-nvme"
octavo = "python3 'octavo.pyz'"
"""
_PGIO = b"""\
# of the original
UPDATE_PCT=0
RUN_TIME=$(( 60 * 60))
export NUM_SCHEMAS=4 NUM_THREADS=$((2*(3-1)/2%3))
WORK_UNIT=255
UPDATE_WORK_UNIT=8
SCALE="1024 M"
DBNAME=pgio
CONNECT_STRING='pgio'
CREATE_BASE_TABLE=TRUE
"""
_LEVELS = (b"8kB", b"1.5min", b"3%", b"4096/20s", b"gp2:100,credits=1000", b"iops=5000,mbps=200", b"0-1,3", b"9%/19%")


def _plan(text: bytes, _: Path) -> object:
    plan = parse_plan(text.decode(errors="replace"), origin="plan.toml")
    return parse_plan(plan_text(plan), origin="again")


def _map(text: bytes, place: Path) -> object:
    (place / "map.toml").write_bytes(text)
    return columns_of(read_map(place / "map.toml"))


def _levels(text: bytes, _: Path) -> object:
    """For every factor: a level or a UsageError."""
    level = text.decode(errors="replace")
    readers: list[Callable[[str], object]] = [parse_size, parse_duration, parse_percentage]
    for workload in ("pgbench", "pooled", "scan", "pgio"):
        readers += [factor.level for factor in known_factors(workload).values()]
    for read in readers:
        with suppress(UsageError):
            read(level)
    return None


PARSERS: Sequence[Parser] = (
    Parser(
        "plan",
        _plan,
        [presets.preset_text(name).encode() for name in ("oltp-blocks", "thp", "oom", "seq-scan")],
    ),
    Parser("map of results", _map, (_MAP,)),
    Parser("levels", _levels, _LEVELS, ()),
    Parser("pgio.conf", lambda text, _: parse_conf(text.decode(errors="replace"), "pgio.conf"), (_PGIO,)),
    Parser(
        "hosts.toml", lambda text, place: parse_hosts(text.decode(errors="replace"), place / "hosts.toml"), (_HOSTS,)
    ),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
