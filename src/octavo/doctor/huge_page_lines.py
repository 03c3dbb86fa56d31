"""The lines that give a server its huge pages: the advice of `octavo hugepages plan`, from facts."""

from octavo.doctor.amounts import HugePages, pools
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import Line, on_the_host
from octavo.hugepages.advice import SYSCTL_FILE, advise, kernel_command_line, settings
from octavo.hugepages.boot import is_read_after
from octavo.hugepages.limits import kubernetes_resource
from octavo.hugepages.pool import pool_file, room_for_pool
from octavo.text import one_line
from octavo.units import human_size

_STRICT = 2  # vm.overcommit_memory


def lines_to_take(asked: RuleFacts, wanted: HugePages) -> tuple[Line, ...]:
    """The exact lines, and where to write them."""
    pool = wanted.pool
    asked.text("setting.huge_pages")  # for the evidence: its source may take precedence over the line
    others = sum(one.total * one.page for one in pools(asked) if one.page != pool.page)
    memory = asked.whole("host.memory.total_bytes") - others
    told = advise(pool, wanted.needed, wanted.held, pool.page, wanted.default, memory)
    if not told["fits_memory"]:
        return (
            f"# {wanted.needed:,} pages are more than nine tenths of the memory without the pools of other sizes: "
            "lower shared_buffers, or reduce those, first",
        )
    stop, sets = _stop_first(asked, wanted), settings(pool.page, pool.page, wanted.default)
    return (
        *(sets if stop else ()),  # while there is a server for ALTER SYSTEM
        *on_the_host(asked),
        *stop,
        *lines_to_set(asked, wanted, told["pool_pages"]),
        f"cat {told['sysfs']}   # restart only when it prints {told['pool_pages']}: with fewer pages it does not "
        "start. For another server on this host run octavo doctor again then",
        *_pod(asked, wanted),
        *(() if stop else sets),
    )


def lines_to_set(asked: RuleFacts, wanted: HugePages, pages: int) -> list[str]:
    """The lines that set the pool to so many pages now and at boot, there also in the file that would replace it."""
    page = wanted.pool.page
    if page != wanted.default:
        line = kernel_command_line(page, pages)
        return [f"echo {pages} > {pool_file(page)}", f"# for the next boot, on the kernel's command line: {line}"]
    rows = asked.rows("host.huge.at_boot") if asked.has("host.huge.at_boot") else []
    said = [one_line(one["said_by"]) for one in rows if one["page_bytes"] == page]
    return [
        f"echo 'vm.nr_hugepages = {pages}' > {SYSCTL_FILE} && sysctl -p {SYSCTL_FILE}",
        *(
            f"# and the same in {one}, which is read after it at boot"
            for one in said
            if is_read_after(one, SYSCTL_FILE)
        ),
    ]


def _stop_first(asked: RuleFacts, wanted: HugePages) -> tuple[str, ...]:
    """A comment where the running host has not the memory for more pages, as the server's small ones are still there,
    or where strict accounting would then refuse every allocation.

    The kernel would evict the page cache and swap while it tries (limits of `octavo hugepages plan`).
    """
    more = wanted.pool.to_allocate(wanted.needed, wanted.held) * wanted.pool.page
    available = asked.whole_or_none("host.memory.available_bytes")
    if available is not None and more > room_for_pool(available, asked.whole("host.memory.total_bytes")):
        why = f"{human_size(available)} are available"
    elif more and _is_refused(asked, more):
        why = "CommitLimit would fall below Committed_AS"
    else:
        return ()
    if not asked.has("host.process.count"):
        return (f"# first free memory: the pool takes {human_size(more)} more, and {why}",)
    return (f"# then stop the server: the pool takes {human_size(more)} more, and while it runs {why}",)


def _is_refused(asked: RuleFacts, more: int) -> bool:
    """Whether CommitLimit, which the pool lowers, would be less than what is committed (vm_commit_limit())."""
    names = ("commit_limit_bytes", "committed_bytes", "overcommit_ratio")
    limit, committed, ratio = (asked.whole_or_none(f"host.memory.{name}") for name in names)
    if asked.whole_or_none("host.memory.overcommit") != _STRICT or limit is None or committed is None:
        return False
    return limit - more * (ratio or 0) // 100 < committed


def _pod(asked: RuleFacts, wanted: HugePages) -> tuple[str, ...]:
    if asked.text_or_none("host.container") != "Kubernetes":
        return ()
    return (f"# in the pod: resources: {{limits: {{{kubernetes_resource(wanted.pool.page, wanted.needed)}}}}}",)
