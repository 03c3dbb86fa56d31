"""The experiments that come with Octavo, as TOML in `octavo/presets`."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from octavo.errors import UsageError
from octavo.plan.model import Plan, parse_plan


def preset_names() -> list[str]:
    """The names of the presets."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in resources.files("octavo.presets").iterdir()
        if entry.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The TOML of a preset. Raises UsageError naming those that exist."""
    if name not in preset_names():
        raise UsageError(
            f"no preset {name!r}; there are: {', '.join(preset_names())}; a plan of your own is a .toml file"
        )
    return resources.files("octavo.presets").joinpath(f"{name}.toml").read_text()


def preset_questions() -> dict[str, str]:
    """Each preset's name and the question it answers."""
    return {name: str(tomllib.loads(preset_text(name))["question"]) for name in preset_names()}


def find_plan(
    wanted: str, *, changes: Mapping[str, list[str]] | None = None, rounds: int | None = None
) -> tuple[Plan, str]:
    """The checked plan behind a preset's name or a .toml file, and its text. Raises UsageError."""
    if not wanted.endswith(".toml"):
        text = preset_text(wanted)
    else:
        try:
            text = Path(wanted).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(f"{wanted} cannot be read: {reason}") from None
    return parse_plan(text, origin=wanted, changes=changes, rounds=rounds), text
