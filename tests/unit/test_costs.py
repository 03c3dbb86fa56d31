"""Calibration of the planner's costs: the fit, the units, the output; without PostgreSQL."""

import math
import os
import random
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from octavo.costs import calibrate, calibration_databases, lines, measure, tables
from octavo.costs.fit import Fit, UnitCost, fit
from octavo.costs.measure import ProbeRun
from octavo.costs.probes import (
    CACHED,
    CACHED_RANDOM,
    INDEX_TUPLE,
    OPERATOR,
    RANDOM,
    SEQUENTIAL,
    TUPLE,
    ProbeQuery,
    lookups,
    processor,
    scan_of_pages,
)
from octavo.costs.render import view
from octavo.errors import HostError, OctavoError, UsageError
from octavo.host.children import owner_account
from octavo.host.journal import Journal
from octavo.host.mounts import Mount
from octavo.postgres.builds.cache import Build
from octavo.postgres.user_connection import UsersConnection

_COSTS = {
    SEQUENTIAL: 2e-3, RANDOM: 2e-2, CACHED: 1e-7, CACHED_RANDOM: 2e-7, TUPLE: 3e-8, INDEX_TUPLE: 2e-8, OPERATOR: 4e-9,
}  # fmt: skip


def made(
    costs: Mapping[str, float], *, rounds: int = 5, noise: float = 0.0, cold: bool = True, seed: int = 1
) -> list[ProbeRun]:
    """Runs of all queries that take exactly the time of the costs, or a given factor of it."""
    order = random.Random(seed)
    warm: list[tuple[ProbeQuery, float, float]] = [(scan_of_pages("wide_cached", 3000), 0, 3000)]
    warm += [(lookups("scattered_cached", 1, 3000), 0, 3020), *((probe, 0, 1700) for probe in processor())]
    reading = [(scan_of_pages("wide", 1024), 1024, 0), (lookups("scattered", 1, 100), 101, 3)] if cold else []
    found: list[ProbeRun] = []
    for number in range(1, rounds + 1):
        for probe, reads, hits in [*warm, *reading]:
            work = {**probe.work, probe.reads: float(reads), probe.finds: float(hits)}
            seconds = sum(costs[unit] * amount for unit, amount in work.items())
            found.append(ProbeRun(probe.name, number, seconds * order.uniform(1 - noise, 1 + noise), work))
    return found


def test_planted_costs_are_found_exactly() -> None:
    found = fit(made(_COSTS))
    assert {unit: one.seconds for unit, one in found.estimates.items()} == pytest.approx(_COSTS, rel=1e-6)
    assert all(abs(one.relative) < 1e-6 for one in found.residuals)


def test_intervals_cover_planted_costs_about_as_often_as_they_say() -> None:
    covered = total = 0
    for seed in range(60):
        for unit, one in fit(made(_COSTS, noise=0.05, seed=seed)).estimates.items():
            if unit in (SEQUENTIAL, RANDOM, CACHED, TUPLE):
                covered += one.low <= _COSTS[unit] <= one.high
                total += 1
    assert covered / total > 0.91


def test_intervals_are_those_of_medians() -> None:
    """Rounds that are slower or faster as a whole, so that each round's fit is known."""
    speeds = (0.9, 1.0, 1.02, 1.05, 1.2)
    found = fit([replace(one, seconds=one.seconds * speeds[one.round - 1]) for one in made(_COSTS)])
    of_mean = 2.776445 * statistics.stdev(speeds) / 5**0.5  # Student's t, 4 degrees of freedom
    for unit, one in found.estimates.items():
        assert one.seconds == pytest.approx(1.02 * _COSTS[unit], rel=1e-6)
        half = _COSTS[unit] * of_mean * (math.pi / 2) ** 0.5
        assert (one.low, one.high) == pytest.approx((one.seconds - half, one.seconds + half), rel=1e-5)


