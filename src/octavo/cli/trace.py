"""`octavo trace`: records page accesses of a server, and simulates other page and cache sizes."""

from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat
from octavo.cli.given import given, refuse_alone, refuse_before_command

trace = typer.Typer(help="Record and analyse page accesses; simulate other sizes.")

# Of shared_buffers: 16 buffers of 8 kB.
_LEAST = 128 * 1024
_Dsn = Annotated[str | None, typer.Option(help="Connection string of the server.")]
_Length = Annotated[str, typer.Option("--for", help="How long to record.")]
_Out = Annotated[Path | None, typer.Option("--out", "-o", help="The trace to write.")]
_Overhead = Annotated[str, typer.Option(help="Upper limit on the overhead; the recording pauses to stay below it.")]
_Counters = Annotated[bool, typer.Option("--counters", help="Record only the server's counters; works on any server.")]
_Names = Annotated[bool, typer.Option("--names", help="Store relation names in the trace.")]
_Trace = Annotated[Path, typer.Argument(metavar="FILE", help="A trace (.octrace).")]


@trace.callback(invoke_without_command=True)
def record_or_help(
    context: typer.Context,
    dsn: _Dsn = None,
    length: _Length = "60s",
    out: _Out = None,
    max_overhead: _Overhead = "5%",
    names: _Names = False,
    counters: _Counters = False,
) -> None:
    """Without a command: octavo trace record."""
    if context.invoked_subcommand is not None:
        refuse_before_command(context)
        return
    if not given(context):
        print(context.get_help())
        return
    record(context, dsn, length, out, max_overhead, names, counters)


@trace.command()
def record(
    context: typer.Context,
    dsn: _Dsn = None,
    length: _Length = "60s",
    out: _Out = None,
    max_overhead: _Overhead = "5%",
    names: _Names = False,
    counters: _Counters = False,
) -> None:
    """Record the page accesses of a live server.

    It changes nothing. It uses the probes of the server's package (bpftrace, root) or a tracing build, and shows the
    expected overhead first. No data and no SQL is recorded, and relation names only with --names. Without probes, as on
    a managed service, --counters records the server's counters.

    Example: octavo trace record --dsn 'host=/run/postgresql dbname=shop' --for 60s -o shop.octrace
    """
    from octavo.cli.output import console
    from octavo.errors import UsageError
    from octavo.host.journal import Journal
    from octavo.trace.files import MOST_LOST
    from octavo.trace.record.recorder import RecordingRequest, record
    from octavo.units import duration_option, percentage_option

    if out is None:
        raise UsageError("no output file; add -o shop.octrace")
    if counters and "max_overhead" in given(context):
        raise UsageError("--max-overhead has no effect with --counters, which queries the server once a second")
    seconds = duration_option("--for", length, "100ms")
    most = percentage_option("--max-overhead", max_overhead)
    if most <= 0:
        raise UsageError(f"--max-overhead {max_overhead}: it must be above 0%")
    screen = console(stderr=True)
    request = RecordingRequest(dsn, seconds, out, None if most >= 1 else most, names, counters)
    with Journal() as journal:
        found = record(request, journal, lambda line: screen.print(f"octavo trace: {line}"))
    console().print(f"{out}: {found.accesses:,} accesses and changes of pages in {found.recorded_seconds:.1f} s")
    if found.overhead is not None:
        console().print(f"overhead: transactions were {100 * found.overhead:.1f} % slower over the whole time")
    if found.lost > MOST_LOST * (found.accesses + found.lost):
        console().print(f"lost: {found.lost:,} accesses, above {MOST_LOST:.1%}: do not trust hit ratios")


@trace.command()
def info(file: _Trace, format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text) -> None:
    """Show a trace's contents: accesses, relations, events, losses.

    Example: octavo trace info shop.octrace
    """
    from octavo.cli.output import console, print_json
    from octavo.cli.trace_progress import counting
    from octavo.trace.files import lost_share, summarize
    from octavo.trace.render import summary_view

    with counting() as observe:
        summary = summarize(file, observe)
    if format is TableFormat.json:
        print_json({"schema_version": 1, "lost_share": lost_share(summary), **summary})
    else:
        console().print(summary_view(summary, file.stat().st_size))


@trace.command()
def cut(
    file: _Trace,
    out: Annotated[Path, typer.Option("--out", "-o", help="The trace to write.")],
    start: Annotated[str, typer.Option("--from", help="Start, as time from the start of the trace.")] = "0s",
    length: Annotated[str | None, typer.Option("--for", help="Length; default: to the end.")] = None,
    relation: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Only this file number (relfilenode).")
    ] = None,
) -> None:
    """Write part of a trace as a new trace. Times do not change.

    Example: octavo trace cut shop.octrace -o minute.octrace --from 30s --for 1min
    """
    from octavo.cli.output import console
    from octavo.cli.trace_progress import counting
    from octavo.trace.files import cut
    from octavo.units import duration_option

    begin = duration_option("--from", start, most="36500d")
    until = None if length is None else begin + duration_option("--for", length, most="36500d")
    with counting() as observe:
        accesses, missing = cut(file, out, begin, until, relation, observe)
    lost = f"; {missing['accesses']:,} accesses are missing from {file}" if missing["accesses"] else ""
    console().print(f"{out}: {accesses:,} accesses{lost}")


