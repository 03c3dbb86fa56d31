"""perf report, which reads the symbol tables of any program that ran, runs as nobody."""

# pyright: reportPrivateUsage=false

import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.home import octavo_home
from octavo.host import children
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal
from octavo.instruments import profile


@pytest.fixture
def journal(own_home: Path) -> Iterator[Journal]:
    del own_home  # the environment names it
    with Journal() as opened:
        yield opened


@needs_root
def test_it_reads_copies_as_nobody(shared: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    data, symbols = shared / "trial.perf.data", shared / "kallsyms"
    data.write_bytes(b"samples")
    symbols.write_bytes(b"0 T _text\n")
    for path in (data, symbols):
        path.chmod(0o600)
    monkeypatch.setattr(profile, "_KALLSYMS", symbols)
    run = children.run

    def instead(arguments: list[str | Path], ours: Journal, *, role: str, account: Account | None = None) -> Finished:
        """Reads the files that perf report would read, with the same rights."""
        assert (arguments[:2], role) == (["perf", "report"], "perf report")
        given = [argument for argument in arguments if isinstance(argument, Path)]
        return run(["sh", "-c", f"id -u; cat {given[0]} {given[1]}; cat {data}"], ours, role=role, account=account)

    monkeypatch.setattr(children, "run", instead)
    finished = profile._report(data, journal)
    assert finished.stdout.split() == [str(pwd.getpwnam("nobody").pw_uid), "samples0", "T", "_text"]
    assert "ermission denied" in finished.stderr
    assert list((octavo_home() / "scratch").iterdir()) == []
