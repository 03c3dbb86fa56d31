"""The output of script/package: the same bytes each time, and sufficient on a host that has only a Python."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from distribution.wheels import FETCHED, ROOT
from tests.integration.conftest import needs_root
from tests.integration.debian import clean_debian, needs_debootstrap
from tests.integration.servers import data_directory, running
from tests.thorough import in_thorough_tests

from octavo.host import children
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.source import sha256_of

pytestmark = pytest.mark.beside

_LARGEST = 25e6  # bytes
# Prints the executable mappings of the process; `file` is the single file.
_MAPPED = """
import atexit, sys
def mapped():
    lines = [line.split(maxsplit=5) for line in open("/proc/self/maps")]
    print(*sorted({line[5].strip() for line in lines if "x" in line[1] and len(line) > 5}), sep="\\n")
atexit.register(mapped)
sys.argv[:] = sys.path[:1] = sys.argv[1:2]
sys.argv += ["hugepages", "verify", "--dsn", "host=/nonexistent"]
import octavo_launcher
octavo_launcher.start(sys.path[0])
"""


@dataclass(frozen=True, slots=True)
class Made:
    """The files that script/package has made."""

    wheel: Path
    file: Path


def make(to: Path, **environment: str) -> Made:
    """Runs script/package; skips the test if the packages for the single file cannot be fetched."""
    made = subprocess.run(
        [ROOT / "script" / "package", to],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, **environment},
        umask=0o077 if environment else -1,
    )
    if "cannot fetch" in made.stderr:
        pytest.skip(made.stderr.strip().splitlines()[-1])
    assert made.returncode == 0, made.stderr
    (wheel,), (file,) = to.glob("*.whl"), to.glob("*.pyz")
    return Made(wheel, file)


@pytest.fixture(scope="module")
def made(home: Path) -> Iterator[Made]:
    directory = home / "distribution"
    yield make(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def server(home: Path, account: Account) -> Iterator[Server]:
    with Journal() as journal:
        build = ensure_build(BuildSpec("18", "8kB", "8kB"), journal)
        with data_directory(build, journal, account) as path, running(build, path, journal, account) as started:
            yield started


@dataclass(frozen=True, slots=True)
class Place:
    """Where the account runs Octavo, without a network: this host, or below another root."""

    journal: Journal
    account: Account
    socket: Path
    root: Path | None = None

    def run(self, *arguments: str | Path, **environment: str) -> Finished:
        environment = {"HOME": "/nonexistent", **environment}
        if self.root is None:
            return children.run(arguments, self.journal, role="test", account=self.account, environment=environment)
        # The mounts end with the namespace, and that with the last process in it.
        into = (
            'for one in proc sys; do mount --rbind "/$one" "$0/$one"; done; mount --bind "$1" "$0/mnt"; shift; '
            f'exec chroot --userspec=+{self.account.uid}:+{self.account.gid} "$0" "$@"'
        )
        return children.run(
            ["unshare", "--mount", "--net", "sh", "-ec", into, self.root, self.socket, *arguments],
            self.journal,
            role="test",
            environment=environment,
        )


def works(place: Place, octavo: Sequence[str | Path], data: Path, **environment: str) -> None:
    """Runs the commands for a live server, at this place and on a real server; `data` is a file for `io` to make."""

    def output(*arguments: str | Path) -> str:
        finished = place.run(*octavo, *arguments, **environment)
        return children.check(finished, " ".join(map(str, arguments))).stdout

    assert "hugepages" in output("--help")
    assert json.loads(output("host", "--format", "json"))["page_stack"]
    dsn = f"host={'/mnt' if place.root else place.socket} user=octavo dbname=postgres"
    assert "schema_version" in json.loads(output("doctor", "--dsn", dsn, "--fail-on", "never", "--format", "json"))
    plan = json.loads(output("hugepages", "plan", "--dsn", dsn, "--format", "json"))
    assert plan["server"]["shared_memory_bytes"] > 0
    seen = json.loads(output("watch", "--once", "--interval", "100ms", "--dsn", dsn, "--format", "json"))
    assert seen["server"]["data_block"] == 8192
    read = output("io", data, "--make", "4MB", "--seconds", "0.2", "--format", "json")
    assert json.loads(read)["results"][0]["requests_per_second"] > 0
    refused = place.run(*octavo, "run", "oltp-blocks-demo", "--dry-run", **environment)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith("octavo: this command needs ")


@pytest.fixture
def scratch(home: Path, account: Account) -> Iterator[Path]:
    """A directory of the account."""
    directory = home / "by-itself"
    directory.mkdir()
    os.chown(directory, account.uid, account.gid)
    yield directory
    shutil.rmtree(directory)


def install(wheel: Path, version: str, to: Path) -> None:
    """Installs the wheel with its requirements, for a version of Python."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", FETCHED, "--no-compile"]
    where = ["--only-binary", ":all:", "--python-version", version, "--target", to]
    subprocess.run([*pip, *where, wheel], check=True)


