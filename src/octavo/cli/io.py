"""`octavo io`: what this storage does at each request size and pattern."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.given import given, refuse_alone
from octavo.errors import OctavoError, UsageError

if TYPE_CHECKING:
    from octavo.io.sweep import Sweep


class IoFormat(StrEnum):
    """How measurements are printed."""

    text = "text"
    json = "json"
    thread = "thread"


class Pattern(StrEnum):
    """In which order blocks are visited."""

    sequential = "sequential"
    random = "random"
    runs = "runs"
    strided = "strided"
    list = "list"


class Cache(StrEnum):
    """The page cache before each measurement."""

    cold = "cold"
    warm = "warm"
    both = "both"
    found = "found"


class ReadaheadAdvice(StrEnum):
    """Advice to the kernel about the files."""

    normal = "normal"
    random = "random"
    sequential = "sequential"


def io(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="A file, the segment files of a relation, or a device."),
    ] = None,
    pattern: Annotated[Pattern, typer.Option(help="Order of the blocks; runs: random runs of --run blocks.")] = (
        Pattern.random
    ),
    block: Annotated[str | None, typer.Option(help="Block size; default: 8kB, or that of the server of --dsn.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="How blocks become requests: single, run, coalesced, cache-first, fadvise, preadv, io_uring, "
            "io_uring-coalesced, or all."
        ),
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=1, help="Blocks in a run; default: 16, for random and strided 1.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Blocks from the start of one run to the next; default: 16 runs.")
    ] = None,
    block_list: Annotated[
        Path | None, typer.Option(help="File of blocks for --pattern list: one number or range per line.")
    ] = None,
    from_query: Annotated[
        str | None, typer.Option(help="Read the blocks that a bitmap heap scan of this query visits.")
    ] = None,
    dsn: Annotated[str, typer.Option(help="Connection string of the server for --from-query.")] = "",
    max_request: Annotated[str | None, typer.Option(help="Largest combined request; default: 128kB.")] = None,
    hole: Annotated[int, typer.Option(min=0, help="Largest gap, in blocks, that is read through.")] = 0,
    distance: Annotated[int, typer.Option(min=1, help="Prefetch distance of the policy fadvise, in blocks.")] = 32,
    depth: Annotated[int, typer.Option(min=1, help="Requests in flight with io_uring, per thread.")] = 32,
    threads: Annotated[int, typer.Option(min=1, help="Threads; each reads its share of the blocks.")] = 1,
    cache: Annotated[
        Cache, typer.Option(help="Page cache before each measurement; cold: the files are dropped from it.")
    ] = Cache.cold,
    direct: Annotated[bool, typer.Option("--direct", help="Bypass the page cache (O_DIRECT).")] = False,
    readahead: Annotated[
        ReadaheadAdvice, typer.Option(help="Access pattern announced by posix_fadvise, which sets the readahead.")
    ] = ReadaheadAdvice.normal,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit of each measurement; default: 5 s; a block list: once.")
    ] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Block limit of each measurement.")] = None,
    bytes: Annotated[str | None, typer.Option(help="Limit of each measurement as a size.")] = None,
    segments: Annotated[
        bool, typer.Option("--segments", help="Also read FILE.1, FILE.2 …, a table's segment files.")
    ] = False,
    make: Annotated[str | None, typer.Option(help="Create FILE with this size first; it is kept.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write instead of read, into a file that octavo io created.")
    ] = False,
    price: Annotated[
        str | None, typer.Option(help="With probe: memory that costs as much as the device, such as 77GB.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify every block of a file that octavo io created.")
    ] = False,
    i_will_lose_this_device: Annotated[
        bool, typer.Option("--i-will-lose-this-device", help="Allow --write to a device.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random order.")] = 1,
    format: Annotated[IoFormat, typer.Option(help="Output format: a table, JSON, or that of pgiosim.")] = IoFormat.text,
) -> None:
    """Measure storage by request size, access pattern and I/O policy.

    Only reads, unless --make or --write is given. The default --cache cold drops the files from the page cache.

    octavo io probe FILE estimates the device's own sizes: the size from which bandwidth dominates latency, its limits,
    a token bucket. With --write, in a file that octavo io created: the cost of small, unaligned and repeated writes.
    For a file named probe write ./probe.

    Example: octavo io /data/test --make 1GB --pattern runs --policy all
    """  # fmt: skip
    paths = [Path(file) for file in files or ()]
    if files and files[0] == "probe":
        if write:
            _probe_writes(context, paths[1:], seconds, seed, format, lose_device=i_will_lose_this_device)
        else:
            _probe(context, paths[1:], seconds, seed, format, price)
        return
    if price is not None:
        raise UsageError("--price has no effect here; it is for octavo io probe: octavo io probe FILE --price 77GB")
    _refuse_without_effect(
        context, pattern, tuple(policy or ("single",)), block_list, from_query, direct=direct, write=write
    )

    from octavo.cli.io_progress import IoProgress
    from octavo.cli.output import console, print_json
    from octavo.io.render import as_thread, print_table
    from octavo.io.request import SweepRequest, sweep_of
    from octavo.io.sweep import document, run_sweep

    request = SweepRequest(
        files=tuple(paths), segments=segments, make=make, lose_device=i_will_lose_this_device,
        pattern=pattern.value, block=block, run=run, stride=stride, seed=seed,
        block_list=block_list, from_query=from_query, dsn=dsn,
        policies=tuple(policy or ("single",)), max_request=max_request, hole=hole, distance=distance, depth=depth,
        threads=threads, cache=cache.value, direct=direct, readahead=readahead.value, write=write, verify=verify,
        seconds=seconds, blocks=blocks, bytes=bytes,
    )  # fmt: skip
    results: list[dict[str, object]] = []

    def show(sweep: "Sweep", facts: dict[str, object]) -> None:
        found = document(sweep, facts, results)
        if format is IoFormat.json:
            print_json(found)
        elif format is IoFormat.thread:
            print(as_thread(found))
        else:
            print_table(found, console())

    with IoProgress() as progress:
        sweep, facts = sweep_of(request, progress.observe)
        try:
            run_sweep(sweep, progress.begin, facts, results)
        except (KeyboardInterrupt, OctavoError):
            progress.stop()
            if any(result["status"] == "ok" for result in results):
                show(sweep, facts)
            raise
    show(sweep, facts)


def _refuse_without_effect(
    context: typer.Context,
    pattern: Pattern,
    names: tuple[str, ...],
    block_list: Path | None,
    from_query: str | None,
    *,
    direct: bool,
    write: bool,
) -> None:
    """Raises UsageError for an option that these would ignore."""
    from octavo.io.policies import find_policies

    listed = block_list is not None or from_query is not None
    if block_list is not None and from_query is not None:
        raise UsageError("--block-list and --from-query both say which blocks; give one of them")
    ignored = ("pattern", "run", "stride") if listed and pattern is not Pattern.list else ("run", "stride")
    for name, option in given(context).items():
        if listed and name in ignored:
            raise UsageError(f"{option} has no effect on a block list; leave it out")
        if direct and name in ("cache", "readahead"):
            raise UsageError(f"{option} has no effect with --direct, which bypasses the page cache; leave one out")
    policies = find_policies(names)
    joins = any(policy.joining == "coalesced" for policy in policies)
    needs = {
        "dsn": (from_query is not None, "--from-query"),
        "stride": (pattern is Pattern.strided, "--pattern strided"),
        "hole": (joins, "--policy coalesced"),
        "max_request": (joins, "--policy coalesced"),
        "distance": (any(policy.method == "advised" for policy in policies), "--policy fadvise"),
        "depth": (any(policy.method == "ring" for policy in policies), "--policy io_uring"),
        "i_will_lose_this_device": (write, "--write"),
    }
    refuse_alone(context, {name: needed for name, (met, needed) in needs.items() if not met})


# Seconds of a probe, and the options that it has.
_PROBE_SECONDS = 30.0
_PROBE_OPTIONS = ("files", "seconds", "seed", "format", "price")
_WRITE_OPTIONS = ("files", "seconds", "seed", "format", "write", "i_will_lose_this_device")


def _probe(
    context: typer.Context,
    files: list[Path],
    seconds: float | None,
    seed: int,
    format: IoFormat,
    price: str | None,
) -> None:
    from octavo.cli.io_progress import IoProgress
    from octavo.cli.output import console, print_json
    from octavo.io.probe import Probe, probe
    from octavo.io.render_probe import print_probe
    from octavo.units import size_option

    _check_probe(context, files, format, _PROBE_OPTIONS)
    costs = None if price is None else size_option("--price", price, "1kB")
    total = seconds or _PROBE_SECONDS
    with IoProgress() as progress:
        document = probe(Probe(files[0], total, seed, progress.probing(total), costs))
    if format is IoFormat.json:
        print_json(document)
    else:
        print_probe(document, console())


def _probe_writes(
    context: typer.Context,
    files: list[Path],
    seconds: float | None,
    seed: int,
    format: IoFormat,
    *,
    lose_device: bool,
) -> None:
    from octavo.cli.io_progress import IoProgress
    from octavo.cli.output import console, print_json
    from octavo.io.render_write_probe import print_write_probe
    from octavo.io.write_probe import WriteProbe, write_probe

    _check_probe(context, files, format, _WRITE_OPTIONS, " --write")
    total = seconds or _PROBE_SECONDS
    with IoProgress() as progress:
        document = write_probe(WriteProbe(files[0], total, seed, progress.probing(total), lose_device=lose_device))
    if format is IoFormat.json:
        print_json(document)
    else:
        print_write_probe(document, console())


def _check_probe(
    context: typer.Context, files: list[Path], format: IoFormat, options: tuple[str, ...], which: str = ""
) -> None:
    for name, option in given(context).items():
        if name not in options:
            known = ", ".join(f"--{one.replace('_', '-')}" for one in options[1:])
            raise UsageError(f"octavo io probe{which} does not take {option}; allowed: {known}")
    if len(files) != 1 or format is IoFormat.thread:
        raise UsageError(
            "octavo io probe takes one file or device, and prints text or json: octavo io probe /data/test"
        )
