"""`octavo`: the verbs, and the one place where an error becomes a line and an exit code.

Heavy libraries are imported inside the verbs, where they are used, so that help is fast.
"""

import errno
import locale
import logging
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from octavo import __version__
from octavo.cli.binary import binary
from octavo.cli.build import build
from octavo.cli.cache import cache
from octavo.cli.compare import compare
from octavo.cli.costs import costs
from octavo.cli.doctor import doctor
from octavo.cli.fleet import fleet
from octavo.cli.host import host
from octavo.cli.hugepages import hugepages
from octavo.cli.import_ import import_
from octavo.cli.io import io
from octavo.cli.iotop import iotop
from octavo.cli.plans import plans
from octavo.cli.predict import predict
from octavo.cli.presets import presets
from octavo.cli.report import report
from octavo.cli.run import run
from octavo.cli.runs import runs
from octavo.cli.shell import shell
from octavo.cli.trace import trace
from octavo.cli.vm import vm
from octavo.cli.watch import watch
from octavo.errors import HostError, Interrupted, OctavoError
from octavo.extras import missing_extra
from octavo.home import octavo_home, secure_home
from octavo.host.foreground import interrupt_once, no_more_interrupts
from octavo.host.journal import recover
from octavo.text import guarded, one_line

_FULL = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_CAUSE = 160

app = typer.Typer(
    name="octavo",
    epilog="Start with: octavo run oltp-blocks-demo. On a live server: octavo doctor",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"octavo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print Octavo's version.")
    ] = False,
) -> None:
    """Octavo, the page-size laboratory for PostgreSQL: finds the page sizes that suit your workload and hardware."""
    del version  # its callback has ended the command


app.command()(run)
app.command()(runs)
app.command()(report)
app.command()(compare)
app.add_typer(import_, name="import")
app.add_typer(presets, name="presets")
app.add_typer(build, name="build")
app.add_typer(cache, name="cache")
app.command(context_settings={"allow_interspersed_args": False})(shell)
app.add_typer(fleet, name="fleet")
app.add_typer(host, name="host")
app.add_typer(hugepages, name="hugepages")
app.command()(doctor)
app.command()(binary)
app.command()(io)
app.command()(watch)
app.command()(iotop)
app.add_typer(trace, name="trace")
app.command()(predict)
app.add_typer(costs, name="costs")
app.add_typer(plans, name="plans")
app.add_typer(vm, name="vm")


def main() -> NoReturn:
    """Runs the command line and exits with its code."""
    os.umask(0o022)  # the servers' user has to reach builds and sockets
    files_are_utf8()
    _open_standard_streams()
    # A COPY whose connection is lost when a run is interrupted: the line that we print says why already.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    sys.stdout, sys.stderr = guarded(sys.stdout), guarded(sys.stderr)
    try:
        interrupt_once()
        code = _run()
        no_more_interrupts()
    except KeyboardInterrupt:
        no_more_interrupts()
        print("octavo: interrupted", file=sys.stderr)
        code = Interrupted.exit_code
    sys.exit(code)


def _open_standard_streams() -> None:
    """Opens /dev/null for closed standard streams (`octavo … >&-`), so that no file opened later gets their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 until the end


def files_are_utf8() -> None:
    """Files and programs use UTF-8, whatever the terminal is set to (LC_ALL=de_DE.ISO-8859-1)."""
    with suppress(locale.Error):  # glibc before 2.35 need not have it
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")


def _run() -> int:
    """Restores what earlier commands left changed, and runs this one. Returns its exit code."""
    try:
        if sys.argv[1:3] != ["host", "restore"]:  # which does it, and tells it itself
            _recover()
        code = _call(sys.argv[1:] or ["--help"])
        sys.stdout.flush()
    except OctavoError as error:
        print(f"octavo: {_line(str(error))}", file=sys.stderr)
        code = error.exit_code
    except BrokenPipeError:
        # The reader has gone, as `octavo runs | head` may; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        print(f"octavo: {_line(_of_the_system(error))}", file=sys.stderr)
        code = HostError.exit_code
    return code


def _recover() -> None:
    """Restores what killed commands left changed. Problems are warnings only, because most commands do not need it."""
    try:
        octavo_home()
    except OctavoError:  # a command that needs a home says so itself
        return
    try:
        secure_home()
        for line in recover():
            print(f"octavo: {line}", file=sys.stderr)
    except (OctavoError, OSError) as error:
        message = _line(str(error) if isinstance(error, OctavoError) else _of_the_system(error))
        print(f"octavo: could not restore what an interrupted command had changed: {message}", file=sys.stderr)


def _call(arguments: list[str]) -> int:
    """Parses and calls without click's own handling of errors, whose messages take several lines."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("octavo", arguments) as context:
            command.invoke(context)
    except OctavoError:
        raise
    except ImportError as error:
        if needed := missing_extra(error):
            raise needed from error
        raise
    except Exception as error:  # click's own errors carry a message, its exits only a code
        code: int | None = getattr(error, "exit_code", None)
        if code is None:
            if (problem := _of_a_server(error)) is not None:
                raise HostError(problem) from error
            raise
        if message := getattr(error, "format_message", None):
            text = str(message())
            # A group without a command is answered with its help, which is more than a line.
            help_itself = type(error).__name__ == "NoArgsIsHelpError"
            print(text if help_itself else _in_a_line(text, getattr(error, "ctx", None)), file=sys.stderr)
        return code
    return 0


def _of_a_server(error: Exception) -> str | None:
    """The message for an answer that no command expects: the server has gone, or is not PostgreSQL; None for other
    errors."""
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    from octavo.postgres.server_answers import WRONG
    from octavo.postgres.user_connection import UsersConnection, without_secrets

    if isinstance(error, WRONG) and UsersConnection.any_opened:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = one_line(f"{type(error).__name__}: {error}")[:_LONGEST_CAUSE]
        return (
            f"the server's responses are not PostgreSQL's ({what}; {Path(place.filename).name}, line {place.lineno}); "
            "connect to PostgreSQL itself; if this is PostgreSQL, please report it"
        )
    if not isinstance(error, psycopg.Error):
        return None
    text = one_line(without_secrets(str(error)))
    return f"the server no longer responds as PostgreSQL does: {text or type(error).__name__}; see its log"


def _line(text: str) -> str:
    """A message in one line, whatever is in the names that it quotes.

    >>> _line("a  b cannot be read"), _line("a\\n b cannot be read")
    ('a  b cannot be read', 'a b cannot be read')
    """
    return text if text.isprintable() else one_line(text)


def _in_a_line(text: str, context: typer.Context | None) -> str:
    """Click's message in one line; with a context, also the command that shows the help.

    >>> _in_a_line("No such command 'repot'. Did you mean 'report'?", None)
    "octavo: no such command 'repot'; did you mean 'report'?"
    """
    words = one_line(text).rstrip(".").replace(". Did you mean", "; did you mean")
    line = f"octavo: {words[:1].lower()}{words[1:]}"
    if context is None:
        return line
    way_out = f"{context.command_path} --help"
    return f"{line} ({way_out})" if line.endswith("?") else f"{line}; see {way_out}"


def _of_the_system(error: OSError) -> str:
    """The message for an error of the system: what it refused, where, and how to fix it."""
    where = f"{error.filename}: " if error.filename else f"below {octavo_home()}: " if error.errno in _FULL else ""
    if error.errno in _FULL:
        way_out = "free some space there, then run the command again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        way_out = "grant this user access, or set OCTAVO_HOME to a directory that it owns"
    else:
        way_out = "fix this, then run the command again"
    return f"{where}{error.strerror or error}; {way_out}"
