"""The prediction from a trace, as facts for the doctor's rule `predicted-block`."""

from pathlib import Path
from typing import Any

from octavo.doctor.facts import Fact
from octavo.predict.predict import Request, predict
from octavo.predict.render import cheaper_lines


def facts_of(path: Path) -> list[Fact]:
    """Facts of the prediction with the recorded server's own sizes. Raises the errors of `predict`."""
    document = predict(Request(path))
    advice, source = document["recommendation"], f"octavo predict {path}"
    best = advice["data_block_bytes"]
    gain: dict[str, float] = advice["gain"] or {}
    values: dict[str, Any] = {
        "sentence": advice["sentence"],
        "is_settled": advice["is_settled"],
        "block_bytes": best,
        "gain": gain.get("value"),
        "gain_low": gain.get("low"),
        "recorded_block_bytes": document["recorded"]["data_block_bytes"],
        "cost": advice["cost"]["text"],
        "cheaper": cheaper_lines(document),
        "trace": str(path),
    }
    return [Fact(f"predict.{name}", value, source) for name, value in values.items()]
