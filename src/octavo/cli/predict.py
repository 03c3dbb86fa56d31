"""`octavo predict`: what another page size would do to a recorded workload, without a rebuild."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.choices import TableFormat
from octavo.cli.given import given, refuse_alone
from octavo.errors import UsageError

if TYPE_CHECKING:
    from octavo.predict.predict import Request as PredictionRequest


# A run's cells say these themselves, and --against compares all of their data blocks.
_OF_THE_RUN = (
    "data_block", "wal_block", "shared_buffers", "memory", "huge_pages", "clients", "until_checkpoint", "what_if",
    "device_price", "memory_price",
)  # fmt: skip


def predict(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace (.octrace).")],
    data_block: Annotated[str, typer.Option(help="Data blocks to predict, such as 4kB,8kB,32kB, or all.")] = "all",
    wal_block: Annotated[str | None, typer.Option(help="WAL blocks to predict, or all; default: as recorded.")] = None,
    shared_buffers: Annotated[str | None, typer.Option(help="Such as 1GB,4GB; default: as recorded.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="shared_buffers plus page cache; without it no page cache is simulated.")
    ] = None,
    kernel_page: Annotated[
        str | None, typer.Option(help="The kernel's page, 4kB to 64kB; default: as recorded, or 4kB.")
    ] = None,
    huge_pages: Annotated[
        bool, typer.Option("--huge-pages", help="Assume that shared memory is in huge pages.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="A named volume, as gp3:3000/125 or iops=2000, or a file of octavo io probe --format json."),
    ] = None,
    recorded_device: Annotated[
        str | None, typer.Option(help="Limits of the device that the trace was recorded on, as for --device.")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Number of clients; default: as recorded.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Time between checkpoints, such as 5min; default: as recorded.")
    ] = None,
    until_checkpoint: Annotated[
        bool,
        typer.Option("--until-checkpoint", help="Predict only the time after a checkpoint and before the next."),
    ] = False,
    readahead: Annotated[
        str | None, typer.Option(help="read_ahead_kb of the device, such as 4MB; default: as recorded, or 128kB.")
    ] = None,
    dirty_background: Annotated[
        str | None,
        typer.Option(
            help="Dirty memory at which the kernel begins to write back; default: 10 % of the page cache. For "
            "a server in a memory-limited group of cgroup version 1: the host's."
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None, typer.Option(help="transactions=2x, data=4x or device=gp3:6000/250; repeatable.")
    ] = None,
    device_price: Annotated[
        float | None, typer.Option(help="Price of the device, above 0, for the five-minute rule.")
    ] = None,
    memory_price: Annotated[
        float | None, typer.Option(help="Price of 1 GB of memory, above 0, in the same currency and period.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare the predictions with this run (its id, or last).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="With --against: only these trials, such as mode=read-only; repeatable."),
    ] = None,
    disturbed: Annotated[
        bool,
        typer.Option(
            "--disturbed",
            help="With --against: include trials that are invalid because other processes disturbed them.",
        ),
    ] = False,
    private_memory: Annotated[
        str, typer.Option(help="With --against: the part of the run's memory limit that processes use privately.")
    ] = "64MB",
    exact: Annotated[
        bool, typer.Option("--exact", help="Simulate all pages; default: a sample of the pages of a large trace.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write an HTML page to this file.")] = None,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads; 0: one per available processor.")] = 0,
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Predict reads, WAL, memory and TPS at other page sizes.

    Every figure has an interval and names the assumption that widens it most. Query plans are not predicted. Exit code
    3 if the trace is unsuitable (too short, lost accesses).

    \b
    Example:
    octavo predict shop.octrace --memory 64GB --device gp3:3000/125 -o shop.html
    """
    from octavo.cli.output import console, print_json
    from octavo.cli.trace_progress import counting
    from octavo.predict.five_minutes import Prices
    from octavo.predict.predict import WAL_BLOCKS, Request, predict
    from octavo.predict.render import view
    from octavo.predict.what_if import what_if as parse_what_if
    from octavo.trace.simulate import KERNEL_PAGES, one_size, sizes
    from octavo.trace.surface import PAGE_SIZES
    from octavo.units import duration_option

    every = None if checkpoint is None else duration_option("--checkpoint", checkpoint, "1s")
    changes = parse_what_if(what_if or [])
    _refuse_ignored(context, against=against is not None)
    if clients is not None and changes.transactions != 1:
        raise UsageError("--clients and --what-if transactions both set the number of clients; give one of them")
    if device is not None and changes.device is not None:
        raise UsageError("--device and --what-if device both name the predicted device; give one of them")
    request = Request(
        path=file,
        data_blocks=PAGE_SIZES if data_block == "all" else sizes("--data-block", data_block, PAGE_SIZES),
        wal_blocks=WAL_BLOCKS if wal_block == "all" else sizes("--wal-block", wal_block, WAL_BLOCKS),
        shared_buffers=sizes("--shared-buffers", shared_buffers, least=128 * 1024),
        memory=None if memory is None else one_size("--memory", memory),
        kernel_page=None if kernel_page is None else one_size("--kernel-page", kernel_page, KERNEL_PAGES),
        device=device,
        recorded_device=recorded_device,
        clients=clients,
        checkpoint=every,
        until_checkpoint=until_checkpoint,
        readahead=None if readahead is None else one_size("--readahead", readahead, least=0),
        dirty_background=None if dirty_background is None else one_size("--dirty-background", dirty_background),
        huge_pages=huge_pages,
        prices=Prices(device_price, memory_price),
        what_if=changes,
        threads=threads,
        exact=exact,
    )
    if against is not None:
        _against(request, against, where or [], private_memory, format, disturbed=disturbed)
        return
    with counting() as observe:
        document = predict(request, observe)
    if out is not None:
        from octavo.predict.page import render
        from octavo.report.text_file import write_text

        written = write_text(render(document), out)
    else:
        written = None
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(view(document))
        if written is not None:
            console().print(f"\npage: {written}")


