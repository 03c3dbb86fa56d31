"""Runs a command in a machine: creates disks, runs the machine without privileges or a network, and treats its output
as untrusted."""

import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home
from octavo.host import children, published, trees
from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres.cluster import check_reachable
from octavo.vm import job, machine, output
from octavo.vm.images import Image
from octavo.vm.kernels import Machine, machine_of
from octavo.vm.machine import Limits
from octavo.vm.output import Outcome


def check_qemu(machine: Machine) -> None:
    """Raises HostError without the program that emulates it."""
    if shutil.which(machine.qemu, path=children.PLAIN_PATH) is None:
        raise HostError(f"{machine.qemu} is missing; install {machine.qemu_package}")


_PLUGIN = "plugin.so"


def run(
    image: Image,
    arguments: Sequence[str],
    journal: Journal,
    limits: Limits,
    *,
    files: Mapping[str, Path] | None = None,
    programs: Mapping[str, bytes] | None = None,
    plugin: str | None = None,
    cpu: str | None = None,
    kernel_arguments: Sequence[str] = (),
) -> Outcome:
    """Boots the image, runs the command as the machine's root, and returns its output. The disks are removed then.

    `files` and `programs` are put below /scratch; `plugin`: the source in C of a plugin of qemu's. Raises HostError
    without qemu, gcc or room, OctavoError when the machine ends before the command does, or writes more than
    `child_output.MOST_BYTES`.
    """
    kind = machine_of(image.manifest["machine"])
    check_qemu(kind)
    account = server_account()
    word = secrets.token_hex(16)
    work = make_directory(octavo_home() / "scratch") / secrets.token_hex(8)
    entry = journal.record("directory", path=str(work))
    try:
        make_directory(work)
        check_reachable(work / "machine", account)
        readable = trees.make_readable(work / "job", account)
        tree = trees.make_for(work / "machine", account)
        descriptor = trees.new_readable(readable / "job", account)
        job.write(descriptor, arguments, word, files or {}, programs or {}, disk=limits.disk)
        if plugin is not None:
            _compile(plugin, readable, tree, journal, account)
        # No journal: what is thrown away need not survive. Zeroed tables late: reads of the disk are the command's own.
        trees.act_inside(
            tree,
            ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-m", "0", "-E",
             "root_owner=0:0,lazy_itable_init=0", "data", f"{limits.disk // 1024}k"],
            journal, account,
        )  # fmt: skip
        published.note_use(image.path)
        line = machine.command(
            kind,
            image,
            tree / "data",
            readable / "job",
            limits,
            cpu=cpu,
            kernel_arguments=kernel_arguments,
            plugin=str(tree / _PLUGIN) if plugin is not None else None,
        )
        started = time.monotonic()
        finished = children.run(
            line, journal, role="machine", account=account, directory=tree, environment={"TMPDIR": str(tree)}
        )
        found = output.outcome(finished.stdout, word, finished.stderr)
        if found is None:
            elapsed, free = time.monotonic() - started, shutil.disk_usage(tree).free
            raise output.why_not(finished.stderr, finished.returncode, limits.seconds, elapsed, free)
        return found
    finally:
        if trees.remove(work):
            journal.done(entry)


def _compile(source: str, readable: Path, tree: Path, journal: Journal, account: Account) -> None:
    """Compiles a plugin as the account that the machine runs as. Raises HostError without gcc."""
    if shutil.which("gcc", path=children.PLAIN_PATH) is None:
        raise HostError("gcc is missing; install it")
    with os.fdopen(trees.new_readable(readable / "plugin.c", account), "w") as file:
        file.write(source)
    trees.act_inside(tree, ["gcc", "-O2", "-shared", "-fPIC", "-o", _PLUGIN, readable / "plugin.c"], journal, account)
