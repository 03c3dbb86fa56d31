"""`octavo vm build | run | list`: emulated machines whose kernel has another memory page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.vm.atomics import Atomics

vm = typer.Typer(
    help="Run a command on an emulated kernel with another page size.",
    no_args_is_help=True,
)

_PAGE = Annotated[str, typer.Option("--kernel-page", help="Page size of the machine's kernel: 4kB, 16kB or 64kB.")]
# Not every CPU has 16 kB pages: cortex-a72 has none (ID_AA64MMFR0_EL1.TGran16), and counting compares it with others.
_ATOMICS_PAGE = "4kB"
_MACHINE = Annotated[str, typer.Option("--machine", help="aarch64 or x86-64.")]
# Less memory holds no kernel with its first filesystem, and of less than 1 MB qemu makes its own default; less disk
# has no room for a filesystem.
_LEAST_MEMORY, _LEAST_DISK = 128 * 1024**2, 16 * 1024**2


@vm.command("build")
def build_image(
    kernel_page: _PAGE = "16kB",
    machine: _MACHINE = "aarch64",
    kernel_package: Annotated[
        Path | None, typer.Option(help="Package (.deb) of a kernel to use instead of Debian's.")
    ] = None,
) -> None:
    """Make an image: Debian's kernel with this page size, PostgreSQL.

    Needed once; apt verifies the downloads.

    octavo vm run uses an image of the same page size and has the same default; octavo vm atomics uses one of 4kB.

    \b
    Examples:
    octavo vm build --kernel-page 16kB
    octavo vm build --kernel-page 4kB      for octavo vm atomics
    """
    from octavo.host.journal import Journal
    from octavo.units import human_size
    from octavo.vm.build import ensure
    from octavo.vm.kernels import machine_of, page_of

    kind, page = machine_of(machine), page_of(kernel_page)
    with Journal() as journal:
        image, is_new = ensure(kind, page, journal, print, kernel_package)
    print(f"{'made' if is_new else 'already exists:'} {image.name}: {image.manifest['kernel']}, "
          f"PostgreSQL {image.manifest['postgres']}, {human_size(image.size)}")  # fmt: skip


@vm.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command and its arguments, after --.")],
    kernel_page: _PAGE = "16kB",
    machine: _MACHINE = "aarch64",
    cpu: Annotated[str | None, typer.Option(help="qemu CPU model, such as cortex-a72; default: all features.")] = None,
    memory: Annotated[str, typer.Option(help="Memory of the machine.")] = "1GB",
    disk: Annotated[str, typer.Option(help="Size of the data disk, mounted on /scratch.")] = "4GB",
    cpus: Annotated[int, typer.Option(min=1, max=8, help="Number of processors.")] = 2,
    timeout: Annotated[str, typer.Option(help="Time limit of the machine.")] = "15min",
    copy: Annotated[list[Path] | None, typer.Option(help="File or directory to copy to /scratch; repeatable.")] = None,
    kernel_argument: Annotated[
        list[str] | None, typer.Option(help="Addition to the kernel command line, such as hugepages=64.")
    ] = None,
) -> None:
    """Boot an emulated machine and run a command in it as root.

    Prints the command's output; exit code 1 if it fails. There is no network, and the data disk is temporary.
    start-postgres creates and starts a server. Times are meaningless in emulation; counts are valid.

    \b
    Examples:
    octavo vm run --kernel-page 16kB -- getconf PAGESIZE
    octavo vm run --kernel-page 16kB -- sh -c 'start-postgres && psql -c "SHOW block_size"'
    """
    import sys

    from octavo.errors import UsageError
    from octavo.host.journal import Journal
    from octavo.units import duration_option
    from octavo.vm import images
    from octavo.vm.job import name_of
    from octavo.vm.kernels import machine_of, page_of
    from octavo.vm.machine import Limits
    from octavo.vm.run import run

    limits = Limits(
        _at_least("--memory", memory, _LEAST_MEMORY), _at_least("--disk", disk, _LEAST_DISK), cpus,
        duration_option("--timeout", timeout),
    )  # fmt: skip
    if not limits.seconds:  # for timeout(1) that is no limit
        raise UsageError(f"--timeout {timeout}: it must be above 0s")
    kind, page = machine_of(machine), page_of(kernel_page)
    files = {name_of(path): path for path in copy or []}
    if len(files) != len(copy or []):
        raise UsageError("--copy: two files have the same name; rename one")
    image = images.newest(kind.name, page)
    with Journal() as journal:
        outcome = run(image, command, journal, limits, files=files, cpu=cpu, kernel_arguments=kernel_argument or [])
    sys.stdout.write(outcome.text)
    if outcome.returncode:
        print(f"octavo: the command failed in the machine (exit {outcome.returncode}); see its output", file=sys.stderr)
        raise typer.Exit(1)


def _at_least(option: str, text: str, least: int) -> int:
    """Bytes of a size. Raises UsageError for less."""
    from octavo.errors import UsageError
    from octavo.units import format_size, size_option

    if (size := size_option(option, text)) < least:
        raise UsageError(f"{option} {text}: it must be at least {format_size(least)}")
    return size


@vm.command("atomics")
def count_atomics(
    cpu: Annotated[str, typer.Option(help="qemu CPU models, comma-separated.")] = "max,cortex-a72",
    installation: Annotated[
        Path | None, typer.Option(help="Directory of a 64-bit Arm PostgreSQL to use instead of Debian's.")
    ] = None,
    transactions: Annotated[int, typer.Option(min=1, max=100_000, help="Number of counted transactions.")] = 200,
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """Count a pgbench transaction's atomic instructions (Arm LSE).

    Needs the image with 4 kB pages (octavo vm build --kernel-page 4kB), because cortex-a72 has no 16 kB pages. One
    processor, one client. CPU max has LSE, cortex-a72 does not. Exit code 1 if the server does not run on one of them.

    Example: octavo vm atomics --cpu max,cortex-a72
    """
    from octavo.cli.output import print_json
    from octavo.errors import HostError, OctavoError, UsageError
    from octavo.host.journal import Journal
    from octavo.vm import images
    from octavo.vm.atomics import Atomics, measure

    models = [model.strip() for model in cpu.split(",")]
    if not all(models):
        raise UsageError(f"--cpu {cpu}: name models, separated by commas, such as max,cortex-a72")
    image = images.newest("aarch64", _ATOMICS_PAGE)
    found: list[Atomics] = []
    problems: dict[str, str] = {}
    with Journal() as journal:
        for model in models:
            try:
                found += measure(image, model, journal, transactions, installation)
            except HostError:
                raise
            except OctavoError as error:  # as a program that needs LSE on a CPU that has none
                problems[model] = str(error)
    if format is TableFormat.json:
        print_json(
            [
                {
                    "cpu": one.cpu, "postgres": one.postgres, "transaction": one.transactions,
                    "lse": one.lse, "exclusive": one.exclusive, "counts": dict(one.counts),
                }
                for one in found
            ]
            + [{"cpu": model, "problem": problem} for model, problem in problems.items()]
        )  # fmt: skip
    else:
        _print_atomics(found, problems)
    if problems:
        raise typer.Exit(1)


def _print_atomics(found: "Sequence[Atomics]", problems: Mapping[str, str]) -> None:
    print(f"{'CPU':14}  {'transaction':11}  {'instructions':>12}  {'LSE':>7}  {'exclusives':>10}  of these")
    for one in found:
        parts = ", ".join(f"{name} {n:.1f}" for name, n in one.counts.items() if n >= 0.05 and name != "instructions")
        print(
            f"{one.cpu:14}  {one.transactions:11}  {one.counts['instructions']:12,.0f}  {one.lse:7.1f}  "
            f"{one.exclusive:10.1f}  {parts or 'none'}"
        )
    for model, problem in problems.items():
        print(f"{model:14}  {problem}")


@vm.command("list")
def list_all(
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """List images; octavo cache rm removes them.

    Example: octavo vm list --format json
    """
    from octavo.cli.output import print_json
    from octavo.units import human_size
    from octavo.vm.images import list_images

    rows: list[dict[str, Any]] = [
        {
            "name": image.name,
            **{key: image.manifest[key] for key in ("machine", "kernel_page", "kernel", "postgres", "made")},
            "bytes": image.size,
            "path": str(image.path),
        }
        for image in list_images()
    ]
    if format is TableFormat.json:
        print_json(rows)
        return
    if not rows:
        print("no images yet; make one with: octavo vm build --kernel-page 16kB")
        return
    width = max(len(row["name"]) for row in rows)
    print(f"{'name':{width}}  {'page':>5}  {'on disk':>7}  PostgreSQL, kernel")
    for row in rows:
        print(
            f"{row['name']:{width}}  {row['kernel_page']:>5}  {human_size(row['bytes']):>7}  "
            f"{row['postgres']}, {row['kernel']}"
        )
