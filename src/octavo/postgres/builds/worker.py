"""The process that makes builds: `python -I -m octavo.postgres.builds.worker REQUEST`.

It runs other people's code: configure, meson.build, Makefiles, the compiler's input. So it changes to the account as
soon as it has opened the files that only root may read, and everything that it makes belongs to the account. It reports
its progress as lines of JSON; the process that started it does not trust them, and publishes only what `copy_out`
accepts.

Everything is imported at the start: later the account may have no read access to Octavo and Python themselves.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from octavo.errors import HostError, OctavoError
from octavo.host import confine
from octavo.postgres.builds import traced
from octavo.postgres.builds.findings import Findings, shipped
from octavo.postgres.builds.from_scratch import install_from_scratch
from octavo.postgres.builds.pgxs import install_extension
from octavo.postgres.builds.shared_tree import NotShareable, build_together
from octavo.postgres.builds.spec import BuildSpec, Sizes
from octavo.postgres.builds.workspace import FINISHED, ToolFailed, finished_place, set_up

# Modules that tarfile and others import on first use.
for _name in ("bz2", "gzip", "lzma", "zlib", "concurrent.futures.thread", "encodings.ascii", "encodings.idna"):
    import_module(_name)

_LONGEST_LOG = 2 * 1024**2


def main(request: Path) -> int:
    """Executes the request. Returns the exit code."""
    asked: dict[str, Any] = json.loads(request.read_text())
    os.umask(0o022)
    with Path(asked["source"]).open("rb") as source:
        sha256 = asked.get("sha256")
        same = sha256 is None or hashlib.file_digest(source, "sha256").hexdigest() == sha256
        source.seek(0)
        known = shipped(asked.get("version", ""))
        confine.become(asked["uid"], asked["gid"])
        try:
            if not same:
                raise OctavoError(f"{source.name} changed while it was used; try again")
            _make(asked, source, known)
        except NotShareable as reason:
            _send(not_shareable=str(reason))
        except ToolFailed as error:
            _send(tool=error.doing, cause=error.cause, log=error.output[:_LONGEST_LOG])
        except OctavoError as error:
            _send(failed=str(error), host=isinstance(error, HostError))
        except OSError as error:
            _send(failed=f"{error.filename or 'the workspace'}: {error.strerror}", host=True)
        else:
            return 0
    return 1


def _make(asked: Mapping[str, Any], source: IO[bytes], known: frozenset[str]) -> None:
    directory = Path(asked["directory"])
    os.chdir(directory)
    (directory / FINISHED).mkdir()
    cache = Path(asked["cache"]) if asked["cache"] else None
    workspace = set_up(directory, asked["compiler"], cache)
    if extension := asked.get("extension"):
        _ready(directory, 0, install_extension(workspace, source, **extension))
        return
    if text := asked.get("traced"):
        (directory / traced.DIRECTORY).mkdir()
        (directory / traced.DIRECTORY / traced.HEADER).write_text(text)
    by_name: dict[str, Any] = {**asked["spec"], **{name: tuple(asked["spec"][name]) for name in ("flags", "options")}}
    spec = BuildSpec(**by_name)
    sizes = [Sizes(*each) for each in asked["sizes"]]
    if len(sizes) == 1:
        root = install_from_scratch(workspace, spec, asked["version"], source, _progress, asked.get("training"))
        _ready(directory, 0, root)
        return

    def finished(each: Sizes, root: Path) -> None:
        _ready(directory, sizes.index(each), root)

    findings = Findings(asked["compiled_by"], asked["sha256"], known, cache).with_kept()
    build_together(workspace, spec, asked["version"], source, sizes, findings, finished, _progress)


def _ready(directory: Path, number: int, root: Path) -> None:
    root.rename(directory / finished_place(number))
    _send(ready=number)


def _progress(doing: str, done: int, total: int) -> None:
    _send(doing=doing, done=done, total=total)


def _send(**facts: str | int) -> None:
    # In a single write, because the shared tree's finisher reports from another thread.
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
