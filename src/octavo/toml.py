"""Untrusted TOML: whatever it contains, an error is one line."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

from octavo.errors import UsageError
from octavo.host.safe_read import read_text

# A plan has kilobytes.
_MOST_BYTES = 1024**2
# A plan's own tables are four deep.
_DEEPEST = 32
_MOST_PARTS = 100
_NO_KEY = re.compile(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*""")


def read_toml(path: Path, *, way_out: str) -> str:
    """The text of a TOML file. Raises UsageError when it is no regular file, no text, too large or unreadable, and
    with `way_out` when there is no such file."""
    try:
        # A link is the user's own here, and may be followed.
        text = read_text(path.resolve(strict=True), _MOST_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; {way_out}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except RuntimeError:  # pathlib's word for links in a circle
        raise UsageError(f"{path} cannot be read: it is a link to itself") from None
    except ValueError:
        raise UsageError(
            f"{path} cannot be read: it is larger than {_MOST_BYTES} bytes, or not the name of a file"
        ) from None
    if "\ufffd" in text or "\0" in text:
        raise UsageError(f"{path} cannot be read: it is not text")
    return text.removeprefix("\ufeff")


def parse_toml(text: str, origin: object) -> dict[str, Any]:
    """The content of a TOML text. Raises UsageError, one line that names the origin."""
    # tomllib takes time that grows with the cube of the parts of a key: seconds for a few thousand.
    if any(line.count(".") > _MOST_PARTS for line in _NO_KEY.sub("", text).splitlines()):
        raise UsageError(f"{origin}: not TOML: a key in it has more than {_MOST_PARTS} parts")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{origin}: not TOML: it is nested too deep") from None
    except ValueError:  # a number that is longer than Python reads (sys.set_int_max_str_digits), a date that is none
        raise UsageError(f"{origin}: not TOML: a number or a date in it is invalid") from None
    if _is_deep(content):
        raise UsageError(f"{origin}: not TOML: it is nested too deep")
    return content


def _is_deep(content: object) -> bool:
    """Whether whoever goes through it by recursion could fail."""
    level = [content]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below += cast(dict[str, object], each).values()
            elif isinstance(each, list):
                below += cast(list[object], each)
        level = below
    return bool(level)
