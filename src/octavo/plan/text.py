"""A plan as TOML again, with the changes of its size and of the command line."""

import json
import re
from collections.abc import Mapping
from typing import Any

from octavo.plan.model import Plan


def plan_text(plan: Plan) -> str:
    """The plan as TOML, which is read as the same plan. Thresholds are named where they are not the default."""
    content: dict[str, Any] = plan.model_dump(mode="json", exclude={"validity"})
    content["validity"] = plan.validity.model_dump(mode="json", exclude_defaults=True)
    scalars: list[str] = []
    tables: list[str] = []
    for key, value in content.items():
        if value in (None, [], {}):
            continue
        match getattr(plan, key):
            case [{}, *_]:
                tables += [_table(f"[[{key}]]", entry) for entry in value]
            case str() | int() | list():
                scalars.append(f"{key} = {_value(value)}")
            case _:
                tables.append(_table(f"[{key}]", value))
    return "\n".join([*scalars, *tables]) + "\n"


def _table(header: str, content: Mapping[str, Any]) -> str:
    return "\n".join(["", header, *(f"{_key(name)} = {_entry(value)}" for name, value in content.items())])


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _entry(value: str | int | list[str]) -> str:
    """A single level stands alone, as people write it."""
    return _value(value[0] if isinstance(value, list) and len(value) == 1 else value)


def _value(value: str | int | list[str]) -> str:
    """JSON's numbers, booleans, strings and arrays of them are TOML's too, but for DEL in a string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
