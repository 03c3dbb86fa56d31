"""How much memory khugepaged scans for pages to collapse."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.units import human_duration, human_size

_DIRECTORY = "/sys/kernel/mm/transparent_hugepage/khugepaged"
_ENTRY = 8  # bytes; a huge page has as many pages as a page has entries
# Its work is per page table entry, whatever the page size. By default it scans 8 times the pages of a huge page in 10
# s: 4,096 pages of 4 kB, 65,536 of 64 kB (khugepaged_init).
_MANY = 65_536


def _judge(asked: RuleFacts) -> Ok | Finding:
    mode = asked.text("host.thp.enabled")
    if mode == "never":
        return Ok("transparent huge pages are off")
    pages, pause = asked.whole("host.thp.khugepaged_pages_to_scan"), asked.whole("host.thp.khugepaged_pause_ms")
    page = asked.whole("host.memory.page_bytes")
    rate = pages * 1000 / pause if pause else None
    seen = f"khugepaged scans {pages:,} pages of {human_size(page)} every {pause:,} ms"
    if rate is not None and rate < _MANY:
        return Ok(seen)
    if rate is None:
        cores = asked.whole("host.cores")
        cost = f"it never pauses: one CPU of {cores:,} scans memory all the time, and locks what it visits"
    else:
        again = human_duration(asked.whole("host.memory.total_bytes") / (rate * page))
        cost = f"{rate:,.0f} pages/s, all memory of this host every {again}, while the server runs"
    default = 8 * (page // _ENTRY)
    return Finding(
        "warning" if rate is None else "note",
        seen,
        cost,
        (
            *on_the_host(asked),
            f"echo 10000 > {_DIRECTORY}/scan_sleep_millisecs",
            f"echo {default} > {_DIRECTORY}/pages_to_scan",
            "# to keep it: a line 'w FILE - - - - VALUE' for each in /etc/tmpfiles.d/khugepaged.conf",
        ),
        "now",
        f"cat {_DIRECTORY}/scan_sleep_millisecs {_DIRECTORY}/pages_to_scan",
    )


RULE = DoctorRule(
    "khugepaged",
    "How much memory does khugepaged scan?",
    "it never pauses (a warning), or scans 65,536 pages/s and more (256 MB/s with pages of 4 kB)",
    "kernel Documentation/admin-guide/mm/transhuge.rst (khugepaged: scan_sleep_millisecs of 0 is all of one core) and "
    "mm/khugepaged.c (its defaults)",
    _judge,
    ("transparent huge page",),
)
