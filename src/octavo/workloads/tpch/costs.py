"""The planner's cost settings of a cell: PostgreSQL's, page costs in proportion to the block, or measured ones.

Measured settings come from `octavo costs calibrate` for the cell's build, device and cache state. They are measured
once per process, before the first trial that needs them is warmed up or observed (`MeasuresBeforehand`), so all trials
of a cell have the same settings until the run is resumed.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

from octavo.postgres.cluster import Server
from octavo.units import parse_size
from octavo.workloads.base import Levels

COSTS = ("default", "scaled", "calibrated")
_REFERENCE = 8192
_SIZE, _ROUNDS = 64 * 1024**2, 3

_measured: dict[tuple[Path, str, bool], Mapping[str, str]] = {}
_measuring = threading.Lock()


def cost_settings(server: Server, levels: Levels) -> Mapping[str, str]:
    """The settings for a session; empty for PostgreSQL's own. Measures them if the level requires it and they are not
    known.

    Raises OctavoError or HostError when they cannot be measured here.
    """
    if levels["costs"] == "scaled":
        ratio = parse_size(levels["data_block"]) / _REFERENCE
        return {"seq_page_cost": f"{ratio:.6g}", "random_page_cost": f"{4 * ratio:.6g}"}
    return _calibrated(server, levels) if levels["costs"] == "calibrated" else {}


def _calibrated(server: Server, levels: Levels) -> Mapping[str, str]:
    cold = levels["cache"] == "cold"
    key = (server.build.prefix, levels["device"], cold)
    with _measuring:
        if key not in _measured:
            from octavo.costs.calibrate import CalibrationRequest, calibrate_builds

            request = CalibrationRequest(size=_SIZE, rounds=_ROUNDS, cold=cold)
            found = calibrate_builds(
                [server.build], request, levels["device"], server.journal, server.account, lambda text: None
            )
            (block,) = found["data_blocks"]
            _measured[key] = {one["name"]: f"{one['value']:.9f}" for one in block["settings"]}
        return _measured[key]
