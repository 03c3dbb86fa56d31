"""The composition of a trial's WAL, when there are also empty segments that wait to be used."""

from tests.integration.servers import MB, data_directory, running

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.instruments import wal_split
from octavo.postgres.builds.cache import Build
from octavo.postgres.datasets.control import wal_file
from octavo.workloads.base import WorkloadResult


def test_wal_is_read_beside_segments_that_were_never_written(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    with (
        data_directory(builds["4kB"], journal, account) as path,
        running(builds["4kB"], path, journal, account) as server,
    ):
        for number in range(40, 72):  # whatever segment pg_waldump reads first is one of these
            with (path / "pg_wal" / wal_file(1, number * 16 * MB, 16 * MB)).open("wb") as file:
                file.truncate(16 * MB)
        stop = wal_split.INSTRUMENT.start(server)
        server.execute("CREATE TABLE filled AS SELECT generate_series(1, 20000) AS number")
        seen = {one.metric: one.value for one in stop(WorkloadResult((), 1, 1, seconds_asked=1))}
    assert seen["wal_inspected_share"] == 1
    assert 0.9 < seen["wal_records_share"] + seen["wal_images_share"] <= 1
