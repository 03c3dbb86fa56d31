"""Transparent huge pages for anonymous memory: /sys/kernel/mm/transparent_hugepage/enabled.

Source: kernel Documentation/admin-guide/mm/transhuge.rst. It does not affect shared_buffers: `shmem_thp` does. A mode
applies to memory that is touched afterwards, so it is set before the server starts. With any mode but `never` the
kernel may raise vm.min_free_kbytes for khugepaged, which is restored too.
"""

from octavo.knobs.base import ChoiceKnob

KNOB = ChoiceKnob(
    "thp", "transparent huge pages for private memory", "kernel/mm/transparent_hugepage/enabled",
    ("always", "madvise", "never"), "sys/vm/min_free_kbytes",
)  # fmt: skip
