"""`octavo io` as a process of its own beside a server, with the server's limits: its page cache and, on cgroup version
2, its requests, which are limited for a group and not for the device."""

import json
import secrets
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from octavo.home import make_directory, octavo_home
from octavo.host import children, trees
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.postgres.cluster import Server

_PROGRAM = (sys.executable, "-m", "octavo", "io")


def read_alike(server: Server, files: Sequence[str | Path], options: Sequence[str]) -> tuple[dict[str, Any], Finished]:
    """Reads files with these options, by one policy. Returns the result as in docs/io.md, and the ended process. Raises
    OctavoError when it fails."""
    finished = children.run(
        [*_PROGRAM, *files, *options, "--format", "json"],
        server.journal, role="octavo io", groups=[server.group] if server.group else [],
    )  # fmt: skip
    children.check(finished, "octavo io")
    (result,) = json.loads(finished.stdout)["results"]
    return result, finished


@contextmanager
def block_list(journal: Journal, lines: Sequence[str]) -> Generator[Path, None, None]:
    """A file with these lines of a block list, in a directory that is ours alone."""
    directory = make_directory(octavo_home() / "scratch") / f"blocks-{secrets.token_hex(4)}"
    entry = journal.record("directory", path=str(directory))
    try:
        path = make_directory(directory, 0o700) / "list"
        path.write_text("\n".join(lines))
        yield path
    finally:
        if trees.remove(directory):
            journal.done(entry)
