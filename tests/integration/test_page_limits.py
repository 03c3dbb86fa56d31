"""The limits of a block size, as its server enforces them, compared with PostgreSQL's formulas and with the
document."""

import re
from pathlib import Path

import pytest

from octavo.check.limits import BlockLimits, expected, largest, markdown, measurable, measure
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.units import parse_size

pytestmark = pytest.mark.beside

DOCUMENT = Path(__file__).parents[2] / "docs" / "experiments" / "regression.md"


@pytest.fixture(scope="module")
def measured(home: Path) -> list[BlockLimits]:
    """Every data block of 18 that is in the cache with 8 kB WAL blocks."""
    del home  # the builds are in it
    builds = measurable("18")
    assert builds, "no build of 18 is in the cache"
    with Journal() as journal:
        return [measure(build, journal, server_account()) for build in builds]


def test_the_limits_are_those_of_the_source(measured: list[BlockLimits]) -> None:
    for limits in measured:
        found = {name: getattr(limits, name) for name in expected(limits)}
        assert found == expected(limits), f"at {limits.block} B"


def test_defaults_that_count_blocks_are_other_amounts_of_memory(measured: list[BlockLimits]) -> None:
    for limits in measured:
        assert limits.defaults["effective_cache_size"].default == 524288 * limits.block
        assert limits.defaults["temp_buffers"].default == 1024 * limits.block
        assert limits.defaults["shared_buffers"].least == 16 * limits.block
        # Declared in bytes and divided by the block size, so that they are constant.
        assert limits.defaults["min_parallel_table_scan_size"].default == 8 * 1024**2


def test_the_document_has_the_table_as_measured(measured: list[BlockLimits]) -> None:
    told = _columns(_table_with(DOCUMENT.read_text(), "largest row"))
    for block, cells in _columns(markdown(measured)).items():
        # The table has a row for a default only if it differs between the measured blocks.
        assert {name: told[block][name] for name in cells} == cells


def test_the_largest_number_that_works_is_found() -> None:
    for most in (1, 2, 17, 100):
        assert largest(lambda number, most=most: number <= most, 1, 100) == most


def _table_with(text: str, words: str) -> str:
    return next(table for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if words in table)


def _columns(table: str) -> dict[int, dict[str, str]]:
    """The columns of a Markdown table of blocks, by block: the content of each row."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    head, _, *body = rows
    return {parse_size(block): {row[0]: row[column] for row in body} for column, block in enumerate(head) if column}
