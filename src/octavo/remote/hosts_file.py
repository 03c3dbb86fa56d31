"""The hosts that `octavo doctor --hosts` looks at and `octavo fleet` runs on, as a TOML file:

    [defaults]                      # for all hosts; optional, as is each of its lines
    user = "octavo"                 # default: ssh's
    octavo = "/opt/octavo/octavo"   # the command there, split into words as by a shell; default: octavo
    identity = "keys/fleet"         # a private key; a relative path starts at this file's directory
    known_hosts = "keys/known"      # the hosts' public keys, instead of ssh's file

    [[host]]
    name = "db1"                    # its name in reports
    address = "db1.example.com"     # a name or an address; default: the name
    port = 2222                     # default: ssh's
    class = "x86-nvme"              # the same for hosts that are alike; default: all are alike
    octavo = "python3 octavo.pyz"
    listen = "10.0.0.7:8790"        # where its worker listens; default: the address and port 8790
    through = "ip netns exec db1"   # put before the command instead of ssh

    [fleet]                         # only for `octavo fleet`
    scheduler = "10.0.0.1:8786"     # where the scheduler listens, on the machine that starts the run
    patience = "10min"              # the run goes on without a host that is away for longer

A key that a host lacks is taken from the defaults. The file has no passwords: ssh uses its agent and its keys.
"""

import ipaddress
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from octavo.errors import UsageError
from octavo.home import changer_of_file, resolve_by_steps
from octavo.toml import parse_toml, read_toml
from octavo.units import parse_duration

MOST_HOSTS = 1000
# None of these begins with a dash, which ssh would take for an option, nor has what a shell would act upon.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}")
_MOST_CHARACTERS = 4096
_WAY_OUT = 'write one: [[host]] and below it name = "db1" for each host (docs/fleet.md)'


# How Octavo is called on hosts of which the file does not say it.
OCTAVO = ("octavo",)
# The class of hosts that the file gives none.
UNNAMED_CLASS = "default"


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """A host of the file. `octavo` are the words of its command; None is what ssh is configured to use."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    octavo: tuple[str, ...] = OCTAVO
    host_class: str = UNNAMED_CLASS
    identity: Path | None = None
    known_hosts: Path | None = None
    listen: str | None = None
    through: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The whole file. `scheduler` is ADDRESS:PORT, None where the file has no fleet; `patience` is in seconds."""

    hosts: tuple[RemoteHost, ...]
    scheduler: str | None
    patience: float


def read_fleet(path: Path) -> FleetFile:
    """The file with what a fleet needs. Raises UsageError, one line that names the file and the host."""
    text, changer = _read(path)
    found = parse_fleet(text, path)
    if changer is not None:  # each host gets a certificate, with which it may have every other one run code
        raise UsageError(changer)
    return found


def parse_fleet(text: str, origin: Path) -> FleetFile:
    """The fleet of a text. Raises UsageError."""
    hosts = parse_hosts(text, origin)
    what = f"{origin}: [fleet]"
    table = _table(parse_toml(text, origin).get("fleet", {}), what)
    _refuse_others(table, ("scheduler", "patience"), what)
    scheduler = table.get("scheduler")
    if scheduler is not None:
        scheduler = _endpoint(scheduler, f"{what}: scheduler")
        if _is_any(scheduler):
            raise UsageError(f"{what}: scheduler = {scheduler!r}: write the address at which the hosts reach it")
    try:
        patience = parse_duration(_text(table.get("patience", "10min"), f"{what}: patience"))
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None
    return FleetFile(hosts, scheduler, patience)


def read_hosts(path: Path) -> tuple[RemoteHost, ...]:
    """The hosts of the file in its order. Raises UsageError, one line that names the file and the host."""
    text, changer = _read(path)
    found = parse_hosts(text, path)
    if changer is not None and any(host.through or host.octavo != OCTAVO for host in found):
        raise UsageError(changer)
    return found


def _read(path: Path) -> tuple[str, str | None]:
    """The text; and for root, when others could have written it, that its commands are not run, and why.

    It is looked at before it is read: what only root can change by then stays so. Raises UsageError.
    """
    problems: list[str] = []

    def look(step: Path) -> None:
        try:
            facts = step.lstat()
        except OSError as error:
            problems.append(f"{step}: {error.strerror}")
            return
        if (why := changer_of_file(facts, {0})) is not None:
            problems.append(f"{step} {why}")

    if os.geteuid() == 0:
        resolve_by_steps(path.absolute(), look, str(path))
    text = read_toml(path, way_out=_WAY_OUT)
    if not problems:
        return text, None
    return text, f"{path}: {problems[0]}, and its commands run with root's rights; have it belong to root alone"


