"""Changes random knobs repeatedly until it is killed: `python knob_victim.py SEED`.

Values stay near the original ones, and loop volumes small, because the machine continues to work meanwhile.
"""

import random
import sys
from collections.abc import Mapping
from contextlib import ExitStack

from octavo import knobs
from octavo.host import children
from octavo.host.journal import Journal
from octavo.knobs import device, huge_pages
from octavo.knobs.base import KnobTarget
from octavo.knobs.server_group import server_group

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "thp": ("always", "madvise", "never"),
    "shmem_thp": ("advise", "within_size", "never"),
    "thp_defrag": ("defer", "defer+madvise", "madvise"),
    "khugepaged": ("off", "4096/20s"),
    "readahead": ("0B", "128kB", "1MB"),
    "io_scheduler": ("none", "mq-deadline", "kyber"),
    "zram_swap": ("none", "16MB"),
    "swappiness": ("as-found", "61"),
    "dirty_limits": ("as-found", "9%/19%", "1GB/2GB"),
    "overcommit": ("as-found", "always"),
    "filesystem": ("ext4/1kB", "ext4", "xfs"),
    "device": ("loop", "gp2:100,credits=1000", "iops=5000,mbps=200"),
    "memory": ("none", "64MB"),
}


def turn(draw: random.Random, journal: Journal) -> None:
    """Applies one random set of knobs, as a trial does."""
    levels = {name: draw.choice(choices) for name, choices in _CHOICES.items()}
    pages = {size: draw.randrange(4) for size in huge_pages.sizes() if size <= 2 * 1024**2}
    with ExitStack() as stack:
        stack.enter_context(huge_pages.pools(pages, journal))
        volume = stack.enter_context(device.volume(levels, 1024**2, journal))
        assert volume is not None
        stack.enter_context(knobs.applied(levels, journal, KnobTarget(volume.directory)))
        group = stack.enter_context(server_group(levels, journal))
        groups = [] if group is None else [group]
        child, number = children.start(
            ["/bin/sleep", "600"], journal, role="server", directory=volume.directory, groups=groups
        )
        stack.callback(journal.done, number)
        stack.callback(child.wait)
        stack.callback(child.kill)
        if draw.random() < 0.5:  # its probe takes seconds, during which few kills would hit anything else
            device.measured(levels["device"], volume, journal, group)
            stack.enter_context(device.limited(levels["device"], volume, journal, group))


def main() -> None:
    """Runs until killed."""
    draw = random.Random(int(sys.argv[1]))
    with Journal() as journal:
        print("begun", flush=True)
        while True:
            turn(draw, journal)


if __name__ == "__main__":
    main()
