"""The page as a file."""

from pathlib import Path
from typing import Any

from octavo.report import html
from octavo.report.text_file import write_text


def write_html(document: dict[str, Any], path: Path, *, refresh: int | None = None) -> Path:
    """Writes the page and returns its absolute path. Raises HostError when it cannot be written.

    With `refresh` a browser loads it again every so many seconds.
    """
    return write_text(html.render(document, refresh=refresh), path)
