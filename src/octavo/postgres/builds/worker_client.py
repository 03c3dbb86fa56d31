"""Builds are made by the account, in its own tree below a directory of ours, and published by us.

`worker` is the process that makes them; this module starts and observes it, and copies its results out.
"""

import hmac
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import children, set_user_id, trees
from octavo.host.children import Account, build_account
from octavo.host.copy_out import copy_out
from octavo.host.journal import Journal
from octavo.host.owner import owner_of
from octavo.host.published import MANIFEST
from octavo.postgres.builds.cache import RECORDS
from octavo.postgres.builds.spec import Progress
from octavo.postgres.builds.workspace import finished_place
from octavo.postgres.cluster import check_reachable

# The size of a tree with its objects and an installation, measured for 18 with gcc 12. Another installation shares most
# files.
_TREE_BYTES = 700 * 1024**2
_BUILD_BYTES = 40 * 1024**2

COMPILER_CACHE = "compiler-cache"
# Enough for the releases and a few trees under development. ccache keeps each below CCACHE_MAXSIZE.
_MOST_CACHES = 8
_IN_USE_SECONDS = 86_400.0  # no build takes this long
_KEY = ".key"

# The longest line of the worker contains a tool's output, in JSON.
_LONGEST_LINE = 16 * 1024**2
_LONGEST_WORDS = 1000
_MOST_STEPS = 10**9


class NotShareableHere(Exception):
    """The builds cannot share a tree; the message says why."""


@dataclass(frozen=True, slots=True)
class WorkerClient:
    """A directory of ours that contains the account's `tree`, in which one worker executes requests."""

    directory: Path
    tree: Path
    subject: str
    log: Path
    account: Account
    journal: Journal

    def make(
        self,
        asked: Mapping[str, Any],
        source: Path,
        *,
        cache: str | None,
        progress: Progress,
        ready: Callable[[int], None],
    ) -> None:
        """Makes the worker execute the request. `ready` is called with the number of each finished installation.

        `cache`: the owner of the sources, so that ccache keeps their results apart; None disables ccache. Raises
        OctavoError with the log's path when a tool fails, NotShareableHere when the sizes cannot share a tree.
        """
        request = self.directory / "request.json"
        request.touch(0o600)
        request.write_text(
            json.dumps(
                {
                    **asked,
                    "uid": self.account.uid,
                    "gid": self.account.gid,
                    "directory": str(self.tree),
                    "source": str(source),
                    "cache": str(compiler_cache(octavo_home(), self.account, cache)) if cache else None,
                }
            )
        )
        worker, number = children.start(
            [sys.executable, "-I", "-m", "octavo.postgres.builds.worker", request],
            self.journal,
            role=f"build of {self.subject}",
            account=self.account,
            becomes=True,
            stderr=subprocess.STDOUT,
        )
        assert worker.stdout is not None
        text = ""
        try:
            while line := worker.stdout.readline(_LONGEST_LINE):
                text = self.obey(line, progress, ready) or text
            worker.wait()
        finally:
            # Also when we are interrupted, or reject its results.
            if worker.returncode is None:
                children.end(worker)
            children.ended(self.journal, number)
        if worker.returncode != 0:
            raise OctavoError(f"the build of {self.subject} failed: {text or f'exit {worker.returncode}'}")

    def copy(self, number: int, target: Path, earlier: tuple[Path, Mapping[str, str]] | None = None) -> dict[str, str]:
        """Copies a finished installation into a new directory of ours. Returns the sha256 of every file.

        Raises OctavoError when it contains anything that `copy_out` refuses, or files that we write there ourselves.
        """
        digests = copy_out(self.tree, finished_place(number), target, self.account, earlier=earlier)
        if own := next((name for name in (MANIFEST, RECORDS) if os.path.lexists(target / name)), None):
            raise OctavoError(f"{self.subject} installs {own}, where Octavo's record of a build is")
        return digests

    def obey(self, line: str, progress: Progress, ready: Callable[[int], None]) -> str:
        """Executes a line of the worker's protocol; returns the line if it is something else, such as an interpreter's
        error."""
        try:
            match json.loads(line):
                case {"ready": int(number)}:
                    act = partial(ready, number)
                case {"doing": str(doing), "done": int(done), "total": int(total)} if (
                    min(done, total) >= 0 and max(done, total) < _MOST_STEPS
                ):
                    act = partial(progress, _words(doing), done, total)
                case {"not_shareable": str(reason)}:
                    raise NotShareableHere(_words(reason))
                case {"tool": str(tool), "cause": str(cause), "log": str(log)}:
                    with os.fdopen(trees.new_log(self.log), "w", errors="replace") as file:
                        file.write(log)
                    raise OctavoError(f"{_words(tool)} of {self.subject} failed: {_words(cause)}; see {self.log}")
                case {"failed": str(problem), "host": bool(host)}:
                    raise HostError(_words(problem)) if host else OctavoError(_words(problem))
                case _:
                    return _words(line)
        except (ValueError, RecursionError):
            return _words(line)
        act()
        return ""


