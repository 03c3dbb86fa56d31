"""A git checkout: the tracked files in their present state."""

import os
import shutil
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.owner import owner_of
from octavo.postgres.sources.base import Source
from octavo.postgres.sources.snapshot import opened_tree, take_snapshot, version_of_tree

# The locations of the user's own git settings.
_ENVIRONMENT = ("HOME", "XDG_CONFIG_HOME")


def recognises(path: Path, /) -> bool:
    """Whether it is the root of a checkout (in a worktree .git is a file), or a repository without files."""
    return (path / ".git").exists() or _is_bare(path)


def take(path: Path, journal: Journal, /) -> Source:
    """The tracked files of the working tree with their changes; the origin names the commit.

    Untracked files are not included. Raises UsageError when there is no checkout or no commit, HostError when git is
    missing or does not trust the directory.

    A repository's own settings name programs that git runs. So git runs as the owner of the checkout, without
    privileges, even if root calls it.
    """
    if _is_bare(path):
        raise UsageError(f"--source {path}: a bare repository has no files; give a checkout of it (git worktree add)")
    with opened_tree(path) as top:
        commit = _git(path, top, journal, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        version_of_tree(path, top)
        changed = _git(path, top, journal, "status", "--porcelain", "--untracked-files=no")
        tracked = _git(path, top, journal, "ls-files", "-z").split("\0")
        files = [name for name in tracked if name and ((path / name).is_symlink() or (path / name).is_file())]
        origin = f"git commit {commit}{' with uncommitted changes' if changed.strip() else ''}"
        return take_snapshot(path, top, files, origin, journal)


def _is_bare(path: Path) -> bool:
    return all((path / name).exists() for name in ("HEAD", "objects", "refs"))


def _owner(top: int) -> Account:
    """The owner of the open checkout if we are root, else ourselves."""
    if os.geteuid() != 0:
        return children.server_account()
    return children.owner_account(owner_of(os.fstat(top)))


def _git(path: Path, top: int, journal: Journal, *arguments: str) -> str:
    if shutil.which("git", path=children.PLAIN_PATH) is None:
        raise HostError(f"--source {path}: git is missing, and this is a git checkout; install git")
    owner = _owner(top)
    own = owner.uid == os.geteuid()
    environment = {name: os.environ[name] for name in _ENVIRONMENT if own and name in os.environ}
    # Do not write the index: otherwise status refreshes it, and the checkout is the user's.
    finished = children.run(
        ["git", "--no-optional-locks", *arguments],
        journal,
        role="git",
        account=owner,
        directory=Path(f"/proc/self/fd/{top}"),  # exactly the directory whose owner this is
        environment=environment,
    )
    if finished.returncode == 0:
        return finished.stdout
    message = finished.stderr.strip().splitlines() or [""]
    if "dubious ownership" in finished.stderr:
        raise HostError(
            f"--source {path}: git does not trust it, because it belongs to another user; run as that user, or "
            f"git config --global --add safe.directory {path}"
        )
    if arguments[0] == "rev-parse" and not message[0]:
        raise UsageError(f"--source {path}: the checkout has no commit; give one of PostgreSQL's repository")
    raise UsageError(f"--source {path}: git {arguments[0]} failed: {message[0].removeprefix('fatal: ')}")
