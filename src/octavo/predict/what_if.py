"""`--what-if`: more transactions, more data of the same skew, another device."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.errors import UsageError

_FACTOR = re.compile(r"(transactions|data)=(\d{1,4}(?:\.\d{1,4})?)x?", re.ASCII)
_WAY_OUT = "write transactions=2x, data=4x or device=gp3:6000/250"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Multiples of the recorded values; `device` as in --device."""

    transactions: float = 1.0
    data: float = 1.0
    device: str | None = None


def what_if(texts: Sequence[str]) -> WhatIf:
    """Parses the words of the option. Raises UsageError.

    >>> what_if(["transactions=2x", "data=4"])
    WhatIf(transactions=2.0, data=4.0, device=None)
    """
    found: dict[str, float] = {}
    device: str | None = None
    for text in texts:
        if text.startswith("device="):
            if device is not None:
                raise UsageError(f"--what-if {text}: device is given twice; {_WAY_OUT}")
            device = text.removeprefix("device=")
            continue
        match = _FACTOR.fullmatch(text.strip())
        if match is None or not 0.01 <= float(match[2]) <= 1000:
            raise UsageError(f"--what-if {text}: {_WAY_OUT}")
        if match[1] in found:
            raise UsageError(f"--what-if {text}: {match[1]} is given twice; {_WAY_OUT}")
        found[match[1]] = float(match[2])
    return WhatIf(found.get("transactions", 1.0), found.get("data", 1.0), device)