def test_a_setting_is_as_uncertain_as_its_unit_and_its_time_together() -> None:
    estimates = {unit: UnitCost(unit, cost, 0.96 * cost, 1.04 * cost) for unit, cost in _COSTS.items()}
    estimates[RANDOM] = UnitCost(RANDOM, 2e-2, 2e-2 - 6e-4, 2e-2 + 6e-4)
    found = Fit(estimates, ())
    unit = lines.cost_unit({8192: found}, cold=True)
    by_name = {one.name: one for one in lines.settings(found, unit, cold=True)}
    sequential, random_page = by_name["seq_page_cost"], by_name["random_page_cost"]
    assert (sequential.low, sequential.value, sequential.high) == (1.0, 1.0, 1.0)  # by definition
    assert (random_page.low, random_page.high) == pytest.approx((9.5, 10.5))  # 3 % and 4 %
    (other,) = (one for one in lines.settings(planted(32768), unit, cold=True) if one.name == "seq_page_cost")
    assert (other.low, other.high) == pytest.approx((4 * 0.96, 4 * 1.04))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (9.9962, "random_page_cost = 10.0"),
        (0.99996, "random_page_cost = 1.00"),
        (1234.5678, "random_page_cost = 1230"),
        (1.2345e-05, "random_page_cost = 0.0000123"),
        (0.0, "random_page_cost = 0"),
    ],
)
def test_a_line_has_three_digits(value: float, line: str) -> None:
    assert lines.conf_lines([lines.CostSetting("random_page_cost", value, value, value, resolved=True)]) == [line]


def test_what_costs_nothing_cannot_be_told_from_zero() -> None:
    found = fit(made({**_COSTS, INDEX_TUPLE: 0.0}, noise=0.05))
    assert not found.estimates[INDEX_TUPLE].resolved
    made_lines = lines.conf_lines(lines.settings(found, lines.cost_unit({8192: found}, cold=True), cold=True))
    assert [line for line in made_lines if "indistinguishable from 0" in line] == [
        line for line in made_lines if line.startswith("cpu_index_tuple_cost")
    ]


def test_a_cost_that_the_model_has_not_shows_in_the_residuals() -> None:
    runs = [
        ProbeRun(one.probe, one.round, one.seconds * (1.5 if "8 conditions" in one.probe else 1), one.work)
        for one in made(_COSTS)
    ]
    worst = max(fit(runs).residuals, key=lambda one: abs(one.relative))
    assert "conditions" in worst.probe and abs(worst.relative) > 0.02


def test_too_little_is_refused() -> None:
    with pytest.raises(OctavoError, match="1 rounds are too few"):
        fit(made(_COSTS, rounds=1))
    with pytest.raises(OctavoError, match="3 queries"):
        fit([one for one in made(_COSTS) if "wide" in one.probe or "scattered_cached" in one.probe])


def planted(block: int, *, cold: bool = True) -> Fit:
    """Costs at another block size: sequential pages take time in proportion to their size."""
    return fit(made({**_COSTS, SEQUENTIAL: _COSTS[SEQUENTIAL] * block / 8192}, cold=cold))


def test_one_unit_for_all_block_sizes() -> None:
    fits = {block: planted(block) for block in (8192, 32768)}
    unit = lines.cost_unit(fits, cold=True)
    assert unit.seconds == pytest.approx(2e-3)
    small, large = ({one.name: one.value for one in lines.settings(fits[b], unit, cold=True)} for b in (8192, 32768))
    assert small["seq_page_cost"] == pytest.approx(1.0) and large["seq_page_cost"] == pytest.approx(4.0)
    assert small["random_page_cost"] == pytest.approx(10.0) and large["random_page_cost"] == pytest.approx(10.0)
    assert small["cpu_tuple_cost"] == pytest.approx(large["cpu_tuple_cost"]) == pytest.approx(1.5e-5)


def test_the_unit_of_another_block_goes_by_bytes() -> None:
    assert lines.cost_unit({32768: planted(32768)}, cold=True).seconds == pytest.approx(2e-3)


def test_warm_the_unit_is_that_of_the_default_cpu_tuple_cost() -> None:
    found = planted(8192, cold=False)
    made_settings = lines.settings(found, lines.cost_unit({8192: found}, cold=False), cold=False)
    values = {one.name: one.value for one in made_settings}
    assert values["cpu_tuple_cost"] == pytest.approx(0.01)
    assert values["seq_page_cost"] == pytest.approx(1e-7 / 3e-6)
    assert values["random_page_cost"] == pytest.approx(2e-7 / 3e-6)


