"""Transparent huge pages for anonymous memory: /sys/kernel/mm/transparent_hugepage/enabled.

Source: kernel Documentation/admin-guide/mm/transhuge.rst. It gives shared_buffers none: that is `shmem_thp`.
A mode holds for memory that is touched afterwards, so it is set before the server starts. With any mode but `never` the
kernel may raise vm.min_free_kbytes for khugepaged, which is put back too.
"""

from octavo.knobs.base import ChoiceKnob

KNOB = ChoiceKnob(
    "thp", "transparent huge pages for private memory", "kernel/mm/transparent_hugepage/enabled",
    ("always", "madvise", "never"), "sys/vm/min_free_kbytes",
)  # fmt: skip
