"""Whether a running server uses huge pages, and will use them after its next start and the next boot."""

from pathlib import Path
from typing import Any

from octavo.hugepages.boot import at_boot
from octavo.hugepages.limits import find_limits
from octavo.hugepages.plan import Situation
from octavo.units import human_size

_ROOT = Path("/")
_ON = (
    "once the pool is there after each boot (next boot, above): ALTER SYSTEM SET huge_pages = on; with fewer pages the "
    "server then does not start"
)

_OTHER = "SELECT setting FROM pg_file_settings WHERE name = 'huge_pages' shows it"


def document(situation: Situation, root: Path = _ROOT) -> dict[str, Any]:
    """`checks[]`, each `ok`, `bad` or `note` (cannot be told, or no fault of today), and `ok` when none is bad."""
    server = situation.server
    assert server is not None
    checks = [_in_use(situation)]
    if server.postmaster is not None:
        checks += [_page(situation), _limits(situation, root), _surplus(situation)]
        checks += [_restart(situation), _boot(situation, root)]
    checks.append(_setting(situation))
    return {
        "schema_version": 1,
        "ok": all(one["result"] != "bad" for one in checks),
        "page_bytes": situation.page,
        "server": server.as_dict(),
        "pool": situation.pool().as_dict() if server.postmaster is not None else None,
        "checks": checks,
    }


def _check(name: str, result: bool | None, found: str, fix: str = "") -> dict[str, str]:
    word = "note" if result is None else "ok" if result else "bad"
    return {"check": name, "result": word, "found": found, "fix": "" if result else fix}


def _in_use(situation: Situation) -> dict[str, str]:
    server, seen = situation.server, situation.seen
    assert server is not None
    fix = "octavo hugepages plan and apply, then restart the server"
    if server.status in ("on", "off"):
        return _check("in use", server.status == "on", f"huge_pages_status = {server.status}", fix)
    if seen is not None and seen.page is not None:
        return _check("in use", seen.page in _sizes(situation), f"smaps: pages of {human_size(seen.page)}", fix)
    if seen is not None:
        huge = human_size(seen.huge)
        return _check("in use", seen.huge > 0, f"the postmaster has {huge} of huge pages (HugetlbPages)", fix)
    return _check(
        "in use", None, f"huge_pages_status exists from 17 on, and {server.unseen}", "run this on the server's host"
    )


def _page(situation: Situation) -> dict[str, str]:
    seen = situation.seen
    if seen is None or seen.page is None:
        return _check("page size", None, "only the server's user and root may read smaps")
    wanted = human_size(situation.page)
    found = f"shared memory in pages of {human_size(seen.page)}, intended: {wanted}"
    return _check("page size", seen.page == situation.page, found, "restart the server once the pool is there")


def _limits(situation: Situation, root: Path) -> dict[str, str]:
    found = [
        one for one in find_limits(situation.server, situation.pool(), situation.own(situation.page), root)
        if one.severity == "error"
    ]  # fmt: skip
    text = "; ".join(f"{one.limit}: {one.found}; {one.consequence}" for one in found)
    return _check("limits", not found, text or "nothing here prevents them", "; ".join(one.fix for one in found))


def _surplus(situation: Situation) -> dict[str, str]:
    pool = situation.pool()
    found = f"{pool.surplus} of {pool.total} pages are beyond the pool (HugePages_Surp), {pool.reserved} reserved"
    fix = f"raise the pool to {pool.total}: surplus pages are freed with their user"
    return _check("surplus", True if pool.surplus == 0 else None, found, fix)


def _needed(situation: Situation) -> tuple[int, int]:
    """The pages of a start with the settings in force, and those that are held now.

    PostgreSQL's number is one more than it maps where its memory is a multiple of the page: a server that runs on one
    page less needs no more than that.
    """
    server, pool = situation.server, situation.pool()
    assert server is not None
    needed, own = server.pages[pool.page], situation.own(pool.page)
    return (own if own == needed - 1 else needed), own


def _restart(situation: Situation) -> dict[str, str]:
    server, pool = situation.server, situation.pool()
    assert server is not None
    needed, own = _needed(situation)
    found = f"{needed} pages needed, {own} held, {pool.available} available, {pool.surplus} surplus"
    does = pool.short(needed, own) == 0
    if server.unsettled:
        found += f"; not counted: settings that wait for the restart ({', '.join(server.unsettled)})"
        fix = "stop it, and octavo hugepages plan --pgdata shows its need with them"
        return _check("next start", None if does else False, found, fix)
    return _check("next start", does, found, "octavo hugepages apply")


def _boot(situation: Situation, root: Path) -> dict[str, str]:
    pool = situation.pool()
    needed = pool.target(*_needed(situation))
    message = at_boot(pool.page, situation.default, root)
    if message is None:
        return _check("next boot", None, "nothing sets the pool at boot", "the lines that octavo hugepages plan shows")
    found = (
        f"{message.said_by}: {message.pages} pages of {human_size(pool.page)}, {needed} with those that others use now"
    )
    fix = f"at least {needed}, as octavo hugepages plan shows"
    return _check("next boot", True if message.pages >= needed else None, found, fix)


def _setting(situation: Situation) -> dict[str, str]:
    server = situation.server
    assert server is not None
    found = f"huge_pages = {server.huge_pages}"
    if "huge_pages" in server.pending:
        return _check("setting", None, f"{found}, and another value waits for the restart", _OTHER)
    if server.huge_pages == "try":
        found += ": without the pages it would silently start with small ones"
        return _check("setting", None, found, _ON)
    return _check("setting", server.huge_pages == "on", found, _ON)


def _sizes(situation: Situation) -> set[int]:
    return {pool.page for pool in situation.pools}
