"""How a child gives up what it does not need: groups entered first, then no network, no privileges, no way back.

The steps are the system's own tools (unshare(1), setpriv(1)), each of which becomes the next, so that the pid stays.
A process without new privileges gains nothing from a set-user-ID file (prctl(2), PR_SET_NO_NEW_PRIVS).
"""

import ctypes
import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from octavo.errors import HostError

# Only a process that is still root may enter a group; "0" is the process that writes (cgroups(7)).
_ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# By its place, because it still runs as root, and the child's PATH may begin with a build's programs.
_UNSHARE = [shutil.which("unshare", path=_PATH) or "/usr/bin/unshare"]


def entering(groups: Sequence[Path]) -> list[str]:
    """The beginning of a command line that enters these control groups and becomes what follows.

    A shell of its own, because nothing that the program touches may be charged before it is inside.
    """
    return ["/bin/sh", "-c", _ENTER, "sh", *map(str, groups), "--"] if groups else []


def without_privileges(uid: int, gid: int, *, network: bool, itself: bool = False) -> list[str]:
    """The beginning of a command line that becomes what follows without privileges, and cannot get any.

    As root it becomes this user, and without `network` it has no network but Unix sockets, where the kernel allows
    that (network_namespaces(7)). With `itself` what follows becomes the user by itself (`become`), once it has opened
    what only root may. Raises HostError without setpriv.
    """
    setpriv = shutil.which("setpriv", path=_PATH)
    if setpriv is None:
        raise HostError("setpriv is missing; install util-linux")
    if os.geteuid() != 0:
        return [setpriv, "--no-new-privs", "--"]
    identity = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    if itself:
        identity = ["--clear-groups", "--inh-caps=-all"]
    alone = [] if network or not can_unshare_network() else [*_UNSHARE, "--net", "--"]
    return [*alone, setpriv, "--no-new-privs", *identity, "--"]


_PR_CAPBSET_DROP = 24
_CAPABILITIES = 64  # more than there are; the kernel refuses those that it does not know


def become(uid: int, gid: int) -> None:
    """Makes this process, when it is root's, the user's for good, without capabilities (capabilities(7)).

    Nobody but root can trace it afterwards (proc(5), dumpable).
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None)
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


@functools.cache
def can_unshare_network() -> bool:
    """Whether this process may give its children a network namespace of their own; in many containers it may not."""
    try:
        return (
            subprocess.run(
                [*_UNSHARE, "--net", "--", "/bin/sh", "-c", ":"], capture_output=True, check=False
            ).returncode
            == 0
        )
    except OSError:
        return False
