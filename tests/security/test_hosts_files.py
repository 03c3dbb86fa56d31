"""A hosts file is a script that root runs, here or on its hosts."""

import os
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import UsageError
from octavo.host.children import Account
from octavo.remote import hosts_file
from octavo.remote.hosts_file import read_fleet, read_hosts
from octavo.toml import read_toml

pytestmark = needs_root


def test_words_of_others_are_not_run_here(shared: Path, account: Account) -> None:
    file = shared / "hosts.toml"
    file.write_text('[[host]]\nname = "a"\nthrough = "ip netns exec a"\n')
    assert read_hosts(file)[0].through == read_fleet(file).hosts[0].through == ("ip", "netns", "exec", "a")
    os.chown(file, account.uid, account.gid)
    for read in (read_hosts, read_fleet):
        with pytest.raises(UsageError, match=f"hosts.toml belongs to user {account.uid}, and its commands run"):
            read(file)
    os.chown(file, 0, 0)
    file.chmod(0o666)
    with pytest.raises(UsageError, match=r"hosts\.toml is writable by others"):
        read_hosts(file)
    file.chmod(0o644)
    os.chown(shared, account.uid, account.gid)  # its owner may put another file there
    with pytest.raises(UsageError, match=f"belongs to user {account.uid}"):
        read_hosts(file)


def test_hosts_over_ssh_are_anybodys_affair(shared: Path, account: Account) -> None:
    file = shared / "hosts.toml"
    file.write_text('[[host]]\nname = "a"\n')
    os.chown(file, account.uid, account.gid)
    assert read_hosts(file)[0].name == "a"
    with pytest.raises(UsageError, match="its commands run with root's rights"):  # its hosts get certificates
        read_fleet(file)
    file.write_text('[[host]]\nname = "a"\noctavo = "sh -c id"\n')
    with pytest.raises(UsageError, match="its commands run with root's rights"):
        read_hosts(file)


def test_a_file_that_goes_as_soon_as_it_was_read_is_refused_too(
    shared: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner can remove it, or the link to it, between the reading and the check of the owner."""
    file = shared / "hosts.toml"

    def read_and_lose(path: Path, *, way_out: str) -> str:
        text = read_toml(path, way_out=way_out)
        path.unlink()
        return text

    monkeypatch.setattr(hosts_file, "read_toml", read_and_lose)
    for read in (read_hosts, read_fleet):
        file.write_text('[[host]]\nname = "a"\nthrough = "id"\n')
        os.chown(file, account.uid, account.gid)
        with pytest.raises(UsageError, match=f"belongs to user {account.uid}"):
            read(file)
