"""The experiments that come with Octavo, as TOML in `octavo/presets`."""

import tomllib
from importlib import resources

from octavo.errors import UsageError


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