@contextmanager
def open_worker(name: str, subject: str, journal: Journal, *, builds: int) -> Generator[WorkerClient, None, None]:
    """Yields a worker, whose directory is removed at the end. Raises HostError when the disk is too full for that many
    builds."""
    # Compilers and meson use the real path of the directory, and it is kept out of the objects by this path.
    work = make_directory(work_directory()).resolve()
    needed = _TREE_BYTES + builds * _BUILD_BYTES
    free = shutil.disk_usage(work).free
    if free < needed:
        raise HostError(
            f"{work} has {free // 1024**2} MB free and this needs about {needed // 1024**2} MB; make room, "
            "octavo build rm removes builds"
        )
    account = build_account()
    directory = work / f"{name}-{journal.token[:8]}-{secrets.token_hex(2)}"
    entry = journal.record("directory", path=str(directory))
    with set_user_id.none_left(account):  # next to its tree, which is removed by then
        try:
            make_directory(directory)
            directory.chmod(0o711)
            check_reachable(directory / "tree", account)
            tree = trees.make_for(directory / "tree", account)
            yield WorkerClient(directory, tree, subject, work / f"{name}.log", account, journal)
        finally:
            if trees.remove(directory):
                journal.done(entry)


def work_directory() -> Path:
    """The directory in which builds are made."""
    return octavo_home() / "work"


def compiler_cache(home: Path, account: Account, whose: str) -> Path:
    """The account's ccache directory for one set of sources, created if missing.

    All builds run as one account, and a Makefile could put anything into such a cache. So each has a secret name, in a
    directory that nobody else can list: code that can write one cache cannot find the others.
    """
    top = compiler_caches(home)
    path = top / hmac.digest((top / _KEY).read_bytes(), whose.encode(errors="surrogateescape"), "sha256").hex()
    if not path.exists():
        made = trees.make_for(top / f".{secrets.token_hex(16)}", account)
        try:
            made.rename(path)
        except OSError:  # another command has created it
            trees.remove(made)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != account.uid:
        raise HostError(f"{path} does not belong to {account.name}; remove it")
    os.utime(path)
    _forget_old(top)
    return path


def _forget_old(top: Path) -> None:
    used: list[tuple[float, Path]] = []
    for each in (path for path in top.iterdir() if path.name != _KEY):
        with suppress(FileNotFoundError):  # another command has just renamed or removed it
            used.append((each.lstat().st_mtime, each))
    for moment, each in sorted(used)[:-_MOST_CACHES]:
        if moment < time.time() - _IN_USE_SECONDS:
            trees.remove(each)


def compiler_caches(home: Path) -> Path:
    """The directory of all caches. It is ours and can only be entered, not listed. One of an earlier version is
    discarded."""
    top = home / COMPILER_CACHE
    if not (top / _KEY).exists():
        if top.exists() and not top.is_symlink():
            trees.remove(top)
        made = make_directory(home) / f".{COMPILER_CACHE}-{secrets.token_hex(4)}"
        made.mkdir(mode=0o711)
        made.chmod(0o711)
        with os.fdopen(os.open(made / _KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as key:
            key.write(secrets.token_bytes(32))
        try:
            made.rename(top)
        except OSError:  # another command has created it
            trees.remove(made)
    if owner_of(top.stat()) != os.geteuid():
        raise HostError(f"{top} does not belong to {os.geteuid()}; remove it")
    return top


def _words(text: object) -> str:
    """The worker's message, shortened to one line, without unprintable characters."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text)[:_LONGEST_WORDS]).strip()
