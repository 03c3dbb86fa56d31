"""PostgreSQL's version numbers: `18.6`, its major version `18`, and before a release `19devel`, `19beta1`, `19rc1`."""

import re

_VERSION = re.compile(r"(\d{1,9})(?:\.(\d{1,9})|(devel)|(alpha|beta|rc)(\d{1,9}))?", re.ASCII)

# The stages from a development tree to a release, in order.
_STAGES = ("devel", "alpha", "beta", "rc", "release")


def order_of(version: str) -> tuple[int, int, int]:
    """The sort key of a version. Raises ValueError if it is not a PostgreSQL version.

    >>> sorted(["18.10", "18.9", "19rc1", "19devel", "19.1", "19beta2"], key=order_of)
    ['18.9', '18.10', '19devel', '19beta2', '19rc1', '19.1']
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a PostgreSQL version")
    major, minor, devel, stage, number = match.groups()
    return int(major), _STAGES.index(devel or stage or "release"), int(minor or number or 0)


def is_version(text: str) -> bool:
    """Whether it is a version of PostgreSQL, released or not."""
    return _VERSION.fullmatch(text) is not None


def is_release(version: str) -> bool:
    """Whether it is a release, not a development tree, beta or release candidate."""
    return order_of(version)[1] == _STAGES.index("release")


def major_of(version: str) -> int:
    """The major version.

    >>> major_of("18.6"), major_of("19devel"), major_of("17")
    (18, 19, 17)
    """
    return order_of(version)[0]


def answers(version: str, wanted: str) -> bool:
    """Whether this version matches the requested one: the same, or one of the requested major version.

    >>> answers("18.6", "18"), answers("18.6", "18.6"), answers("18.6", "18.5"), answers("18beta1", "18")
    (True, True, False, True)
    """
    return version == wanted or (is_version(version) and str(major_of(version)) == wanted)
