"""Queries a stopped cluster: runs `postgres -C` of the right version, as the owner of the data directory.

PostgreSQL computes its shared memory only when no server runs on the directory (manual, `postgres -C`): it takes the
directory's lock file briefly, and starts no server.
"""

import os
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.home import changer_of, resolve_by_steps
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.owner import owner_of
from octavo.host.safe_read import read_text
from octavo.hugepages.postmaster_files import last_options, refuse_running
from octavo.postgres.versions import is_version, major_of
from octavo.text import one_line

_OLDEST = 15
_LIMITED = ("timeout", "--kill-after=5", "60")  # seconds; in vain its exit code is 124 (timeout(1))
_MOST_BYTES = 1024**2
# Where distributions keep the programs of a major version: Debian's and Ubuntu's, the PGDG's RPMs, the source's own.
_PLACES = ("/usr/lib/postgresql/{major}/bin", "/usr/pgsql-{major}/bin", "/usr/local/pgsql/bin")
# Of any version: 9.6.24, and what --with-extra-version adds to one.
_VERSION = re.compile(r"\(PostgreSQL\) (([0-9]{1,9})\S*)")
_LEVEL = re.compile(r"\b(FATAL|DETAIL|LOG|HINT):\s+(.*\S)")


@contextmanager
def asking(pgdata: Path, bindir: Path | None) -> Generator[tuple[Callable[[str, int], str], str], None, None]:
    """A function that reads a setting of the cluster at a huge_page_size in bytes (0: its own), and the program that it
    uses.

    Raises UsageError if it is not a cluster or a server runs on it, HostError without permission or without a program.
    """
    directory, data = _directories(pgdata)
    owner = _owner(data)
    refuse_running(data)
    text = _text(data / "PG_VERSION").strip()
    if not is_version(text):
        raise UsageError(f"{data / 'PG_VERSION'} contains {text!r}, which is not a version; is this a data directory?")
    major = major_of(text)
    if major < _OLDEST:
        raise HostError(f"{pgdata} is of PostgreSQL {major}; computing its huge pages needs {_OLDEST} or later")
    options = last_options(data)
    names = ", ".join(setting.partition("=")[0] for setting in options[1::2])
    given = f", with the options of its last start ({names})" if options else ""
    with Journal() as journal:
        program, how = _program(major, bindir, journal, owner)

        def ask(name: str, size: int) -> str:
            # What it reads is the data's owner's, who may have put a FIFO there.
            arguments: list[str | Path] = [*_LIMITED, program, "-D", directory, "-C", name, *options]
            if size:
                arguments += ["-c", f"huge_page_size={size // 1024}kB"]
            finished = children.run(arguments, journal, role="postgres -C", account=owner)
            if finished.returncode == 124:
                raise UsageError(f"--pgdata {pgdata}: {program} printed no {name} in time")
            if finished.returncode != 0:
                raise UsageError(f"--pgdata {pgdata}: {program} refuses it{given}: {_words(finished.stderr)}")
            return finished.stdout.strip()

        try:
            yield ask, f"postgres -C, {program} ({how}){given}"
        except (ValueError, IndexError) as error:  # what a library of the data's owner may print
            raise UsageError(
                f"--pgdata {pgdata}: {program} does not answer as PostgreSQL does ({error!r:.100})"
            ) from None


def data_directory(pgdata: Path) -> Path:
    """Where the data of a cluster are, which may be apart from its configuration. Raises UsageError and HostError."""
    return _directories(pgdata)[1]


def _directories(pgdata: Path) -> tuple[Path, Path]:
    """Where the configuration is, and where the data: Debian keeps postgresql.conf apart, with data_directory in it.

    Both without links, so that what is asked is what was looked at. For root nobody but the data's owner, whom the
    program runs as, can put another directory there meanwhile.
    """
    steps: dict[Path, os.stat_result] = {}
    try:
        configuration = _resolved(pgdata, steps)
        if (configuration / "PG_VERSION").is_file():
            if not (configuration / "postgresql.conf").is_file():
                raise UsageError(
                    f"{pgdata} has no postgresql.conf; give the directory that has it, such as /etc/postgresql/15/main"
                )
            _check_steps(pgdata, configuration, steps)
            return configuration, configuration
        file = _resolved(configuration / "postgresql.conf", steps)
        text = _text(file)
        if found := re.findall(r"^\s*data_directory\s*=?\s*'([^']+)'", text, re.MULTILINE):
            data = _resolved(Path("/") / found[-1], steps)  # where the program is started
            if (data / "PG_VERSION").is_file():
                _check_whose(configuration, file, data)
                _check_steps(pgdata, data, steps)
                return configuration, data
    except PermissionError:
        raise HostError(f"this user may not read {pgdata}; run as the server's user or as root") from None
    except (OSError, ValueError):  # not there, or no path at all
        pass
    raise UsageError(
        f"{pgdata} is not a data directory; before initdb: octavo hugepages plan without --pgdata, or octavo doctor "
        "--before-start"
    )


