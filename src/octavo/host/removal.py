"""Removing a tree, whoever owns it."""

import os
import subprocess
from pathlib import Path


def remove(path: Path) -> bool:
    """Removes a tree of any owner, and returns whether it is gone. Links in it are removed and not followed.

    rm(1) goes by open directories, however deep; it stops at what is mounted in the tree, which may be somebody's.
    In a session of its own, so that Ctrl-C does not end it halfway.
    """
    if os.path.lexists(path):
        subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", str(path)],
            check=False, capture_output=True, start_new_session=True,
        )  # fmt: skip
    return not os.path.lexists(path)
