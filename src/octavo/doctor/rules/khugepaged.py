"""How much memory khugepaged scans for pages to put together."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import human_duration, human_size

_DIRECTORY = "/sys/kernel/mm/transparent_hugepage/khugepaged"
# The kernel's own is 4096 pages in 10 s, 1.6 MB/s.
_MANY = 256 * 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    mode = asked.text("host.thp.enabled")
    if mode == "never":
        return Ok("transparent huge pages are off")
    pages, pause = asked.whole("host.thp.khugepaged_pages_to_scan"), asked.whole("host.thp.khugepaged_pause_ms")
    size = pages * asked.whole("host.memory.page_bytes")
    rate = size * 1000 / pause if pause else None
    seen = f"khugepaged scans {human_size(size)} every {pause:,} ms"
    if rate is not None and rate < _MANY:
        return Ok(seen)
    if rate is None:
        cores = asked.whole("host.cores")
        cost = f"it never pauses: one CPU of {cores:,} scans memory all the time, and locks what it visits"
    else:
        again = human_duration(asked.whole("host.memory.total_bytes") / rate)
        cost = f"{human_size(rate)}/s, all memory of this host every {again}, beside the server"
    return Finding(
        "warning" if rate is None else "note",
        seen,
        cost,
        (f"echo 10000 > {_DIRECTORY}/scan_sleep_millisecs", f"echo 4096 > {_DIRECTORY}/pages_to_scan"),
        "now",
        f"cat {_DIRECTORY}/scan_sleep_millisecs {_DIRECTORY}/pages_to_scan",
    )


RULE = DoctorRule(
    "khugepaged",
    "How much memory does khugepaged scan?",
    "it never pauses (a warning), or scans 256 MB/s and more",
    "kernel Documentation/admin-guide/mm/transhuge.rst (khugepaged: scan_sleep_millisecs of 0 is all of one core)",
    _judge,
    ("transparent huge page",),
)
