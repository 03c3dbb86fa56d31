"""`octavo hugepages` as a user runs it: exit codes, JSON, width, and a kill in the middle of apply."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import Octavo

from octavo.host.children import server_account
from octavo.hugepages.pool import default_page, pool_file, read_pool
from octavo.knobs.huge_pages import sizes

pytestmark = pytest.mark.skipif(not sizes(), reason="this kernel has no huge pages")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# Takes two pages, and is killed before the change is complete.
_VICTIM = """
import contextlib, os, signal
from octavo.hugepages import apply
from octavo.hugepages.pool import default_page, read_pool
apply.host_lock = contextlib.nullcontext
apply._keep = lambda entries: os.kill(os.getpid(), signal.SIGKILL)
apply.apply(default_page(), read_pool(default_page()).available + 2, 0)
"""


@pytest.fixture
def total() -> Iterator[int]:
    """The default pool's size; restored whatever happens."""
    file = pool_file(default_page())
    before = int(file.read_text())
    yield before
    file.write_text(str(before))


@pytest.mark.beside
def test_the_plan_of_a_host_alone(octavo: Octavo) -> None:
    shown = json.loads(octavo("hugepages", "plan", "--format", "json").stdout)
    assert shown["schema_version"] == 1
    assert shown["server"] is None
    assert [one["page_bytes"] for one in shown["pools"]] == sizes()
    assert any(one["limit"] == "memlock" for one in shown["limits"])


@pytest.mark.beside
@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_the_plan_fits_the_terminal(octavo: Octavo, columns: str) -> None:
    shown = octavo("hugepages", "plan", COLUMNS=columns)
    assert shown.returncode == 0
    assert max(len(line) for line in shown.stdout.splitlines()) <= int(columns)


@pytest.mark.beside
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "--pgdata", "/nowhere", "--dsn", ""], "give one of them"),
        (["plan", "--pgdata", "/nowhere"], "not a data directory"),
        (["plan", "--bindir", "/usr/bin"], "has no effect without --pgdata"),
        (["plan", "--page-size", "3kB"], "huge pages of"),
        (["apply"], "no server given"),
        (["plan", "--dsn", "password=secret bogus"], "--dsn is not a connection string"),
    ],
)
def test_a_wrong_question_is_one_line(octavo: Octavo, arguments: list[str], words: str) -> None:
    asked = octavo("hugepages", *arguments)
    assert asked.returncode == 2
    assert words in asked.stderr and "secret" not in asked.stderr
    assert len(asked.stderr.splitlines()) == 1


@pytest.mark.beside
def test_a_server_that_is_not_there_is_one_line(octavo: Octavo) -> None:
    asked = octavo("hugepages", "verify", "--dsn", "host=/nowhere password=secret")
    assert asked.returncode == 3
    assert asked.stderr.startswith("octavo: could not connect") and "secret" not in asked.stderr


@pytest.mark.alone
@as_root
def test_a_kill_in_the_middle_leaves_nothing(octavo: Octavo, total: int) -> None:
    killed = subprocess.run([sys.executable, "-c", _VICTIM], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read_pool(default_page()).total == total + 2
    restored = octavo("host", "restore")
    assert f"restored {pool_file(default_page())} to '{total}'" in restored.stdout.splitlines()
    assert read_pool(default_page()).total == total
    assert octavo("hugepages", "undo").stdout == "nothing to restore\n"


@pytest.mark.beside
@as_root
def test_without_root_the_plan_works_and_apply_says_what_it_needs() -> None:
    account = server_account()
    code = """
import os, sys
from octavo.errors import OctavoError
from octavo.hugepages import apply, plan
from octavo.hugepages.pool import default_page
os.setgroups([]); os.setresgid(*[int(sys.argv[2])] * 3); os.setresuid(*[int(sys.argv[1])] * 3)
print(plan.document(plan.Situation(None, None, None), None)["schema_version"])
try:
    apply.apply(default_page(), 10**6, 0)
except OctavoError as error:
    print(error.exit_code, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(account.uid), str(account.gid)],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert done.stdout.splitlines() == ["1", "3 changing the pool needs root; octavo hugepages plan does not"]
