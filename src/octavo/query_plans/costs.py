"""The planner's costs that a table compares: PostgreSQL's own, those scaled by block size, and measured ones."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from octavo.errors import UsageError
from octavo.host import careful_open
from octavo.query_plans.effects import DEFAULT
from octavo.query_plans.force import Settings
from octavo.units import format_size

_NAMES = ("seq_page_cost", "random_page_cost", "cpu_tuple_cost", "cpu_index_tuple_cost", "cpu_operator_cost")
_REFERENCE = 8192
_MOST_COST = 1e12


def compared(blocks: Sequence[int], calibration: Path | None) -> dict[str, dict[int, Settings]]:
    """By name and block: `default`, `scaled` (pages by their bytes, 8 kB as the defaults), and `calibrated` where there
    is a calibration. Raises UsageError when it is none, or lacks a block."""
    found: dict[str, dict[int, Settings]] = {
        DEFAULT: {block: {} for block in blocks},
        "scaled": {
            block: {
                "seq_page_cost": f"{block / _REFERENCE:.6g}",
                "random_page_cost": f"{4 * block / _REFERENCE:.6g}",
            }
            for block in blocks
        },
    }
    if calibration is not None:
        try:
            text = careful_open.read_text(calibration)
        except OSError as error:
            raise UsageError(f"--calibration {calibration}: it cannot be read: {error.strerror}") from error
        measured = parse_calibration(text)
        if missing := [format_size(block) for block in blocks if block not in measured]:
            raise UsageError(
                f"--calibration {calibration}: it has no {', '.join(missing)}; "
                f"octavo costs calibrate --data-block {','.join(map(format_size, blocks))} --format json makes one"
            )
        found["calibrated"] = {block: measured[block] for block in blocks}
    return found


def parse_calibration(text: str) -> dict[int, Settings]:
    """The settings by block of what `octavo costs calibrate --format json` printed. Raises UsageError for any other."""
    try:
        document: object = json.loads(text)
        blocks = cast(Mapping[str, Any], document)["data_blocks"]
        found: dict[int, Settings] = {
            _block(str(one["data_block"])): {
                str(setting["name"]): _cost(setting["value"])
                for setting in one["settings"]
                if setting["name"] in _NAMES
            }
            for one in blocks
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        found = {}
    if not found or any(set(settings) != set(_NAMES) for settings in found.values()):
        raise UsageError("the calibration has no settings; give the output of octavo costs calibrate --format json")
    return found


def _block(text: str) -> int:
    return {format_size(2**power): 2**power for power in range(10, 16)}[text]


def _cost(value: object) -> str:
    cost = float(cast(Any, value))
    if not 0 <= cost <= _MOST_COST:
        raise ValueError("no cost")
    return f"{cost:.9f}"
