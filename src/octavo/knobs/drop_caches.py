"""Empties the kernel's caches: vm.drop_caches.

Source: kernel Documentation/admin-guide/sysctl/vm.rst. It frees only clean pages, so everything is written back first.
Pages that are mapped or being written remain, so the remaining pages of the data are counted (cachestat(2)). It cannot
be undone, and it slows down the whole machine.
"""

import os
from pathlib import Path
from typing import Any

from octavo.host.page_cache import cached_bytes, forget


def drop_caches(directory: Path, proc: Path = Path("/proc")) -> dict[str, Any]:
    """Writes back and empties the caches. Returns the method (`drop_caches`, or without permission `posix_fadvise`) and
    the remaining pages.

    Without permission only the files below the directory are dropped. `cached_bytes_left`, of these files, is None if
    the kernel does not report it.
    """
    os.sync()
    try:
        (proc / "sys/vm/drop_caches").write_text("3")
        how = "drop_caches"
    except OSError:
        how = "posix_fadvise"
        forget(directory)
    try:
        left: int | None = cached_bytes(directory)
    except OSError:
        left = None
    return {"caches_emptied_by": how, "cached_bytes_left": left}
