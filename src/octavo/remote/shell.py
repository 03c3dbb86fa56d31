"""Commands on another host: over SSH, or through the words that the file of hosts has instead."""

import math
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import AT_ONCE, command_line
from octavo.text import one_line

_MOST_OUTPUT = 16 * 1024**2
_COULD_NOT = 255  # what ssh exits with when it could not do it


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command on a host said; `code` is None when it took too long."""

    host: RemoteHost
    code: int | None
    stdout: str
    stderr: str

    @property
    def problem(self) -> str | None:
        """In a line, why there is no answer; None when the command ended well."""
        if self.code == 0:
            return None
        said = self.stderr.strip() or self.stdout.strip()
        last = one_line(said.splitlines()[-1])[:300] if said else "no output"
        return "no answer in time" if self.code is None else last.removeprefix("octavo: ")


def words_for(host: RemoteHost, arguments: Sequence[str], seconds: int) -> list[str]:
    """The local command line that runs Octavo with these arguments on the host, for so many seconds at the most.

    >>> words_for(RemoteHost("a", "10.0.0.7", user="root"), ["fleet", "check"], 120)[-4:]
    ['-l', 'root', '10.0.0.7', 'timeout 120 octavo fleet check']
    """
    command = [*host.octavo, *arguments]
    return [*host.through, *command] if host.through else command_line(host, command, seconds)


def ask(host: RemoteHost, arguments: Sequence[str], *, text: str = "", seconds: float = 120.0) -> Answer:
    """Runs Octavo with these arguments on the host; `text` is its standard input."""
    words = words_for(host, arguments, math.ceil(seconds))
    try:
        done = subprocess.run(
            words, input=text.encode(), capture_output=True, check=False, timeout=seconds, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return Answer(host, None, "", "")
    except OSError as error:
        return Answer(host, _COULD_NOT, "", f"{words[0]} cannot be started: {error.strerror}")
    out, err = (stream[:_MOST_OUTPUT].decode(errors="replace") for stream in (done.stdout, done.stderr))
    return Answer(host, done.returncode, out, err)


def ask_all(hosts: Sequence[RemoteHost], arguments: Sequence[str], *, seconds: float = 120.0) -> list[Answer]:
    """The same of every host, many at once; in their order."""

    def one(host: RemoteHost) -> Answer:
        return ask(host, arguments, seconds=seconds)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, hosts))