@trace.command()
def convert(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, or a file of another format.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Format of FILE: csv, oracle-general, iolog or blktrace.")
    ] = None,
    target: Annotated[str | None, typer.Option("--to", help="Format to write: csv, oracle-general or iolog.")] = None,
    page_size: Annotated[str, typer.Option(help="Page size into which --from divides requests.")] = "8kB",
) -> None:
    """Convert a trace from or to another program's format.

    oracle-general is libCacheSim's (uncompressed), iolog fio's, blktrace the text of blkparse.

    Example: octavo trace convert shop.octrace -o shop.oracleGeneral.bin --to oracle-general
    """
    from octavo.cli.output import console
    from octavo.errors import UsageError
    from octavo.trace.files import READABLE, WRITABLE, export, import_
    from octavo.units import size_option

    if (source is None) == (target is None):
        raise UsageError("pass either --from FORMAT, to make a trace, or --to FORMAT, to write one in another format")
    if source is not None:
        if source not in READABLE:
            raise UsageError(f"--from {source}: unknown format; allowed: {', '.join(READABLE)}")
        accesses = import_(file, source, out, size_option("--page-size", page_size, "512B", "1MB"))
        console().print(f"{out}: {accesses:,} accesses")
        return
    if target not in WRITABLE:
        raise UsageError(f"--to {target}: unknown format; allowed: {', '.join(WRITABLE)}")
    refuse_alone(context, {"page_size": "--from"})
    missing = export(file, target, out)
    lost = f": {missing['accesses']:,} accesses are missing from {file}" if missing["accesses"] else ""
    console().print(f"{out}{lost}")


@trace.command()
def surface(
    context: typer.Context,
    file: _Trace,
    page_size: Annotated[list[str] | None, typer.Option(help="Page size, repeatable; default: 1kB to 32kB.")] = None,
    shared_buffers: Annotated[
        str | None, typer.Option(help="shared_buffers to compare at; default: the recorded server's.")
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="Sample this share of the pages, such as 5%; default: all.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write an HTML page to this file.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of the sample.")] = 1,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads; 0: one per available processor.")] = 0,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tls://ADDRESS:PORT", help="Simulate on the workers of this Dask scheduler, in parts."),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(min=1, help="With --scheduler: parts of the pages of each size; default: enough for all workers."),
    ] = None,
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Show hit ratios by page size and shared_buffers.

    Example: octavo trace surface shop.octrace -o surface.html
    """
    from octavo.cli.output import console, print_json
    from octavo.cli.trace_progress import counting
    from octavo.errors import UsageError
    from octavo.report.text_file import write_text
    from octavo.trace.page import render
    from octavo.trace.render import surface_view
    from octavo.trace.simulate import one_size
    from octavo.trace.surface import SurfaceRequest, page_sizes, surface
    from octavo.units import percentage_option

    if sample is None:
        refuse_alone(context, {"seed": "--sample"})
    rate = None if sample is None else percentage_option("--sample", sample)
    if rate is not None and not 0.0001 <= rate <= 1:
        raise UsageError(f"--sample {sample}: it must be between 0.01% and 100%")
    request = SurfaceRequest(
        path=file,
        page_sizes=page_sizes(page_size or []),
        shared_buffers=None if shared_buffers is None else one_size("--shared-buffers", shared_buffers, least=_LEAST),
        rate=rate,
        seed=seed,
        threads=threads,
    )
    if scheduler is None:
        if parts is not None:
            raise UsageError("--parts divides a trace among the workers of a scheduler; give --scheduler too")
        with counting() as observe:
            document = surface(request, observe)
    else:
        from contextlib import closing

        from octavo.fleet.dask_hosts import DaskHosts
        from octavo.fleet.traces import FleetSimulator, at_absolute_path

        with closing(DaskHosts.of_others(scheduler)) as hosts:
            document = surface(at_absolute_path(request), simulator=FleetSimulator(hosts, parts))
    written = None if out is None else write_text(render(document), out)
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(surface_view(document))
        if written is not None:
            console().print(f"\npage: {written}")


@trace.command()
def simulate(
    context: typer.Context,
    file: _Trace,
    shared_buffers: Annotated[
        str | None, typer.Option(help="Sizes, such as 1GB,4GB; default: the recorded server's.")
    ] = None,
    data_block: Annotated[str | None, typer.Option(help="Sizes, such as 4kB,8kB,32kB; default: the trace's.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="shared_buffers plus page cache; without it no page cache is simulated."),
    ] = None,
    kernel_page: Annotated[
        str | None, typer.Option(help="Page sizes of the page cache, 4kB to 64kB, comma-separated.")
    ] = None,
    readahead: Annotated[str | None, typer.Option(help="read_ahead_kb of the device, comma-separated.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Time between checkpoints, such as 5min; default: as recorded.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads; 0: one per available processor.")] = 0,
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Simulate servers with other sizes, down to device reads.

    Layers: shared buffers, the kernel's page cache, the device. Every combination of the sizes is a row.

    Example: octavo trace simulate shop.octrace --shared-buffers 1GB,4GB --data-block 4kB,8kB,32kB --memory 64GB
    """
    from octavo.cli.output import console, print_json
    from octavo.cli.trace_progress import counting
    from octavo.trace.servers_view import servers_view
    from octavo.trace.simulate import KERNEL_PAGES, SimulationRequest, simulate, sizes
    from octavo.trace.surface import PAGE_SIZES
    from octavo.units import duration_option

    if memory is None:
        refuse_alone(context, dict.fromkeys(("kernel_page", "readahead"), "--memory"))
    request = SimulationRequest(
        path=file,
        shared_buffers=sizes("--shared-buffers", shared_buffers, least=_LEAST),
        data_blocks=sizes("--data-block", data_block, PAGE_SIZES),
        memory=sizes("--memory", memory),
        kernel_pages=sizes("--kernel-page", kernel_page, KERNEL_PAGES),
        readahead=sizes("--readahead", readahead, least=0),
        threads=threads,
        checkpoint=None if checkpoint is None else duration_option("--checkpoint", checkpoint, "1s"),
    )
    with counting() as observe:
        document = simulate(request, observe)
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(servers_view(document))
