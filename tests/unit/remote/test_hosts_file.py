import re
from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.remote.hosts_file import RemoteHost, parse_hosts, read_hosts

ORIGIN = Path("/etc/octavo/hosts.toml")


def test_a_host_needs_no_more_than_its_name() -> None:
    assert parse_hosts('[[host]]\nname = "db1"', ORIGIN) == (RemoteHost("db1", "db1"),)


def test_what_a_host_does_not_say_is_the_defaults_word() -> None:
    text = """
    [defaults]
    user = "octavo"
    class = "x86"
    octavo = "python3 '/opt/o c.pyz'"
    identity = "keys/fleet"
    known_hosts = "/keys/known"
    [[host]]
    name = "db1"
    address = "2001:db8::1"
    [[host]]
    name = "db2"
    user = "me"
    port = 2222
    class = "arm"
    """
    identity, known = Path("/etc/octavo/keys/fleet"), Path("/keys/known")
    command = ("python3", "/opt/o c.pyz")
    assert parse_hosts(text, ORIGIN) == (
        RemoteHost("db1", "2001:db8::1", "octavo", None, command, "x86", identity, known),
        RemoteHost("db2", "db2", "me", 2222, command, "arm", identity, known),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no hosts"),
        ("host = 3", "no hosts"),
        ("host = [3]", "host 1 is not a table"),
        ("[[host]]\nuser = 'a'", "host 1 has no name"),
        ("[[host]]\nname = '-oProxyCommand=x'", "host 1: name"),
        ("[[host]]\nname = 'a'\naddress = '-oProxyCommand=x'", "host a: address"),
        ("[[host]]\nname = 'a'\naddress = 'a b'", "host a: address"),
        ("[[host]]\nname = 'a'\nuser = '-x'", "host a: user"),
        ("[[host]]\nname = 'a'\nport = true", "host a: port"),
        ("[[host]]\nname = 'a'\nport = 65536", "host a: port"),
        ("[[host]]\nname = 'a'\noctavo = ''", "host a: octavo"),
        ('[[host]]\nname = "a"\noctavo = "a \'b"', "host a: octavo"),
        ("[[host]]\nname = 'a'\nidentity = 3", "host a: identity"),
        ("[[host]]\nname = 'a'\npassword = 'x'", "unknown key 'password'"),
        ("[defaults]\nname = 'a'\n[[host]]\nname = 'a'", "unknown key 'name'"),
        ("[[host]]\nname = 'a'\n[[host]]\nname = 'a'", "two hosts have the name a"),
        ("[[host]]\nname = 'a'\n" * 1001, "not TOML|1001 hosts"),
    ],
)
def test_what_is_no_list_of_hosts_is_told_in_a_line(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=rf"^{re.escape(str(ORIGIN))}.*({told})") as error:
        parse_hosts(text, ORIGIN)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: No such file .*; write one: \[\[host\]\]"):
        read_hosts(tmp_path / "hosts.toml")
