"""The prediction from a trace, as facts for the doctor's rule `predicted-block`."""

from pathlib import Path
from typing import Any

from octavo.doctor.facts import Fact
from octavo.predict.predict import Request, predict


def facts_of(path: Path) -> list[Fact]:
    """Facts of the prediction with the recorded server's own sizes. Raises the errors of `predict`."""
    document = predict(Request(path))
    advice, source = document["recommendation"], f"octavo predict {path}"
    values: dict[str, Any] = {
        "sentence": advice["sentence"],
        "is_settled": advice["is_settled"],
        "block_bytes": advice["data_block_bytes"],
        "recorded_block_bytes": document["recorded"]["data_block_bytes"],
        "cost": advice["cost"]["text"],
        "trace": str(path),
    }
    return [Fact(f"predict.{name}", value, source) for name, value in values.items()]
