"""Input of the doctor: reports and facts that a user names, a program, the sockets of this host."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check, parametrized
from tests.unit.planted import plant

from octavo.doctor import compare, html, markdown, report
from octavo.doctor.collect import find
from octavo.doctor.facts import read_facts
from octavo.doctor.hosts import document, rows_of
from octavo.doctor.json_file import read_json
from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import HostAnswer

_CASES = Path(__file__).parents[1] / "doctor_cases"
_FACTS = tuple(
    (_CASES / f"{name}.json").read_bytes() for name in ("rhel8-arm-64kb", "pod-hugetlb-0", "bare-metal-volumes")
)
_SOCKETS = (
    b"Num       RefCount Protocol Flags    Type St Inode Path\n"
    b"0000000000000000: 00000002 00000000 00010000 0001 01 27145 /run/postgresql/.s.PGSQL.5432\n"
    b"0000000000000000: 00000002 00000000 00010000 0001 01 27146 @/tmp/.X11-unix/X0\n"
)


def _examined(text: bytes, place: Path) -> object:
    """Facts from a file, through every rule and every format."""
    (place / "facts").write_bytes(text)
    found = report.document([report.part("x", read_facts(read_json(place / "facts")))])
    json.dumps(found, allow_nan=False)
    return html.render(found), markdown.render(found, verbose=True)


def _compared(text: bytes, place: Path) -> object:
    (place / "report").write_bytes(text)
    found = compare.read_report(place / "report")
    return compare.lines(compare.changes(found, found))


def _listening(text: bytes, place: Path) -> object:
    (plant(place, {"net/unix": ""}) / "net/unix").write_bytes(text)
    return find.listeners(place)


def _report() -> bytes:
    facts = read_facts(json.loads(_FACTS[0]))
    return json.dumps(report.document([report.part("x", facts)])).encode()


def _answered(text: bytes, _: Path) -> object:
    rows = rows_of(HostAnswer(RemoteHost("a", "a"), 0, text))
    assert rows
    return document(rows)


PARSERS: Sequence[Parser] = (
    Parser("facts of the doctor", _examined, _FACTS),
    Parser("report of the doctor", _compared, (_report(),)),
    Parser("answer of a host", _answered, (_report(),)),
    Parser("listening sockets", _listening, (_SOCKETS,), ()),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
