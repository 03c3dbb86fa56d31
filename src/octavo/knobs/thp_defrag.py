"""What the kernel does when no huge page is free: /sys/kernel/mm/transparent_hugepage/defrag.

Source: kernel Documentation/admin-guide/mm/transhuge.rst. `always` compacts memory inside the page fault, which shows
as latency; `never` falls back to small pages.
"""

from octavo.knobs.base import ChoiceKnob

KNOB = ChoiceKnob(
    "thp_defrag", "compaction for transparent huge pages", "kernel/mm/transparent_hugepage/defrag",
    ("always", "defer", "defer+madvise", "madvise", "never"),
)  # fmt: skip
