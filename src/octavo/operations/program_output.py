"""Output of servers and programs, and commands quoted for PostgreSQL's settings."""

import re
import shlex
from pathlib import Path

from octavo.host.children import Finished


def server_errors(text: str) -> str:
    """The errors in a server's log, with their details and hints, without times and pids."""
    words: list[str] = re.findall(r"(?:FATAL|PANIC|ERROR|DETAIL|HINT): .*", text)
    return " ".join(re.sub(r":\s+", ": ", word, count=1) for word in dict.fromkeys(words))


def last_line(finished: Finished) -> str:
    """The last line that a program wrote, other than pg_upgrade's farewell."""
    lines = [line.strip() for line in (finished.stdout + "\n" + finished.stderr).splitlines()]
    telling = [line for line in lines if line not in ("", "Failure, exiting")]
    return telling[-1] if telling else "no output"


def shell_word(path: Path) -> str:
    """A path as a word of archive_command or restore_command, which go to a shell and expand %p and %f."""
    return shlex.quote(str(path).replace("%", "%%"))