def _resolved(path: Path, steps: dict[Path, os.stat_result]) -> Path:
    """The path without links; `steps` has what was seen on the way, as it was then. Raises OSError, HostError."""

    def look(step: Path) -> None:
        steps[step] = step.lstat()

    return resolve_by_steps(path.absolute(), look, f"--pgdata {path}")


def _check_steps(pgdata: Path, data: Path, steps: Mapping[Path, os.stat_result]) -> None:
    """For root: raises UsageError when a step is not root's or the data's owner's, or others may change it."""
    if os.geteuid() != 0:
        return
    trusted = {0, owner_of(steps[data])}
    for step, facts in steps.items():
        if why := changer_of(facts, trusted):
            raise UsageError(
                f"--pgdata {pgdata}: {step} {why}, who could put another cluster there; run as the server's user"
            )


def _check_whose(configuration: Path, file: Path, data: Path) -> None:
    """Raises UsageError when the configuration is somebody else's than the data: what it has the server load would run
    as the data's owner."""
    owner = owner_of(data.stat())
    for path in (configuration, file):
        facts = path.stat()
        if owner_of(facts) not in {0, owner} or facts.st_mode & 0o002:
            raise UsageError(f"{path} is neither root's nor that of the owner of {data}, or others may write it")


def _text(path: Path) -> str:
    try:
        return read_text(path.resolve(), _MOST_BYTES)  # a configuration may be kept elsewhere, behind a link
    except ValueError as error:
        raise UsageError(f"{error}; is it PostgreSQL's?") from None


def _owner(data: Path) -> Account | None:
    """Who the programs run as, None for ourselves: PostgreSQL refuses root, and others may not look inside."""
    owner = children.owner_account(owner_of(data.stat()))
    if os.geteuid() == 0:
        return owner
    if owner.uid != os.geteuid():
        raise HostError(f"{data} belongs to {owner.name}; run as that user or as root")
    return None


def _program(major: int, bindir: Path | None, journal: Journal, owner: Account | None) -> tuple[Path, str]:
    """The `postgres` of this major version, and how it was found."""
    candidates: list[tuple[Path, str]] = []
    if bindir is not None:
        candidates.append((bindir / "postgres", "by --bindir"))
    else:
        if on_path := shutil.which("postgres"):
            candidates.append((Path(on_path).resolve(), "on the PATH"))
        if reported := _pg_config(journal, owner):
            candidates.append(((reported / "postgres").resolve(), "by pg_config"))
        candidates += [(Path(place.format(major=major)) / "postgres", "where packages put it") for place in _PLACES]
    tried: list[str] = []
    seen: set[Path] = set()
    for program, how in candidates:
        if program in seen:
            continue
        seen.add(program)
        if not program.is_file():
            tried.append(f"{program} does not exist")
            continue
        finished = children.run([*_LIMITED, program, "--version"], journal, role="postgres --version", account=owner)
        found = _VERSION.search(finished.stdout)
        if found and int(found[2]) == major:
            return program.absolute(), how
        tried.append(f"{program} is {found[1] if found else 'none that this user can run'}")
    if bindir is not None:
        raise UsageError(f"--bindir {bindir}: the cluster is of PostgreSQL {major}, and {tried[0]}")
    raise HostError(f"no postgres of version {major} was found ({'; '.join(tried)}); specify it with --bindir")


def _pg_config(journal: Journal, owner: Account | None) -> Path | None:
    """The directory of programs that the pg_config on our PATH names; None without one."""
    if (program := shutil.which("pg_config")) is None:
        return None
    finished = children.run([*_LIMITED, program, "--bindir"], journal, role="pg_config", account=owner)
    directory = finished.stdout.strip()
    return Path(directory) if finished.returncode == 0 and directory else None


def _words(stderr: str) -> str:
    """PostgreSQL's reason, without the time and the process before each line.

    That is the FATAL line and its DETAIL; where that only says that a file has errors, what the log says they are.
    """
    lines = [
        (level, text) for line in stderr.splitlines() if (at := _LEVEL.search(line)) for level, text in [at.groups()]
    ]
    reason = [text for level, text in lines if level in ("FATAL", "DETAIL")]
    errors = [text for level, text in lines if level in ("LOG", "HINT")]
    if errors and any("contains errors" in text for text in reason):
        reason = errors
    text = "; ".join(reason) or one_line(stderr) or "no output"
    return f"{text}; is it the right program? specify it with --bindir" if "compiled with" in text else text
