"""All facts of one server and its host, or of the host alone."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from octavo.binary.machines import name_of
from octavo.binary.read import read_one
from octavo.doctor.collect.atomics import atomics_of
from octavo.doctor.collect.host import host_facts
from octavo.doctor.collect.live import LiveCounters, ServerCounters, live_facts, take
from octavo.doctor.collect.processes import memory_limit, process_facts
from octavo.doctor.collect.storage import counted_disk, storage_facts
from octavo.doctor.collect.volumes import TABLESPACES, volume_facts
from octavo.doctor.facts import Fact, Facts
from octavo.errors import HostError, UsageError
from octavo.postgres.user_connection import UsersConnection

_BEFORE_START = "no server yet"
# Facts that are not read again while a server is watched.
DEAR = ("server.databases_bytes", "server.buffers.in_page_cache_share", "server.buffers.used_bytes")


def of_server(connection: UsersConnection, seconds: float, known: Iterable[Fact] = ()) -> Facts:
    """The facts of a running server, and of this host if it runs here. `seconds`: how long to watch for the live facts
    (0: none).

    `known`: facts that are expensive and were read before, such as the databases' sizes and the contents of
    shared_buffers.
    """
    from octavo.doctor.collect.buffers import buffer_facts
    from octavo.doctor.collect.server import reads, server_facts
    from octavo.watch.connect import listener, target_of

    target, _ = target_of(connection)
    # The facts from /proc are also available for a server in a container.
    postmaster = target.postmaster or listener(connection)
    directory = target.directory
    before = _live(connection, postmaster, directory, reads) if seconds else None
    known = list(known)
    disks: dict[int, str | None] = {}
    found = [*server_facts(connection, with_sizes=not known), *(known or buffer_facts(connection, directory))]
    if postmaster is None:
        found.append(Fact("host.", unknown=target.no_processes))
    else:
        found += host_facts(postmaster=postmaster)
        found += process_facts(postmaster)
        found.append(_program(postmaster))
        if directory is None:
            found += [Fact(f"host.{part}.", unknown=target.no_directory) for part in ("fs", "device", "raid")]
        else:
            told = next((fact for fact in found if fact.name == TABLESPACES), None)
            volumes, disks = volume_facts(directory, told)
            found += [*storage_facts(directory), *volumes]
    if before is None:
        found += _unwatched(disks, "nothing was watched")
    else:
        device, first = before
        time.sleep(max(0.0, first.at + seconds - time.monotonic()))
        last = take(device, postmaster, lambda: reads(connection))
        found += live_facts(first, last, device, disks, target.no_processes if postmaster is None else "")
    return Facts(found)


def of_stopped(pgdata: Path, bindir: Path | None) -> Facts:
    """The facts of a cluster that does not run, and of this host. Raises UsageError and HostError."""
    from octavo.doctor.collect.stopped import stopped_facts
    from octavo.hugepages.stopped import data_directory

    settings, data = stopped_facts(pgdata, bindir), data_directory(pgdata)
    volumes, disks = volume_facts(data, None)
    return Facts(
        [
            *settings, *host_facts(), memory_limit(None), *storage_facts(data), *volumes,
            *_unwatched(disks, "the server does not run"),
        ]
    )  # fmt: skip


def _unwatched(disks: Iterable[int], reason: str) -> list[Fact]:
    return [Fact(f"{prefix}live.", absent=reason) for prefix in ("", *(f"volume.{number}." for number in disks))]


def before_start(shared_buffers: int, huge_pages: str, directory: Path) -> Facts:
    """The facts of this host alone, and of a server that would have so many bytes of shared_buffers."""
    given = "--shared-buffers"
    return Facts(
        [
            *host_facts(),
            memory_limit(None),
            *storage_facts(directory),
            Fact("setting.shared_buffers", shared_buffers, given),
            Fact("setting.huge_pages", huge_pages, "initdb's default"),
            Fact("setting.", absent=_BEFORE_START),
            Fact("server.", absent=_BEFORE_START),
            Fact("host.process.", absent=_BEFORE_START),
            Fact("live.", absent=_BEFORE_START),
        ]
    )


def of_program(program: Path) -> Facts:
    """The facts of a program for AArch64, on any machine. Raises UsageError when it is not one or cannot be read."""
    try:
        report = read_one(program)
    except OSError as error:
        raise UsageError(f"--binary {program}: {error.strerror}") from None
    except HostError as error:
        raise UsageError(f"--binary {error}") from None
    counted = atomics_of(report)
    if counted is None:
        raise UsageError(
            f"--binary {program} is a program for {name_of(report['machine'])}; the doctor's rule is about AArch64, "
            "octavo binary shows what is in others"
        )
    alone = "only a program was given (--binary)"
    return Facts(
        [
            Fact("host.machine", "aarch64", f"{program}: its header"),
            Fact("host.cpu.lse", True, "--binary assumes a CPU that has them"),
            Fact("host.process.atomics", counted, f"{program}: its instructions"),
            *(Fact(name, absent=alone) for name in ("host.", "server.", "setting.", "live.")),
        ]
    )


def _live(
    connection: UsersConnection,
    postmaster: int | None,
    directory: Path | None,
    reads: Callable[[UsersConnection], ServerCounters | None],
) -> tuple[str | None, LiveCounters]:
    device = None if directory is None else counted_disk(directory)
    return device, take(device, postmaster, lambda: reads(connection))


def _program(postmaster: int) -> Fact:
    """The atomic instructions of the running program, on machines where they matter."""
    name = "host.process.atomics"
    if os.uname().machine != "aarch64":
        return Fact(name, absent="examined on AArch64 only")
    path = Path(f"/proc/{postmaster}/exe")
    try:
        counted = atomics_of(read_one(path))
    except OSError as error:
        return Fact(name, unknown=f"{path}: {error.strerror}")
    except HostError as error:
        return Fact(name, unknown=str(error))
    if counted is None:
        return Fact(name, unknown=f"{path} is not an AArch64 program")
    return Fact(name, counted, f"{path}: its instructions")
