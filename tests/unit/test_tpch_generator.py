"""Rows of several tables in one stream, as the generator writes them, into the COPY of each."""

import os
import sys
from array import array
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from subprocess import PIPE, Popen
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import OctavoError
from octavo.workloads.tpch import generator, orders_by_customer
from octavo.workloads.tpch.generator import Rows, copy_rows

_HEADERS = {
    "lineitem": b"l_orderkey,l_comment\n",
    "region": b"r_regionkey,r_name\n",
    "nation": b"n_nationkey,n_name\n",
    "orders": b"o_orderkey,o_comment\n",
}
_ROWS = {
    "lineitem": [b"1,a r_regionkey, b\n", b"2,b\n"],
    "region": [b"0,AFRICA\n"],
    "nation": [],
    "orders": [b"%d,n_nationkey,x\n" % number for number in range(40)],
}


class Connection:
    """Keeps the input of COPY; a COPY that an error ends keeps nothing."""

    def __init__(self) -> None:
        self.copied: dict[str, bytes] = {}

    @contextmanager
    def cursor(self) -> Generator["Connection"]:
        yield self

    @contextmanager
    def copy(self, statement: bytes) -> Generator[Any]:
        written: list[bytes] = []

        class Copy:
            write = staticmethod(written.append)

        yield Copy()
        self.copied[statement.decode().split()[1]] = b"".join(written)


class Ended:
    """A generator that has ended successfully."""

    def wait(self, timeout: float) -> int:
        return 0


def copy(text: bytes, tables: Sequence[str], connection: Connection, exit_code: int = 0) -> None:
    """COPY of a generator's output."""
    program = f"import os, sys; os.write(1, {text!r}); sys.exit({exit_code})"
    with Popen([sys.executable, "-S", "-c", program], stdout=PIPE, stderr=PIPE, text=True) as child:
        assert child.stdout is not None
        anything: Any = connection
        copy_rows(anything, Rows(child.stdout.fileno(), tables, child))


@pytest.fixture(scope="module")
def stream() -> bytes:
    return b"".join(_HEADERS[table] + b"".join(_ROWS[table]) for table in ("orders", "lineitem", "nation", "region"))


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 18])
def test_each_table_gets_its_rows_wherever_pieces_end(
    piece: int, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "_PIECE", piece)
    connection = Connection()
    copy(stream, list(_ROWS), connection)
    assert connection.copied == {table: b"".join(rows) for table, rows in _ROWS.items()}


def test_a_generator_that_fails_completes_no_copy_but_those_before(stream: bytes) -> None:
    connection = Connection()
    with pytest.raises(OctavoError, match="tpchgen-cli failed \\(exit 3\\) at orders, lineitem: no output"):
        copy(stream[: stream.index(b"2,b")], ["orders", "lineitem"], connection, exit_code=3)
    assert list(connection.copied) == ["orders"]


def test_a_row_without_an_end_is_not_left_out_in_silence(stream: bytes) -> None:
    connection = Connection()
    with pytest.raises(OctavoError, match="in the middle of a row"):
        copy(stream[:-2], list(_ROWS), connection)
    assert "region" not in connection.copied


def test_a_table_of_which_nothing_came_is_named(stream: bytes) -> None:
    with pytest.raises(OctavoError, match="wrote nothing of part, supplier"):
        copy(stream, [*_ROWS, "supplier", "part"], Connection())


@given(st.lists(st.sampled_from(sorted(_ROWS)), unique=True), st.integers(1, 64))
def test_no_byte_is_lost_or_moved(tables: list[str], size: int) -> None:
    text = b"".join(_HEADERS[table] + b"".join(_ROWS[table]) for table in tables)
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    connection: Any = Connection()
    child: Any = Ended()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(reading, closefd=True):
        patch.setattr(generator, "_PIECE", size)
        copy_rows(connection, Rows(reading, tables, child))
    assert connection.copied == {table: b"".join(_ROWS[table]) for table in tables}


@pytest.mark.parametrize(
    ("text", "code", "problem"),
    [
        (b"", 137, r"tpchgen-cli failed \(exit 137\) at orders: no output"),
        (b"o_orderkey,o_custkey,o_comment\n1,2,a\n2", 137, r"tpchgen-cli failed \(exit 137\) at orders"),
        (b"o_orderkey,o_custkey,o_comment\n1,2,a\n2,", 0, "tpchgen-cli ended in the middle of a row"),
        (b"", 0, "tpchgen-cli ended in the middle of a row"),
    ],
)
def test_a_generator_that_was_cut_off_gives_no_answer(
    text: bytes, code: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is that of the generator, not an IndexError or StopIteration of ours."""

    def lent_program(server: object) -> AbstractContextManager[None]:
        return nullcontext()

    answers: dict[str, tuple[tuple[str, str], ...]] = {}
    monkeypatch.setattr(orders_by_customer, "_answers", answers)
    monkeypatch.setattr(generator, "lent_program", lent_program)
    program = f"import os, sys; os.write(1, {text!r}); sys.exit({code})"

    @contextmanager
    def stream(*_: object) -> Generator[Rows, None, None]:
        with Popen([sys.executable, "-S", "-c", program], stdout=PIPE, stderr=PIPE, text=True) as child:
            assert child.stdout is not None
            yield Rows(child.stdout.fileno(), ["orders"], child)

    monkeypatch.setattr(generator, "stream", stream)
    server: Any = None
    with pytest.raises(OctavoError, match=problem):
        orders_by_customer.answer(server, "0.01")
    assert not answers


def test_orders_are_counted_by_customer_without_special_requests() -> None:
    counts = array("l", [0] * 4)
    rows = [
        ["o_orderkey", "o_custkey", "o_comment"],
        ["1", "2", "x"],
        ["2", "2", "special or requests"],
        ["3", "2", ""],
    ]
    orders_by_customer.count(iter(rows), counts)
    assert list(counts) == [0, 0, 2, 0]
