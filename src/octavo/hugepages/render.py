"""The documents of plan, apply and verify for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octavo.hugepages.advice import SYSCTL_FILE
from octavo.units import format_size, human_size

if TYPE_CHECKING:
    from rich.console import Console


def print_plan(document: dict[str, Any], screen: "Console") -> None:
    """The plan: needs and pools, page tables, the cross-check, limits, what to do."""
    server = document["server"]
    if server is None:
        print("No server given (--pgdata or --dsn): host only.")
    else:
        _say(
            screen,
            f"PostgreSQL {server['version']}: {human_size(server['shared_memory_bytes'])} of shared memory, "
            f"{human_size(server['shared_buffers_bytes'])} of it shared_buffers; {_settings(server)}",
        )
        _say(screen, f"source: {server['source']}")
        if document["not_here"]:
            _say(screen, f"The pools are this host's, not the server's: {document['not_here']}; run this on its host.")
    _print_pools(screen, document)
    if server is not None and document["here"]:
        _print_page_tables(screen, document["page_tables"])
        _print_seen(screen, document)
    _print_limits(screen, document["limits"])
    if server is not None and document["here"]:
        _print_advice(screen, document)


def print_apply(document: dict[str, Any], screen: "Console") -> None:
    """Prints requested and allocated pages, with the names of /proc/meminfo."""
    size = human_size(document["page_bytes"])
    if document["asked_pages"] == 0:
        _say(
            screen,
            f"nothing to do: {document['needed_pages']} pages of {size} are available for the server, unless another "
            "one that is stopped now takes them first",
        )
    else:
        kept = document["surplus_kept_pages"]
        surplus = f", {kept} of them surplus pages that are now kept" if kept else ""
        print(
            f"{document['asked_pages']} more huge pages of {size} requested, {document['given_pages']} given{surplus}"
        )
    _print_table(
        screen,
        ("", "Total", "Free", "Rsvd", "Surp"),
        [(name, *_counts(document[name])) for name in ("before", "after")],
    )
    if document["asked_pages"]:
        _say(
            screen,
            "until the next boot; octavo hugepages plan shows how to keep them, octavo hugepages undo returns them",
        )
    _print_limits(screen, [one for one in document["limits"] if one["severity"] != "note"])


def print_verify(document: dict[str, Any], screen: "Console") -> None:
    """The checks, and what to do about those that are not ok."""
    rows = [(one["check"], one["result"], one["found"]) for one in document["checks"]]
    if document["pool"]:
        size = human_size(document["page_bytes"])
        print(f"Pool of {size}: Total {{}}, Free {{}}, Rsvd {{}}, Surp {{}}".format(*_counts(document["pool"])))
    _print_table(screen, ("check", "", "found"), rows, left=3)
    for one in document["checks"]:
        if one["fix"]:
            _say(screen, f"{one['check']}: to do: {one['fix']}")


def _print_limits(screen: "Console", limits: Sequence[dict[str, Any]]) -> None:
    if limits:
        print("\nLimits")
    for one in limits:
        fix = f" To do: {one['fix']}." if one["fix"] else ""
        _say(screen, f"{one['severity']}: {one['limit']}: {one['found']}; {one['consequence']}.{fix}")


def _settings(server: dict[str, Any]) -> str:
    size = server["huge_page_size_bytes"]
    words = [f"huge_pages = {server['huge_pages']}"]
    if size:
        words.append(f"huge_page_size = {format_size(size)}")
    if server["huge_pages_status"]:
        words.append(f"huge_pages_status = {server['huge_pages_status']}")
    return ", ".join(words)


def _print_pools(screen: "Console", document: dict[str, Any]) -> None:
    needed = {one["page_bytes"]: one for one in document["needed"]}
    rows: list[tuple[str, ...]] = []
    for pool in document["pools"]:
        row = (_page_name(pool["page_bytes"], document), *_counts(pool))
        if one := needed.get(pool["page_bytes"]):
            row += (f"{one['pages']:,}", human_size(one["unused_bytes"]))
            row += (f"{one['pool_pages']:,}", f"{one['short_pages']:,}") if document["here"] else ()
        rows.append(row)
    extra = ("needed", "unused", *(("pool to set", "more") if document["here"] else ())) if needed else ()
    print("\nHuge pages: the pools as they are" + (", and for this server" if needed else ""))
    _print_table(screen, ("page", "Total", "Free", "Rsvd", "Surp", *extra), rows)
    for pool in document["pools"]:
        if len(pool["nodes"]) > 1 and pool["total"]:
            nodes = ", ".join(f"node {one['node']}: {one['total']} ({one['free']} free)" for one in pool["nodes"])
            _say(screen, f"{human_size(pool['page_bytes'])} by NUMA node: {nodes}")
    if needed:
        words = "* the chosen size; unused: rest of the last page"
        _say(screen, f"{words}; pool to set: includes pages of others" if document["here"] else words)


def _print_page_tables(screen: "Console", tables: dict[str, Any]) -> None:
    count = tables["connections"]
    print()
    _say(screen, f"Page tables when {count:,} backends have touched all of shared memory (predicted)")
    if not tables["predictions"]:
        print("not predicted for this CPU architecture")
        return
    rows = [
        (format_size(one["page_bytes"]), human_size(one["each_backend_bytes"]), human_size(one["all_backends_bytes"]))
        for one in tables["predictions"]
    ]
    _print_table(screen, ("page", "each backend", "all"), rows)
    if tables["measured_bytes"] is not None:
        print(f"now: {human_size(tables['measured_bytes'])} in {tables['measured_processes']} processes (VmPTE)")


def _print_seen(screen: "Console", document: dict[str, Any]) -> None:
    seen = document["seen"]
    if seen is None:
        return
    size = human_size(seen["page_bytes"])
    print("\nCompared with the recipe VmPeak / page size")
    asked, needed, over = seen["vm_peak_pages"], seen["needed_pages"], seen["over_asked_pages"]
    verdict = (
        f"{over:,} ({human_size(seen['over_asked_bytes'])}) more than the {needed:,} needed, because VmPeak counts "
        "the most memory that the postmaster ever had mapped."
        if over >= 0
        else f"fewer than the {needed:,} needed, because it rounds down. The server would not get its pages."
    )
    _say(screen, f"VmPeak is {human_size(seen['vm_peak_bytes'])}, so {asked:,} pages of {size}: {verdict}")
    if seen["parts_bytes"] is None:
        _say(screen, "smaps has the split, but only the server's user and root may read it.")
        return
    parts = ", ".join(f"{human_size(size)} {name}" for name, size in seen["parts_bytes"].items())
    _say(screen, f"smaps: {parts}. Shared memory is in pages of {_known(seen['shared_memory_page_bytes'])}.")


def _print_advice(screen: "Console", document: dict[str, Any]) -> None:
    page = document["page_bytes"]
    print(f"\nTo do, with pages of {human_size(page)}")
    chosen = next(one for one in document["advice"] if one["page_bytes"] == page)
    if not chosen["fits_memory"]:
        _say(
            screen,
            f"at boot: nothing. {chosen['pool_pages']:,} of these pages are more than 90 % of this machine's memory "
            "without the pools of other sizes; the kernel would allocate as many as it can, and the machine might not "
            "boot.",
        )
    elif chosen["sysctl"]:
        print(f"at boot, in {SYSCTL_FILE}:")
        for line in chosen["sysctl"]:
            print(f"    {line}")
        if chosen["set_again_by"]:
            _say(screen, f"and the same in {chosen['set_again_by']}, which sets the pool too and is read after it")
        print(f"or on the kernel's command line:\n    {chosen['kernel_command_line']}")
    else:
        print(f"at boot, on the kernel's command line:\n    {chosen['kernel_command_line']}")
    if spare := chosen["unclaimed_pages"]:
        _say(
            screen,
            f"{spare:,} of these are in the pool now, unused and not needed by this server; if no other "
            f"program needs them, {chosen['pool_pages'] - spare:,} are enough.",
        )
    print("now, as root: octavo hugepages apply (the same options)")
    print("in postgresql.conf, once the pages are allocated:")
    for line in chosen["postgresql_conf"]:
        print(f"    {line}")
    for other in document["advice"]:
        if other is not chosen:
            lines = "; ".join(other["postgresql_conf"])
            why = ", at boot, before memory is fragmented" if other["boot_only"] else ""
            print(f"With pages of {human_size(other['page_bytes'])}{why}:")
            print(f"    {other['kernel_command_line'] or 'more than 90 % of the memory: not available'}")
            print(f"    {lines}")
    print("\nIf the pages are not available")
    for setting in ("on", "try"):
        _say(screen, f"huge_pages = {setting}: {document['huge_pages'][setting]}.")
    _say(screen, f"Either way, {document['huge_pages']['either']}.")


def _page_name(page: int, document: dict[str, Any]) -> str:
    return format_size(page) + ("*" if document["needed"] and page == document["page_bytes"] else "")


def _known(size: int | None) -> str:
    return "a size that was not found" if size is None else human_size(size)


def _counts(pool: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{pool[name]:,}" for name in ("total", "free", "reserved", "surplus"))


def _say(screen: "Console", text: str) -> None:
    """A sentence, broken between words where the terminal ends."""
    screen.print(text, soft_wrap=False)


def _print_table(screen: "Console", columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int = 1) -> None:
    """A table whose first columns are words, and the others numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="left" if at < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen.print(table)