def version_of(place: Place) -> str:
    """The version of the distribution's Python; skips the test if there is none, or an old one."""
    asked = place.run("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if asked.returncode != 0 or asked.stdout.startswith(("2.", "3.9", "3.10")):
        pytest.skip(f"no /usr/bin/python3 from 3.11 on: {asked.stdout or asked.stderr}")
    return asked.stdout.strip()


@pytest.fixture
def here(journal: Journal, account: Account, server: Server) -> Place:
    return Place(journal, account, server.socket_directory)


def test_another_time_zone_umask_and_directory_give_the_same_bytes(made: Made, home: Path) -> None:
    again = home / "distribution-again"
    try:
        other = make(again, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
        for one, two in ((made.wheel, other.wheel), (made.file, other.file)):
            assert (one.name, sha256_of(one)) == (two.name, sha256_of(two))
    finally:
        shutil.rmtree(again)


def test_the_file_runs_by_itself(made: Made, here: Place, scratch: Path) -> None:
    version_of(here)
    assert made.file.stat().st_size <= _LARGEST
    works(here, [made.file], scratch / "data")


def test_nothing_else_is_loaded(made: Made, here: Place, scratch: Path) -> None:
    version_of(here)
    mapped = here.run("/usr/bin/python3", "-IS", "-c", _MAPPED, made.file)
    assert "memfd:libpq" in mapped.stdout, mapped.stderr
    places = [path for path in mapped.stdout.splitlines() if path.startswith("/")]
    assert [path for path in places if not path.startswith(("/usr/", "/lib", "/memfd:"))] == []
    # Neither the file's directory nor an environment variable may provide a module.
    shutil.copy(made.file, scratch / "octavo.pyz")
    for name in ("json.py", "typer.py", "sitecustomize.py"):
        (scratch / name).write_text("raise SystemExit('planted')")
    for start in ([], ["/usr/bin/python3", "-S"]):
        answer = here.run(*start, scratch / "octavo.pyz", "host", PYTHONPATH=str(scratch), PYTHONSAFEPATH="")
        assert (answer.returncode, answer.stderr) == (0, "")


def test_the_wheel_needs_only_what_it_says(made: Made, here: Place, scratch: Path) -> None:
    install(made.wheel, version_of(here), scratch / "site")
    works(here, ["/usr/bin/python3", "-S", "-m", "octavo"], scratch / "data", PYTHONPATH=str(scratch / "site"))


@in_thorough_tests
@needs_root
@needs_debootstrap
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_both_run_in_a_clean_debian(
    made: Made, suite: str, home: Path, journal: Journal, account: Account, server: Server
) -> None:
    """A minute for each Debian the first time, which is then kept."""
    with clean_debian(home, journal, suite, ["python3"]) as root:
        place = Place(journal, account, server.socket_directory, root)
        shutil.copy(made.file, root / "usr" / "local" / "bin" / "octavo")
        (root / "srv").chmod(0o777)
        works(place, ["/usr/local/bin/octavo"], Path("/srv/one"))
        install(made.wheel, version_of(place), root / "opt" / "site")
        works(place, ["/usr/bin/python3", "-m", "octavo"], Path("/srv/two"), PYTHONPATH="/opt/site")
