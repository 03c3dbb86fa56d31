"""Traces and those of other programs, up to the summary of what was imported. (Rust has its own properties.)"""

import math
import struct
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo import _core
from octavo.errors import OctavoError
from octavo.predict.device import device_of
from octavo.predict.predict import Request, predict
from octavo.trace import files
from octavo.trace.simulate import SimulationRequest, simulate
from octavo.trace.surface import SurfaceRequest, surface

_CSV = b"time_us,backend,relation,block,kind\n1,7,16384,12,read\n5,7,16384,13,extend\n"
_IOLOG = b"fio version 3 iolog\n0 /data/a add\n0 /data/a open\n7 /data/a read 4096 8192\n9 /data/a close\n"
_BLKTRACE = b"""\
  8,0    3    2     0.000001829   697  Q  WS 223488 + 16 [kjournald]
  8,0    3    3     0.5           700  Q   R 0 + 1 [postgres]
CPU0 (8,0):
"""
_ORACLE = bytes(4) + b"\x07" + bytes(7) + b"\x01" + bytes(3) + b"\xff" * 8
# Two facts, five accesses and the end, as TraceWriter writes them.
_TRACE = bytes.fromhex(
    "a74f637401010000002000001200000000000000000000000000000062ddd40e2a42a356010b087265636f726465720178040309"
    "0402a74f63740102000000200000770000000500000000000000000000007cc303c5dab52f2a01ff0c0580800100020001000300"
    "990301b30602b4060200800802800801028010000002008008028008000000000000000000000001048010010380100000000001"
    "0680100001008010000000010280100100801001008010000000000000000ac40002091000001401000000010000000100000001"
    "11a74f63740103000000200000010000000000000005000000000000004d478c67ab0ecfcd05"
)
# Two intervals of WAL, an access, and one of a page that is pinned.
_WAL = bytes.fromhex(
    "a74f63740101000000200000290000000000000000000000000000002e53c4fb3a88d583050e00c0843d000902e8840100cc8501"
    "051700c0843d0b486561702f55504441544504008407f40300a74f63740102000000200000640000000200000000000000000000"
    "00047cea444b8fab6c01ff0c05808001000101030100801001028010000000010280100000000000000000000000010680100000"
    "000000010680100000000000000200800802800802008008048008000000000000000a0100000001000000010000000400000804"
    "000008010fa74f6374010300000020000001000000000000000200000000000000a62346b37f2cecf302"
)


def _read(format: str) -> Callable[[bytes, Path], object]:
    def read(text: bytes, place: Path) -> object:
        source = place / "source"
        source.write_bytes(text)
        if format == "octrace":
            return files.summarize(source)
        files.import_(source, format, place / "target", 8192)
        return files.summarize(place / "target")

    return read


def _records(text: bytes, place: Path) -> object:
    """Records that a backend of a tracing build has appended."""
    writer = _core.TraceWriter(place / "target", 8192)
    writer.push_records(0, 1, text)
    writer.push_probes(b"", 0, 0)
    writer.finish()
    return files.summarize(place / "target")


def _simulated(text: bytes, place: Path) -> object:
    """A trace, simulated at two block sizes with all layers."""
    (place / "source").write_bytes(text)
    request = SimulationRequest(
        place / "source",
        shared_buffers=(1024**2,),
        memory=(4 * 1024**2,),
        data_blocks=(4096, 32768),
        checkpoint=1,
    )
    return simulate(request)


