"""Sizes of a plan: tables `[sizes.quick]`, `[sizes.here]`, `[sizes.full]` that override its keys."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from octavo.errors import UsageError
from octavo.plan.server_settings import PREFIX

Size = Literal["quick", "here", "full"]
SIZES: tuple[str, ...] = get_args(Size)

# What makes a plan another question altogether is no matter of size.
_SAME_IN_EVERY_SIZE = ("name", "workload", "size", "sizes")


def sizes_of(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The size tables of a plan's TOML, in the order of SIZES. Raises UsageError when they are no such tables."""
    tables: object = content.get("sizes", {})
    if not isinstance(tables, dict):
        raise UsageError("sizes: write tables such as [sizes.quick]")
    found = cast(dict[str, object], tables)
    for name, table in found.items():
        if name not in SIZES:
            raise UsageError(f"sizes.{name}: allowed sizes: {', '.join(SIZES)}")
        if not isinstance(table, dict):
            raise UsageError(f"sizes.{name}: write a table [sizes.{name}]")
        for key in _SAME_IN_EVERY_SIZE:
            if key in table:
                raise UsageError(f"sizes.{name}.{key}: {key!r} is the same in every size")
    return {name: cast(dict[str, Any], found[name]) for name in SIZES if name in found}


def choose_size(content: Mapping[str, Any], wanted: str | None) -> dict[str, Any]:
    """The plan's TOML in a size: keys of the size's table replace those above, tables are merged key by key.

    Without a requested size it is the plan's own `size`, else `quick` if it exists, else the plan as it is. Raises
    UsageError naming the existing sizes.
    """
    sizes = sizes_of(content)
    plain = {key: value for key, value in content.items() if key != "sizes"}
    chosen = wanted or (content.get("size") if sizes else None) or ("quick" if "quick" in sizes else None)
    if chosen is None:
        return plain
    if not isinstance(chosen, str) or chosen not in sizes:
        there = f"allowed: {', '.join(sizes)}" if sizes else "the plan has no [sizes]"
        raise UsageError(f"unknown size {chosen!r}; {there}")
    return {**_merged(plain, sizes[chosen]), "size": chosen}


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of factors in which `settings.NAME` may be written with or without quotes (then TOML nests it).

    >>> flat({"scale": 1, "settings": {"work_mem": "4MB"}, "settings.jit": "off"})
    {'scale': 1, 'settings.work_mem': '4MB', 'settings.jit': 'off'}
    """
    level: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and f"{key}.".startswith(PREFIX):
            nested = cast(dict[str, Any], value)
            level |= flat({f"{key}.{name}": deeper for name, deeper in nested.items()})
        else:
            level[key] = value
    return level


def flat_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of settings, in which those of an extension may be nested in the same way.

    >>> flat_settings({"jit": "off", "auto_explain": {"log_analyze": True}})
    {'jit': 'off', 'auto_explain.log_analyze': True}
    """
    return {name.removeprefix(PREFIX): value for name, value in flat({PREFIX[:-1]: table}).items()}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, dict) and isinstance(under, dict):
            one_level = flat_settings if key == "settings" else flat
            value = {**one_level(cast(dict[str, Any], under)), **one_level(cast(dict[str, Any], value))}
        merged[key] = value
    return merged
