"""A second workload, in one file: counts the rows of a table repeatedly."""

import time

from octavo.factor import Factor, whole_number
from octavo.observation import Metric, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import Levels, WorkloadResult

_RATE = Metric("counts_per_second", "counts", "1/s", "higher")


class Counting:
    factors = (Factor("rows", "cluster", "rows of the table", "1000", whole_number(1, 1_000_000)),)
    metrics = (_RATE,)

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        return (("workload", "counting"), ("rows", levels["rows"]))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        server.execute(f"CREATE TABLE counted AS SELECT generate_series(1, {int(levels['rows'])}) AS n")

    def database_bytes(self, levels: Levels) -> int:
        return int(levels["rows"]) * 36

    def seconds_asked(self, levels: Levels) -> float:
        return 0.2

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        server.execute("SELECT count(*) FROM counted")

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        started = time.monotonic()
        done = 0
        with server.connect("octavo") as connection:
            while time.monotonic() < started + self.seconds_asked(levels) or done < 200:
                (row,) = connection.execute("SELECT count(*) AS n FROM counted").fetchall()
                assert row["n"] == int(levels["rows"])
                done += 1
        seconds = time.monotonic() - started
        return WorkloadResult(
            observations=(observe(_RATE, done / seconds),),
            seconds_asked=self.seconds_asked(levels),
            seconds=seconds,
            transactions=done,
        )


WORKLOAD = Counting()
