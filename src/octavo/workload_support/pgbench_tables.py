"""pgbench's tables: how many accounts, how wide their rows, how full their pages; and what they take on disk.

Sizes follow from the page layout (PostgreSQL's documentation, "Database Page Layout"; src/include/access/htup_details.h
and itup.h): a page begins with 24 bytes, each row takes 4 bytes for its pointer and is aligned to 8, the index on the
account's number has entries of 20 bytes on pages that are filled to 90 % after a special space of 16 bytes.

Scales in words are those of T. Vondra's talk "Postgres vs. page sizes" (2022): small fits shared_buffers, medium fits
memory but not shared_buffers, large exceeds memory. They are computed from the cell's own shared_buffers and memory,
and from the rows but not from the data block, so that all blocks have the same accounts.
"""

import math
import os

from octavo.errors import UsageError
from octavo.factor import Check, Factor, whole_number
from octavo.host import children
from octavo.postgres.cluster import Server
from octavo.units import human_size, parse_size
from octavo.workloads.base import Levels

ACCOUNTS = 100_000  # pgbench's own, for each unit of scale
_PAGE_HEADER, _POINTER, _SPECIAL, _ALIGNMENT = 24, 4, 16, 8
_INDEX_ENTRY, _INDEX_FILL = 20, 0.9
# A row as pgbench makes it: a header of 24 bytes, three int4, and char(84) with a header of 1 byte; a filler that is
# never compressed (storage PLAIN) has a header of 4.
_OWN_WIDTH = 121
_AROUND_FILLER = 24 + 3 * 4 + 4
# The largest row of a page is that much smaller than it (MaxHeapTupleSize, htup_details.h).
_AROUND_ROW = 32
_WIDEST = 32 * 1024 - _AROUND_ROW

_WORDS = ("small", "medium", "large")
_SMALL_SHARE = 0.5  # of shared_buffers: updates make the tables grow
_LARGE_TIMES = 2.0  # memory, about as in the talk (120 GB on a machine of 64 GB)
_LEAST_TIMES = 4  # shared_buffers, in memory that is to hold a medium database beside them


def _scale() -> Check:
    number = whole_number(1, 1_000_000)

    def check(text: str) -> str:
        try:
            return text if text in _WORDS else number(text)
        except UsageError as error:
            raise UsageError(f"{error}, or {', '.join(_WORDS)}") from None

    return check


FACTORS = (
    Factor("scale", "cluster", "pgbench's scale: 100,000 accounts each; small, medium and large "
           "depend on shared_buffers and memory", "25", _scale()),
    Factor("row_width", "cluster", "bytes of a row of pgbench_accounts, header included", str(_OWN_WIDTH),
           whole_number(_AROUND_FILLER + 1, _WIDEST)),
    Factor("fillfactor", "cluster", "percent of a table's page that loading fills", "100", whole_number(10, 100)),
)  # fmt: skip


def contents(levels: Levels) -> tuple[tuple[str, str], ...]:
    """The factors that a dataset depends on. pgbench's defaults are left out, so that older loads remain valid."""
    own = {"row_width": str(_OWN_WIDTH), "fillfactor": "100"}
    changed = tuple((name, levels[name]) for name in own if levels.get(name, own[name]) != own[name])
    return (("scale", str(scale_of(levels))), *changed)


def scale_of(levels: Levels) -> int:
    """pgbench's scale for a cell. Raises UsageError if its memory has no room for the scale that a word means."""
    text = levels["scale"]
    if text not in _WORDS:
        return int(text)
    buffers, memory = parse_size(levels["shared_buffers"]), _memory_bytes(levels)
    if text == "medium" and memory < _LEAST_TIMES * buffers:
        raise UsageError(
            f"scale medium has to fit memory but not shared_buffers: {human_size(memory)} of memory are less than "
            f"{_LEAST_TIMES} times shared_buffers of {levels['shared_buffers']}; give it more memory"
        )
    wanted = {"small": _SMALL_SHARE * buffers, "medium": math.sqrt(buffers * memory), "large": _LARGE_TIMES * memory}
    row = _aligned_row(levels) * 100 / _fillfactor(levels) + _INDEX_ENTRY / _INDEX_FILL
    scale = math.floor(wanted[text] / (ACCOUNTS * row))
    if scale < 1:
        raise UsageError(
            f"scale {text}: {human_size(int(wanted[text]))} are less than pgbench's scale 1 with such rows, "
            f"{human_size(int(ACCOUNTS * row))}; raise shared_buffers"
        )
    return scale


def database_bytes(levels: Levels) -> int:
    """The size of freshly loaded accounts and their index at the cell's data block, in bytes."""
    block = parse_size(levels["data_block"])
    kept_free = block * (100 - _fillfactor(levels)) // 100
    rows = max(1, (block - _PAGE_HEADER - kept_free) // _aligned_row(levels))
    entries = math.floor((block - _PAGE_HEADER - _SPECIAL) * _INDEX_FILL / _INDEX_ENTRY)
    accounts = scale_of(levels) * ACCOUNTS
    return (math.ceil(accounts / rows) + math.ceil(accounts / entries * (1 + 1 / entries))) * block


def impossible(levels: Levels) -> str | None:
    """Why pgbench cannot have such rows, or None: a row that is wider than its page. For every workload's levels."""
    most = parse_size(levels["data_block"]) - _AROUND_ROW
    width = int(levels.get("row_width", _OWN_WIDTH))
    if width > most:
        return f"a row of {width} bytes does not fit a page of {levels['data_block']}, which holds {most}"
    return None


def make(server: Server, levels: Levels) -> None:
    """pgbench -i, its rows generated on the client, with primary keys and without foreign keys.

    A filler of another width is stored as it is: compressed blanks would take no room. Raises OctavoError.
    """
    scale = f"--scale={scale_of(levels)}"
    width = int(levels.get("row_width", _OWN_WIDTH))
    if width == _OWN_WIDTH:
        _initialize(server, "dtgp", scale, levels)
        return
    _initialize(server, "dt", scale, levels)
    server.execute(f"ALTER TABLE pgbench_accounts ALTER filler TYPE char({width - _AROUND_FILLER})")
    server.execute("ALTER TABLE pgbench_accounts ALTER filler SET STORAGE PLAIN")
    _initialize(server, "gp", scale, levels)


def _initialize(server: Server, steps: str, scale: str, levels: Levels) -> None:
    finished = server.run_client(
        "pgbench", "--initialize", "--quiet", f"--init-steps={steps}", scale, f"--fillfactor={_fillfactor(levels)}"
    )
    children.check(finished, "pgbench --initialize")


def _memory_bytes(levels: Levels) -> int:
    """The server's memory: its limit, else the machine's."""
    if levels["memory"] != "none":
        return parse_size(levels["memory"])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _fillfactor(levels: Levels) -> int:
    return int(levels.get("fillfactor", "100"))


def _aligned_row(levels: Levels) -> int:
    width = int(levels.get("row_width", _OWN_WIDTH))
    return -(-width // _ALIGNMENT) * _ALIGNMENT + _POINTER