def test_lines_are_printed_first() -> None:
    request = calibrate.CalibrationRequest(size=8 * 1024**2, rounds=5, cold=True)
    document = calibrate.document(
        {8192: planted(8192), 32768: planted(32768)}, request, {"device": "hdd", "version": "18.6"}
    )
    out = StringIO()
    Console(file=out, width=100).print(view(document))
    text = out.getvalue()
    assert text.splitlines()[:3] == [
        "# data block 8kB, cold, device hdd, PostgreSQL 18.6",
        "seq_page_cost = 1.00",
        "random_page_cost = 10.0",
    ]
    assert "seq_page_cost = 4.00" in text
    assert "A cost of 1 is 2.00 ms, which 8 kB of a sequential scan take here." in text
    assert document["data_blocks"][1]["settings"][0]["name"] == "seq_page_cost"


@pytest.mark.parametrize("block", [1024, 2048, 4096, 8192, 16384, 32768])
def test_a_wide_row_is_alone_on_its_page_and_fits(block: int) -> None:
    """A page has a header of 24 bytes and 4 a row, a row 24 of its own (bufpage.h, htup_details.h)."""
    pad = int(block * 0.6)
    row = 24 + 4 + 8 + pad + 4
    assert row <= block - 24 < 2 * row
    assert tables.sizes(block, 64 * 1024**2).wide == 64 * 1024**2 // block


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--size", "1MB"), "from 4MB to 64GB"),
        (("--device", "tape"), "--device tape: allowed"),
        (("--dsn", "host=/nowhere", "--device", "hdd"), "device, data block and version; leave out --device"),
        (("--dsn", "host=/nowhere", "--pg", "17", "--data-block", "8kB"), "leave out --data-block, --pg"),
        (("--data-block", "7kB"), "7kB"),
        (("--pg", "17,18"), "--pg 17,18: name one version"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    from typer.testing import CliRunner

    from octavo.cli.app import app

    ran = CliRunner().invoke(app, ["costs", "calibrate", *arguments])
    assert isinstance(ran.exception, UsageError) and problem in str(ran.exception)


def test_the_few_pages_that_a_warm_query_read_again_are_cached_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a warm calibration would have the unit of pages from the device, which nothing else determines."""
    probe, nobody = scan_of_pages("wide_cached", 3000), SimpleNamespace()
    reads = 20.0

    def explained(connection: object, asked: ProbeQuery) -> ProbeRun:
        return ProbeRun(asked.name, 0, 0.1, {**asked.work, asked.reads: reads, asked.finds: 3000.0 - reads})

    def held(connection: object, probe: object) -> AbstractContextManager[None]:
        return nullcontext()

    def least(connection: object, query: str) -> float:
        return 0.001 if "nothing" in query else 0.011

    monkeypatch.setattr(measure, "_explained", explained)
    monkeypatch.setattr(measure, "_held", held)
    monkeypatch.setattr(measure, "_least", least)
    run: Callable[..., ProbeRun] = measure._run_warm  # pyright: ignore[reportPrivateUsage]
    found = run(nobody, probe, 2)
    assert found.seconds == pytest.approx(0.01)
    assert found == ProbeRun(probe.name, 2, found.seconds, {**probe.work, CACHED: 3000.0})
    reads = 70.0
    with pytest.raises(OctavoError, match="70 pages were read again"):
        run(nobody, probe, 2)


def test_a_user_s_server_answers_within_limits_in_the_calibration_s_database_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, object] = {}

    class Limited(UsersConnection):
        """Notes how it is made."""

        def __init__(self) -> None:
            """There is no server."""

        @classmethod
        def connect(cls, *_: object, **given: object) -> Any:
            asked.update(given)
            return cls()

        def execute(self, query: Any, params: Any = None, **_: Any) -> Any:
            """Notes a setting."""
            assert "set_config" in query
            settings.update([params])

        def __del__(self, _: object = None) -> None:
            """Nothing was opened."""

    settings: dict[str, str] = {}
    monkeypatch.setattr(calibration_databases, "UsersConnection", Limited)
    connected: Callable[..., UsersConnection] = calibration_databases._connected  # pyright: ignore[reportPrivateUsage]
    found = connected("host=/run/postgresql dbname=shop", "octavo_costs_1")
    assert isinstance(found, UsersConnection) and 300 < found.patience < 400
    assert (asked["host"], asked["dbname"], asked["connect_timeout"]) == ("/run/postgresql", "octavo_costs_1", 10)
    # The kernel is made to forget files of the data directory; a user's defaults must not put the tables elsewhere.
    assert (settings["default_tablespace"], settings["search_path"]) == ("", "public")
    assert (settings["default_transaction_read_only"], settings["statement_timeout"]) == ("off", "5min")
    connected("host=x connect_timeout=3", "octavo_costs_1")
    assert asked["connect_timeout"] == "3"


def test_the_session_that_drops_the_database_may_be_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends idle sessions would keep the database."""
    asked: list[str] = []

    def execute(statement: object, *_: object) -> SimpleNamespace:
        asked.append(str(statement))
        return SimpleNamespace(fetchall=list)

    def connect(*_: object) -> AbstractContextManager[Any]:
        return nullcontext(SimpleNamespace(limits=None, execute=execute))

    def refused(*_: object) -> None:
        raise HostError("refused")

    monkeypatch.setattr(calibration_databases, "connect", connect)
    monkeypatch.setattr(calibration_databases, "_connected", refused)
    with pytest.raises(HostError, match="refused"), calibration_databases.users_database("", 1 << 26, cold=False):
        pass
    created = next(place for place, statement in enumerate(asked) if "CREATE DATABASE" in statement)
    assert "SET idle_session_timeout = 0" in asked[:created] and "DROP DATABASE" in asked[-1]


@pytest.mark.parametrize(("kind", "is_cold"), [("ext4", True), ("zfs", False), ("tmpfs", False)])
def test_nothing_is_read_cold_where_the_kernel_keeps_the_files(
    kind: str, is_cold: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """posix_fadvise succeeds there, and the times of a cache would be printed as those of the device."""
    mount = Mount("0:1", tmp_path, kind, "pool")

    def mount_of(_: Path) -> Mount:
        return mount

    monkeypatch.setattr(calibration_databases, "mount_of", mount_of)
    with nullcontext() if is_cold else pytest.raises(HostError, match=f"is on {kind}.*--cache warm"):
        calibration_databases.check_cold(tmp_path)


def test_a_server_of_our_own_is_not_made_where_nothing_is_read_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(_: Path) -> None:
        raise HostError("files stay in memory")

    def reached(*_: object) -> None:
        """Whether the account can enter the directory is not of interest."""

    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    monkeypatch.setattr(calibration_databases, "check_cold", kept)
    monkeypatch.setattr(calibration_databases.cluster, "check_reachable", reached)
    build = Build("build", tmp_path / "no-such-build", {"data_block": "8kB"})
    account = owner_account(os.getuid())
    for cold, problem in ((True, "files stay in memory"), (False, "initdb")):
        with (
            Journal() as journal,
            pytest.raises(OctavoError, match=problem),
            calibration_databases.own_database(build, 1 << 26, "native", journal, account, cold=cold),
        ):
            pass


@pytest.mark.parametrize(("version", "has_extension", "evicted"), [
    (180006, True, "pg_buffercache_evict_relation"), (170002, True, "pg_buffercache_evict("), (180006, False, None),
    (160009, True, None),
])  # fmt: skip
def test_shared_buffers_are_emptied_where_that_is_possible(
    version: int, has_extension: bool, evicted: str | None
) -> None:
    """Elsewhere a query that finds its pages in them is refused as not cold, with the way out."""
    asked: list[str] = []

    def execute(query: bytes) -> SimpleNamespace:
        asked.append(query.decode())
        return SimpleNamespace(fetchone=lambda: {"extname": "pg_buffercache"} if has_extension else None)

    connection: Any = SimpleNamespace(info=SimpleNamespace(server_version=version), execute=execute)
    measure.empty(connection)
    statements = [one for one in asked if "evict" in one]
    assert [evicted in one for one in statements if evicted] == ([True] if evicted else [])
    assert len(statements) == (evicted is not None)
