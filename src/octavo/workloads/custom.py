"""A user's own database and scripts: a pg_dump archive for the data, pgbench scripts for the load."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host import children
from octavo.postgres.cluster import Server
from octavo.workload_support import files, pgbench_client, pgbench_turns
from octavo.workload_support.age import PACKED, age_factor, churn_of
from octavo.workload_support.pgbench_turns import PausablePgbench
from octavo.workload_support.restore import is_sql, restore
from octavo.workloads.base import Levels, WorkloadResult

# The separator of scripts in one level. pgbench itself uses @ for the weight.
_BETWEEN = " + "
# Churn runs the scripts in this many rounds, with VACUUM after each.
_TURNS = 10
# For the estimate, a guess of a database's size relative to its archive, as SQL and compressed.
_GROWTH_OF_SQL = 2
_GROWTH_OF_ARCHIVE = 8


def _archive(text: str) -> str:
    path = files.absolute(text)
    is_sql(path)
    return str(path)


def _scripts(text: str) -> str:
    levels: list[str] = []
    for part in text.split(_BETWEEN):
        name, weight = split_weight(part.strip())
        path = files.absolute(name)
        if not path.is_file():
            raise UsageError(f"{path} is not a file; a script is an SQL file for pgbench -f")
        levels.append(str(path) if weight is None else f"{path}@{weight}")
    return _BETWEEN.join(levels)


def split_weight(text: str) -> tuple[str, str | None]:
    """A script's path and weight, as pgbench writes them.

    >>> split_weight("read.sql@9"), split_weight("read.sql")
    (('read.sql', '9'), ('read.sql', None))
    """
    match = re.fullmatch(r"(.+)@(\d+)", text)
    return (match[1], match[2]) if match else (text, None)


class Custom:
    """pgbench on the user's data and scripts. Results of the scripts are not checked, because the correct ones are
    unknown."""

    factors = (
        Factor("archive", "cluster", "pg_dump archive: custom or directory format, tar, or plain SQL", "", _archive),
        Factor("script", "run", "scripts for pgbench -f, such as a.sql@3 + b.sql", "", _scripts),
        age_factor("transactions of the scripts, run before the trials", "transactions", 10**9),
        *pgbench_client.FACTORS,
    )
    metrics = pgbench_client.METRICS

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The archive's sha256, wherever it is, and with churn also the scripts' sha256. Raises UsageError if they are
        missing."""
        archive, scripts = _chosen(levels)
        facts = (("workload", "custom"), ("archive_sha256", files.digest(archive)), ("age", levels["age"]))
        if levels["age"] == PACKED:
            return facts
        identities = (f"{files.digest(path)}@{weight or 1}" for path, weight in scripts)
        return (*facts, ("script_sha256", _BETWEEN.join(identities)))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Restores the archive, then runs the churn with one client, so that a load is the same wherever it is made."""
        restore(server, _chosen(levels)[0])
        transactions = churn_of(levels["age"])
        if transactions == 0:
            return
        with _lent_scripts(server, levels) as what:
            for turn in range(_TURNS):
                share = (turn + 1) * transactions // _TURNS - turn * transactions // _TURNS
                if share:
                    _churn(server, share, load * _TURNS + turn, what)
                server.execute("VACUUM")

    def database_bytes(self, levels: Levels) -> int:
        """Estimates the size from the archive; the first load shows the real size."""
        archive, _ = _chosen(levels)
        return files.size_of(archive) * (_GROWTH_OF_SQL if is_sql(archive) else _GROWTH_OF_ARCHIVE)

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return pgbench_client.seconds_asked(levels)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the same scripts briefly, with another random sequence than the measured run."""
        with _lent_scripts(server, levels) as what:
            pgbench_client.warm(server, levels, seed, what)

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. The seed gives every cell of a round the same random sequence."""
        with _lent_scripts(server, levels) as what:
            return pgbench_client.measure(server, levels, seed, what)

    @contextmanager
    def client(self, server: Server, levels: Levels, seed: int, output: Path) -> Generator[PausablePgbench, None, None]:
        """The same run without a time limit, for slices."""
        with (
            _lent_scripts(server, levels) as what,
            pgbench_turns.started(server, levels, seed, what, output) as client,
        ):
            yield client

    def only_reads(self, levels: Levels) -> bool:
        """False, because the effects of a user's script are unknown."""
        return False


def _chosen(levels: Levels) -> tuple[Path, list[tuple[Path, str | None]]]:
    for name in ("archive", "script"):
        if not levels[name]:
            raise UsageError(f"{name}: required by the workload custom; set it in [factors]")
    parts = (split_weight(part) for part in levels["script"].split(_BETWEEN))
    return Path(levels["archive"]), [(Path(path), weight) for path, weight in parts]


@contextmanager
def _lent_scripts(server: Server, levels: Levels) -> Generator[list[str], None, None]:
    """pgbench's options for copies of the scripts that the servers' user may read."""
    _, scripts = _chosen(levels)
    paths = [path for path, _ in scripts]
    with files.lent(paths, server.journal, server.account) as copies:
        # Always with a weight: pgbench looks for one after an @ in a file's name.
        yield [f"--file={copy}@{weight or 1}" for copy, (_, weight) in zip(copies, scripts, strict=True)]


def _churn(server: Server, transactions: int, seed: int, what: list[str]) -> None:
    finished = server.run_client(
        "pgbench", "--no-vacuum", "--client=1", f"--transactions={transactions}", f"--random-seed={seed}", *what
    )
    children.check(finished, "churning the data with the scripts")
    if match := re.search(r"^number of failed transactions: ([1-9]\d*)", finished.stdout, re.MULTILINE):
        raise UsageError(f"churning the data with the scripts: {match[1]} transactions failed")


WORKLOAD = Custom()
