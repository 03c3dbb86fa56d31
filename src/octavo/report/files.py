"""Reports as files: written beside and renamed, so that a reader never sees half a page."""

import os
from pathlib import Path
from typing import Any

from octavo.errors import HostError
from octavo.report import html


def write_html(document: dict[str, Any], path: Path) -> Path:
    """Writes the page and returns its absolute path. Raises HostError when it cannot be written."""
    target = path.absolute()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(html.render(document), encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise HostError(f"{target} cannot be written: {error.strerror}") from error
    return target
