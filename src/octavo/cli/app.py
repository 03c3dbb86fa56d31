"""`octavo`: the verbs, and the one place where an error becomes a line and an exit code.

Heavy libraries are imported inside the verbs, where they are used, so that help answers at once.
"""

import os
import signal
import sys
from typing import NoReturn

import typer

from octavo.cli.build import build
from octavo.cli.host import host
from octavo.cli.presets import presets
from octavo.cli.report import report
from octavo.cli.run import run
from octavo.cli.runs import runs
from octavo.errors import Interrupted, OctavoError
from octavo.host.journal import recover

app = typer.Typer(
    name="octavo",
    help="Octavo, the page-size laboratory for PostgreSQL: measures what page sizes your workload should run on, here.",
    epilog="Begin with: octavo run oltp-blocks-demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(runs)
app.command()(report)
app.add_typer(presets, name="presets")
app.command()(build)
app.command()(host)


def main() -> NoReturn:
    """Runs the command line and exits with its code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        for line in recover():
            print(f"octavo: {line}", file=sys.stderr)
        code = _call()
        sys.stdout.flush()
    except OctavoError as error:
        print(f"octavo: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("octavo: interrupted", file=sys.stderr)
        code = Interrupted.exit_code
    except BrokenPipeError:
        # The reader has gone, as `octavo runs | head` may; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _call() -> int:
    command = typer.main.get_command(app)
    try:
        result = command.main(prog_name="octavo", standalone_mode=False)
    except Exception as error:  # click's own errors carry a message and an exit code
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        print(f"octavo: {message()}", file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    return result if isinstance(result, int) else 0


def _as_interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
