"""Transparent huge pages for shared memory: /sys/kernel/mm/transparent_hugepage/shmem_enabled.

Source: kernel Documentation/admin-guide/mm/transhuge.rst. shared_buffers are an anonymous shared mapping, which the
kernel keeps in its internal tmpfs: this file governs it, and `enabled` does not.
"""

from octavo.knobs.base import ChoiceKnob

KNOB = ChoiceKnob(
    "shmem_thp", "transparent huge pages for shared memory", "kernel/mm/transparent_hugepage/shmem_enabled",
    ("always", "within_size", "advise", "never", "deny", "force"), "sys/vm/min_free_kbytes",
)  # fmt: skip