def _refuse_ignored(context: typer.Context, *, against: bool) -> None:
    """Raises UsageError for options that would change nothing."""
    options = given(context)
    if against and "out" in options:
        raise UsageError("--out writes the page of a prediction, and --against has none; give one of them")
    if against and (ignored := next((options[name] for name in _OF_THE_RUN if name in options), None)):
        raise UsageError(f"--against takes {ignored} from the run's trials, or predicts no such figure; leave it out")
    if not against:
        refuse_alone(context, dict.fromkeys(("where", "disturbed", "private_memory"), "--against"))
        if "memory" not in options:
            refuse_alone(context, dict.fromkeys(("readahead", "dirty_background"), "--memory"))
    prices = ("device_price", "memory_price")
    for name, other in (prices, prices[::-1]):
        if other not in options:
            refuse_alone(context, {name: f"--{other.replace('_', '-')}"})


def _against(
    request: "PredictionRequest", run: str, where: list[str], private: str, format: TableFormat, *, disturbed: bool
) -> None:
    from contextlib import closing

    from octavo.analysis.document import make_document
    from octavo.cli.output import console, print_json
    from octavo.cli.trace_progress import counting
    from octavo.predict.against import compare, parse_where
    from octavo.predict.render_against import view
    from octavo.store.address import store_address
    from octavo.store.failures import content_of
    from octavo.store.listing import find_run
    from octavo.store.store import Store
    from octavo.units import size_option

    levels, aside = parse_where(where), size_option("--private-memory", private)
    identifier = find_run(store_address(), run)
    with content_of(identifier, store_address()):
        with closing(Store.open_to_read(store_address())) as store:
            measured = make_document(store, identifier, most_numbers=None)
        with counting() as observe:
            document = compare(request, measured, levels, aside, observe, disturbed=disturbed)
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(view(document))
