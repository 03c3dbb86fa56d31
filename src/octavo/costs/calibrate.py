"""The whole calibration: databases, rounds, fit, and the document that is printed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from octavo.costs import lines
from octavo.costs.calibration_databases import own_database, users_database
from octavo.costs.fit import CONFIDENCE, Fit, fit
from octavo.costs.measure import measure
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.units import format_size, size_option

Tell = Callable[[str], None]

_LEAST, _MOST = 4 * 1024**2, 64 * 1024**3


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """A request: bytes of the tables for cold reads, rounds, and the cache's state."""

    size: int
    rounds: int
    cold: bool


def check_size(option: str, text: str) -> int:
    """The bytes of the tables for cold reads. Raises UsageError that names the option."""
    return size_option(option, text, format_size(_LEAST), format_size(_MOST))


def calibrate_builds(
    builds: Sequence[Build], request: CalibrationRequest, level: str, journal: Journal, account: Account, tell: Tell
) -> dict[str, Any]:
    """The document for servers of our own, one a build, on the device of this level. Raises OctavoError, HostError."""
    fits: dict[int, Fit] = {}
    facts: dict[str, Any] = {}
    for build in builds:
        size = build.manifest["data_block"]
        tell(f"data block {size}: making the tables")
        with own_database(build, request.size, level, journal, account, cold=request.cold) as (database, achieved):
            facts = {"device": level, "version": build.manifest["version"]} | achieved

            def report_round(text: str, at: str = size) -> None:
                tell(f"data block {at}: {text}")

            found = measure(database, cold=request.cold, rounds=request.rounds, progress=report_round)
            fits[database.tables.block] = fit(found)
    return document(fits, request, facts)


def calibrate_server(dsn: str, request: CalibrationRequest, tell: Tell) -> dict[str, Any]:
    """The document for a user's server. Raises OctavoError, HostError."""
    tell("making the tables, in a database of their own that is dropped afterwards")
    with users_database(dsn, request.size, cold=request.cold) as database:
        version = database.connection.info.parameter_status("server_version")
        found = measure(database, cold=request.cold, rounds=request.rounds, progress=tell)
        return document({database.tables.block: fit(found)}, request, {"device": "native", "version": version})


def document(fits: Mapping[int, Fit], request: CalibrationRequest, facts: Mapping[str, Any]) -> dict[str, Any]:
    unit = lines.cost_unit(fits, cold=request.cold)
    return {
        "schema_version": 1,
        "cache": "cold" if request.cold else "warm",
        "rounds": request.rounds,
        "confidence": CONFIDENCE,
        "unit_seconds": unit.seconds,
        **facts,
        "data_blocks": [_of_block(block, found, unit, cold=request.cold) for block, found in fits.items()],
    }


def _of_block(block: int, found: Fit, unit: lines.CostUnit, *, cold: bool) -> dict[str, Any]:
    made = lines.settings(found, unit, cold=cold)
    return {
        "data_block": format_size(block),
        "settings": [asdict(one) for one in made],
        "postgresql_conf": lines.conf_lines(made),
        "seconds_each": [{**asdict(one), "resolved": one.resolved} for one in found.estimates.values()],
        "residuals": [{**asdict(one), "relative": one.relative} for one in found.residuals],
    }
