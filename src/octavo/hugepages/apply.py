"""Allocating the pages that a server needs, in addition to those in use; returning them.

The change is in the journal while it is made, so that a killed command leaves nothing. Once complete it is recorded in
`huge_pages.json` in OCTAVO_HOME until `undo` or the next boot: no other command undoes it.
"""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from octavo.errors import HostError
from octavo.home import octavo_home, write_durably
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.host.lock import host_lock
from octavo.host.process import boot_id
from octavo.host.safe_read import read_text
from octavo.host.trusted_paths import NotOursError, kernel_path
from octavo.host.undo import Entry, Undone
from octavo.hugepages.limits import overcommit
from octavo.hugepages.pool import MORE_MEMORY, PoolState, meminfo, memory_to_take, pool_file, read_pool
from octavo.units import human_size

_ROOT = Path("/")
_MOST_BYTES = 1024**2


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
        applied = kept()
        before = read_pool(page, sys)
        short = before.short(needed, own)
        if short == 0:  # enlarged meanwhile, perhaps for another server: the target would take its pages
            return _document(before, before, needed, 0)
        _check_memory(before.to_allocate(needed, own) * page, root)
        _check_overcommit(before, needed, own, root)
        target = before.target(needed, own)
        entry: Entry = {
            "id": uuid.uuid4().hex, "path": str(file), "found": str(before.persistent), "set": str(target),
            "surplus": before.surplus, "ours": [before.persistent, target], "boot_id": boot_id(),
        }  # fmt: skip
        number = journal.record("huge_pages", **entry)
        try:
            KernelValue(file).write(str(target))
        except OSError as error:
            raise HostError(f"the kernel refuses {target} for {file}: {error.strerror}") from error
        after = read_pool(page, sys)
        if after.persistent < target:
            came, why = after.persistent - before.persistent, _why_fewer(page, root)
            journal.undo(number)
            kept_back = read_pool(page, sys).persistent - before.persistent
            returned = "returned them" if kept_back <= 0 else f"could return only {came - kept_back}"
            raise HostError(
                f"requested {short} more huge pages of {human_size(page)}, got {came} and {returned}: {why}"
            )
        entry |= {"set": str(after.persistent), "ours": None}
        _keep([*applied, entry])
        journal.done(number)
        return _document(before, after, needed, short)


def undo() -> list[Undone]:
    """Puts the pools back that `apply` changed, the last first; one that somebody has changed since is left.

    Ends at the first that cannot be put back, because a server uses its pages; that and those before it stay kept.
    Raises HostError without the right.
    """
    lines: list[Undone] = []
    if not kept():
        return lines
    with host_lock():
        entries = kept()
        while entries:
            if entries[-1]["boot_id"] == boot_id():
                _check_rights(Path(entries[-1]["path"]))
            became = _put_back(entries[-1], "octavo hugepages undo")
            if became is not None:
                lines.append(became)
                if became.what == "failed":
                    break
            entries.pop()
            _keep(entries)
    return lines


def undo_interrupted(entry: Entry) -> Undone | None:
    """For the journal: puts a pool back whose `apply` was killed before it was whole."""
    if any(one.get("id") == entry["id"] for one in kept()):
        return None
    return _put_back(entry, "octavo host restore")


def _put_back(entry: Entry, again: str) -> Undone | None:
    """Gives back pages that nobody uses. Those in use would live on as surplus, and be lost to a server's next start.

    What counts is how many pages stay without a user: the file's number has surplus ones in it.
    """
    file, found = Path(entry["path"]), int(entry["found"])
    if entry["boot_id"] != boot_id() or not file.exists():
        return None
    pool = _pool_of(file)
    now, ours = pool.persistent, entry["ours"]
    if now == found:
        return None
    if now != int(entry["set"]) and not (ours and ours[0] <= now <= ours[1]):
        return Undone(
            "left", f"left {file} at '{now}': it was '{found}', then '{entry['set']}', then changed by others"
        )
    if pool.in_use > found + entry.get("surplus", 0):
        return Undone(
            "failed",
            f"{pool.in_use} of the {pool.total} pages of {human_size(pool.page)} are in use, {found} would stay; "
            f"stop the server that uses them, then {again} again",
        )
    KernelValue(file).write(str(found))
    now = _pool_of(file).persistent
    if now != found:
        return Undone("failed", f"could not restore {file} to '{found}': it is '{now}'; {again} tries again")
    return Undone("put back", f"restored {file} to '{found}'")


def _pool_of(file: Path) -> PoolState:
    """The pool whose number of pages is in this file below …/kernel/mm/hugepages."""
    page = int(file.parent.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
    return read_pool(page, file.parents[4])


def kept() -> list[Entry]:
    """The changes that were applied and not undone. Raises HostError if their record is damaged, or names other files
    than the kernel's: for root it may be in a home of another user."""
    try:
        applied: list[Entry] = json.loads(read_text(_record(), _MOST_BYTES))["applied"]
        for entry in applied:
            kernel_path(entry["path"])
        return applied
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError, NotOursError) as error:
        raise HostError(f"{_record()} is damaged ({error}); check the pools in /proc/meminfo, then remove it") from None


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
        raise HostError("changing the pool needs root; octavo hugepages plan does not")
    raise HostError(f"{file} cannot be written (a container?); do it on the host")


def _check_memory(more: int, root: Path) -> None:
    there = memory_to_take(root)
    if more > there:
        raise HostError(
            f"{human_size(more)} more in huge pages are needed and {human_size(there)} of memory can be taken; "
            f"{MORE_MEMORY}"
        )


def _check_overcommit(pool: PoolState, needed: int, own: int, root: Path) -> None:
    for one in overcommit(pool, needed, own, root):
        if one.severity == "error":
            raise HostError(
                f"{one.found}; {one.consequence}: allocations would fail; {one.fix}, or stop the server first"
            )


def _why_fewer(page: int, root: Path) -> str:
    """What stands in the way: too little free memory, or memory in pieces smaller than a page."""
    free = meminfo("MemFree", root / "proc")
    whole = free_blocks(page, root)
    pieces = "" if whole is None else f", {whole} free blocks of that size left"
    return (
        f"memory is fragmented ({human_size(free)} free{pieces}); echo 1 > /proc/sys/vm/compact_memory and try again, "
        "or take them at boot, as octavo hugepages plan shows"
    )


def free_blocks(page: int, root: Path = _ROOT) -> int | None:
    """Free pieces of memory that hold such a page, by /proc/buddyinfo; None where pages are larger than its pieces.

    Its columns are the free pieces of 1, 2, 4 … memory pages (proc_buddyinfo(5)); they are gone while they are counted.
    """
    order = (page // os.sysconf("SC_PAGE_SIZE")).bit_length() - 1
    try:
        rows = [line.split()[4:] for line in (root / "proc/buddyinfo").read_bytes().splitlines()]
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
        "surplus_kept_pages": max(0, before.surplus - after.surplus) if short else 0,
        "before": before.as_dict(),
        "after": after.as_dict(),
    }
