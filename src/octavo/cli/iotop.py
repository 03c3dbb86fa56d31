"""`octavo iotop`: live I/O by process, disk and request size."""

from enum import StrEnum
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat


class SourceName(StrEnum):
    """The source of requests."""

    auto = "auto"
    bpf = "bpf"
    tracefs = "tracefs"
    proc = "proc"


def iotop(
    dsn: Annotated[
        str | None, typer.Option(help="Connection string of a server, to show what its processes are doing.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Measure one interval, then exit.")] = False,
    interval: Annotated[str, typer.Option(help="Interval between samples, at least 100ms.")] = "5s",
    device: Annotated[
        str | None, typer.Option(help="Only this device: vda, dm-1, /dev/md0, or a file or directory on it.")
    ] = None,
    pid: Annotated[int | None, typer.Option(min=1, help="Only this process and its descendants.")] = None,
    source: Annotated[
        SourceName, typer.Option(help="How requests are traced; auto: the best method available.")
    ] = SourceName.auto,
    format: Annotated[
        TableFormat, typer.Option(help="Output format: a live view, or JSON with one line per sample.")
    ] = TableFormat.text,
) -> None:
    """Show I/O requests live by process, disk and size.

    It changes nothing. Requests need root; without it only bytes by process are shown. Ctrl-C quits.

    Example: octavo iotop --dsn 'host=/run/postgresql dbname=shop' --device vda
    """
    from contextlib import ExitStack

    from octavo.errors import UsageError
    from octavo.units import duration_option

    seconds = duration_option("--interval", interval, "100ms")
    if device is not None and source is SourceName.proc:
        raise UsageError("--device has no effect with --source proc, which has no devices; leave one out")

    from octavo.cli.output import console
    from octavo.host.journal import Journal
    from octavo.iotop.devices import disks_below, find_disk, without_queue
    from octavo.iotop.monitor import RequestMonitor, exists
    from octavo.iotop.open import open_source
    from octavo.iotop.view import view
    from octavo.watch.live import show_once, show_until_interrupted

    disk, number = find_disk(device) if device is not None else (None, None)
    disks = () if disk is None else (disk, *disks_below(disk))
    if pid is not None and not exists(pid):
        raise UsageError(f"--pid {pid}: there is no such process")
    with ExitStack() as stack:
        activity = None
        if dsn is not None:
            from octavo.iotop.activity import Activity

            activity = Activity.open(dsn)
            stack.callback(activity.close)
        submitted = disk is not None and without_queue(disk)
        opened, blind = open_source(source.value, number, lambda: stack.enter_context(Journal()), submitted=submitted)
        stack.callback(opened.close)
        monitor = RequestMonitor(opened, activity, blind, disks=disks, root=pid)
        stack.callback(monitor.close)
        show = show_once if once else show_until_interrupted
        show(monitor.sample, view, seconds, console(), as_json=format is TableFormat.json)