def parse_hosts(text: str, origin: Path) -> tuple[RemoteHost, ...]:
    """The hosts of a text; paths in it are relative to the directory of `origin`. Raises UsageError."""
    content = parse_toml(text, origin)
    _refuse_others(content, ("defaults", "fleet", "host"), str(origin))
    defaults = _table(content.get("defaults", {}), f"{origin}: [defaults]")
    common = ("user", "port", "octavo", "class", "identity", "known_hosts")
    _refuse_others(defaults, common, f"{origin}: [defaults]")
    tables = content.get("host")
    if not isinstance(tables, list) or not tables:
        raise UsageError(f'{origin}: no hosts; write [[host]] and below it name = "db1"')
    entries = cast("list[Any]", tables)
    if len(entries) > MOST_HOSTS:
        raise UsageError(f"{origin}: {len(entries)} hosts; at most {MOST_HOSTS}")
    hosts = tuple(_host(one, defaults, number, origin) for number, one in enumerate(entries, 1))
    seen: set[str] = set()
    for host in hosts:
        if host.name in seen:
            raise UsageError(f"{origin}: two hosts have the name {host.name}")
        seen.add(host.name)
    return hosts


def _host(entry: Any, defaults: Mapping[str, Any], number: int, origin: Path) -> RemoteHost:
    table = _table(entry, f"{origin}: host {number}")
    if "name" not in table:
        raise UsageError(f'{origin}: host {number} has no name; write name = "db1"')
    name = _matching(table["name"], _NAME, f"{origin}: host {number}: name", "letters, digits, dots and dashes")
    where = f"{origin}: host {name}"
    known: dict[str, Callable[[Any, str], Any]] = {
        "address": lambda value, what: _matching(value, _ADDRESS, what, "a host's name or address"),
        "user": lambda value, what: _matching(value, _USER, what, "a user's name"),
        "port": _port,
        "octavo": _words,
        "class": lambda value, what: _matching(value, _NAME, what, "letters, digits, dots and dashes"),
        "identity": lambda value, what: _file(value, what, origin.parent),
        "known_hosts": lambda value, what: _file(value, what, origin.parent),
        "listen": _endpoint,
        "through": _words,
    }
    _refuse_others(table, ("name", *known), where)
    given = {"address": name, **defaults, **{key: value for key, value in table.items() if key != "name"}}
    found = {key: known[key](value, f"{where}: {key}") for key, value in given.items()}
    if "class" in found:
        found["host_class"] = found.pop("class")
    return RemoteHost(name, **found)


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a table")
    return cast("dict[str, Any]", value)


def _refuse_others(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    if others := [key for key in table if key not in known]:
        raise UsageError(f"{what}: unknown key {others[0]!r}; known are {', '.join(known)}")


def _matching(value: Any, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise UsageError(f"{what} = {_cut(value)}: write {allowed}")
    return value


def _port(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise UsageError(f"{what} = {_cut(value)}: write a number from 1 to 65535")
    return value


def _endpoint(value: Any, what: str) -> str:
    address, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    if not colon or not _ADDRESS.fullmatch(address.strip("[]")) or not 1 <= number <= 65535:
        raise UsageError(f"{what} = {_cut(value)}: write an address and a port, such as 10.0.0.1:8786")
    return value


def _is_any(endpoint: str) -> bool:
    """Whether it is the address that means all of a machine's own: a host would look for it on itself."""
    try:
        return ipaddress.ip_address(endpoint.rpartition(":")[0].strip("[]")).is_unspecified
    except ValueError:  # a name
        return False


def _words(value: Any, what: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(_text(value, what)))
    except ValueError:
        words = ()
    if not words:
        raise UsageError(f"{what} = {_cut(value)}: write a command, such as octavo or python3 /opt/octavo.pyz")
    return words


def _file(value: Any, what: str, directory: Path) -> Path:
    text = _text(value, what)
    try:
        return directory.absolute() / Path(text).expanduser()
    except RuntimeError:  # ~ of a user who has no home
        raise UsageError(f"{what} = {_cut(value)}: no such home directory") from None


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _MOST_CHARACTERS:
        raise UsageError(f"{what} = {_cut(value)}: write text of one line")
    return value


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
