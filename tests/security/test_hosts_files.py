"""A hosts file with `through` is a script that root runs here."""

import os
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import UsageError
from octavo.host.children import Account
from octavo.remote.hosts_file import read_fleet, read_hosts

pytestmark = needs_root


def test_words_of_others_are_not_run_here(shared: Path, account: Account) -> None:
    file = shared / "hosts.toml"
    file.write_text('[[host]]\nname = "a"\nthrough = "ip netns exec a"\n')
    assert read_hosts(file)[0].through == read_fleet(file).hosts[0].through == ("ip", "netns", "exec", "a")
    os.chown(file, account.uid, account.gid)
    for read in (read_hosts, read_fleet):
        with pytest.raises(UsageError, match=f"hosts.toml belongs to user {account.uid}, and through is run here"):
            read(file)
    os.chown(file, 0, 0)
    file.chmod(0o666)
    with pytest.raises(UsageError, match=r"hosts\.toml is writable by others"):
        read_hosts(file)
    file.chmod(0o644)
    os.chown(shared, account.uid, account.gid)  # who may put another file there
    with pytest.raises(UsageError, match=f"belongs to user {account.uid}"):
        read_hosts(file)


def test_hosts_over_ssh_are_anybodys_affair(shared: Path, account: Account) -> None:
    file = shared / "hosts.toml"
    file.write_text('[[host]]\nname = "a"\n')
    os.chown(file, account.uid, account.gid)
    assert read_hosts(file)[0].name == "a"
