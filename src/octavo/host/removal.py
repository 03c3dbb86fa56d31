"""Removing a tree, whoever owns it."""

import os
import subprocess
from pathlib import Path


def remove(path: Path) -> bool:
    """Removes a tree of any owner, and returns whether it was removed completely. Links in it are removed, not
    followed.

    rm(1) works by open directories at any depth, and stops at mounts in the tree, which may belong to somebody. It runs
    in a session of its own, so that Ctrl-C does not end it halfway.
    """
    if os.path.lexists(path):
        subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", str(path)],
            check=False, capture_output=True, start_new_session=True,
        )  # fmt: skip
    return not os.path.lexists(path)
