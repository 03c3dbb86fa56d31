"""Taking the pages a server needs, on top of what is in use; giving them back.

The change is in the journal while it is made, so that a killed command leaves nothing. Once it is whole it is kept in
`huge_pages.json` in OCTAVO_HOME until `undo` or the next boot: no later command puts it back by itself.
"""

import json
import os
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home, write_durably
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, undo_value
from octavo.host.lock import host_lock
from octavo.host.process import boot_id
from octavo.host.undo import Entry, Undone
from octavo.hugepages.pool import PoolState, meminfo, pool_file, read_pool
from octavo.units import format_size, human_size

_ROOT = Path("/")


def apply(page: int, needed: int, own: int, root: Path = _ROOT) -> dict[str, Any]:
    """Makes the pool of this page size large enough that a server gets `needed` pages, of which it holds `own` now.

    Raises HostError without the right or the memory, or when the kernel gave fewer; the pool is then as it was.
    """
    sys = root / "sys"
    file = pool_file(page, sys)
    before = read_pool(page, sys)
    if before.short(needed, own) == 0:
        return _document(before, before, needed, 0)
    _check_rights(file)
    with host_lock(), Journal() as journal:
        before = read_pool(page, sys)
        short = before.short(needed, own)
        _check_memory(short * page, root)
        target = before.target(needed, own)
        value = KernelValue(file)
        entry: Entry = {
            "path": str(file), "form": "plain", "device": "", "found": str(before.persistent), "set": str(target),
            "ours": [before.persistent, target], "boot_id": boot_id(),
        }  # fmt: skip
        number = journal.record("value", **entry)
        try:
            value.write(str(target))
        except OSError as error:
            raise HostError(f"the kernel refuses {target} for {value}: {error.strerror}") from error
        after = read_pool(page, sys)
        if after.persistent < target:
            came = after.persistent - before.persistent
            why = _why_fewer(page, root)
            journal.undo(number)
            raise HostError(
                f"asked for {short} more huge pages of {format_size(page)}, {came} came, and were given back: {why}"
            )
        entry |= {"set": value.read(), "ours": None}
        _keep([*kept(), entry])
        journal.done(number)
        return _document(before, after, needed, short)


def undo(root: Path = _ROOT) -> list[Undone]:
    """Puts the pools back that `apply` changed, the last first; one that somebody has changed since is left.

    Raises HostError when a server still uses the pages, or without the right.
    """
    told: list[Undone] = []
    if not kept():
        return told
    with host_lock():
        entries = kept()
        while entries:
            entry = entries[-1]
            if entry["boot_id"] == boot_id():
                _check_rights(Path(entry["path"]))
                _check_unused(entry, root)
            became = undo_value(entry)
            if became is not None and became.what == "failed":
                raise OctavoError(became.line.replace("octavo host restore tries again", "octavo hugepages undo again"))
            if became is not None:
                told.append(became)
            entries.pop()
            _keep(entries)
    return told


def kept() -> list[Entry]:
    """What was applied and not undone."""
    try:
        return json.loads(_record().read_text())["applied"]
    except FileNotFoundError:
        return []


def _keep(entries: list[Entry]) -> None:
    if entries:
        write_durably(_record(), json.dumps({"schema_version": 1, "applied": entries}))
    else:
        _record().unlink(missing_ok=True)


def _record() -> Path:
    return octavo_home() / "huge_pages.json"


def _check_rights(file: Path) -> None:
    if os.access(file, os.W_OK):
        return
    if os.geteuid() != 0:
        raise HostError("changing the pool needs root; octavo hugepages plan works without")
    raise HostError(f"{file} cannot be written (a container?); do it on the host")


def _check_memory(more: int, root: Path) -> None:
    available = meminfo("MemAvailable", root / "proc")
    if more > available:
        raise HostError(
            f"{human_size(more)} more in huge pages are needed and {human_size(available)} of memory are available; "
            "lower shared_buffers, or stop what uses the memory"
        )


def _check_unused(entry: Entry, root: Path) -> None:
    """Pages in use would live on as surplus ones, and be lost to their server at its next start."""
    page = int(Path(entry["path"]).parent.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
    pool = read_pool(page, root / "sys")
    now = KernelValue(Path(entry["path"])).read()
    if now == entry["set"] and pool.in_use > int(entry["found"]):
        raise HostError(
            f"{pool.in_use} of the {pool.total} pages of {format_size(page)} are in use, {entry['found']} would stay; "
            "stop the server that uses them first"
        )


def _why_fewer(page: int, root: Path) -> str:
    """What stands in the way: too little free memory, or memory in pieces smaller than a page."""
    free = meminfo("MemFree", root / "proc")
    whole = free_blocks(page, root)
    pieces = "" if whole is None else f", {whole} free pieces that large left"
    return (
        f"memory is in pieces ({human_size(free)} free{pieces}); echo 1 > /proc/sys/vm/compact_memory and try again, "
        "or take them at boot, as octavo hugepages plan shows"
    )


def free_blocks(page: int, root: Path = _ROOT) -> int | None:
    """Free pieces of memory that hold such a page, by /proc/buddyinfo; None where pages are larger than its pieces.

    Its columns are the free pieces of 1, 2, 4 … memory pages (proc_buddyinfo(5)); they are gone while they are counted.
    """
    order = (page // os.sysconf("SC_PAGE_SIZE")).bit_length() - 1
    try:
        rows = [line.split()[4:] for line in (root / "proc/buddyinfo").read_text().splitlines()]
    except OSError:
        return None
    if any(order >= len(row) for row in rows):
        return None
    return sum(int(count) << (at - order) for row in rows for at, count in enumerate(row) if at >= order)


def _document(before: PoolState, after: PoolState, needed: int, short: int) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "page_bytes": before.page,
        "needed_pages": needed,
        "asked_pages": short,
        "given_pages": after.persistent - before.persistent,
        "before": before.as_dict(),
        "after": after.as_dict(),
    }