_FACTS = b"""\
setting shared_buffers 1GB
setting max_connections 100
setting io_combine_limit 128kB
setting vacuum_buffer_usage_limit 2MB
setting bgwriter_delay 200ms
setting bgwriter_lru_maxpages 100
setting bgwriter_lru_multiplier 2
setting bgwriter_flush_after 512kB
setting checkpoint_flush_after 256kB
setting checkpoint_timeout 5s
setting wal_block_size 8192
setting effective_io_concurrency 16
property server_version_num 180006
property kernel_page_bytes 4096
property readahead_bytes 131072
property work_clients 4
property work_transactions 600
property work_lookups 600
property work_seconds 30
property work_cpu_seconds 1
property work_cpu_transactions 600
property work_wal_syncs 300
property processors 2
property host_memory_bytes 8589934592
relation blocks 100
relation tuples 6100
relation fillfactor 100
relation tuple_bytes 128
event checkpoint_start 3
event transactions 600
event lost 0
event pause_microseconds 0
wal records 1800
wal full_page_images 60
wal growth_bytes 900000
"""


def _facts(text: bytes, place: Path) -> object:
    """A trace that claims this of its server, and what every reader makes of it."""
    path = place / "told"
    writer = _core.TraceWriter(path, 8192)
    numbers = {"blocks": 0, "tuples": 0, "fillfactor": 0, "tuple_bytes": 0}
    wal = {"records": 0, "full_page_images": 0, "growth_bytes": 0}
    for line in text.decode(errors="replace").split("\n"):
        kind, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else 0
        if kind == "setting":
            writer.setting(name[:100], value[:1000])
        elif kind == "property":
            writer.describe(name[:100], value[:1000])
        elif kind == "relation" and name in numbers:
            numbers[name] = min(number, 2**32 - 1) if name in ("fillfactor", "tuple_bytes") else number
        elif kind == "event" and name in ("checkpoint_start", "transactions", "lost", "pause_microseconds"):
            for _ in range(min(number, 100) if name == "checkpoint_start" else 1):
                writer.event(1, name, number)
        elif kind == "wal" and name in wal:
            wal[name] = number
    writer.relation(1, 1, 7, kind="r", name=None, **numbers)
    writer.push([(number * 50_000, 1, 1, 1, 7, 0, number % 100, 2 * (number % 2), 0) for number in range(600)])
    writer.wal(0, 30_000_000, "", bytes=0, full_page_image_bytes=0, **wal)
    writer.finish()
    outcomes: list[object] = []
    for work in (
        lambda: simulate(SimulationRequest(path, data_blocks=(4096, 8192))),
        lambda: surface(SurfaceRequest(path, page_sizes=(4096, 8192))),
        lambda: predict(Request(path, data_blocks=(4096, 8192))),
    ):
        try:
            outcomes.append(work())
        except OctavoError as error:
            outcomes.append(str(error))
    return outcomes


# A relation, two accesses and a change, as pg_trace.h appends them.
_RECORDS = struct.pack("<IIQIIQIIQIIQ", 1663, 32 << 24, 5 << 32 | 16384, 7, 0, 9000, 8, 1 << 24, 9100, 8, 2 << 24, 9200)

_PROBE = (
    b'{"requests_per_second_ceiling": 5e4, "bytes_per_second_ceiling": 1e9,'
    b' "latency_line": {"latency_us": 80, "bytes_per_second": 2e9}}'
)


def _device(text: bytes, place: Path) -> object:
    (place / "probe.json").write_bytes(text)
    found = device_of(str(place / "probe.json"))
    seconds = found.seconds(2.0, 8192.0) + found.waited(2.0, 8192.0)
    assert math.isfinite(seconds)
    return seconds


PARSERS = [
    Parser("probe of a device", _device, [_PROBE]),
    Parser("trace.records", _records, [_RECORDS]),
    Parser("trace.simulated", _simulated, [_TRACE]),
    Parser("trace.facts", _facts, [_FACTS]),
    Parser("trace.octrace", _read("octrace"), [_TRACE, _WAL]),
    Parser("trace.csv", _read("csv"), [_CSV]),
    Parser("trace.iolog", _read("iolog"), [_IOLOG]),
    Parser("trace.blktrace", _read("blktrace"), [_BLKTRACE]),
    Parser("trace.oracle_general", _read("oracle-general"), [_ORACLE, _ORACLE * 3]),
]


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
