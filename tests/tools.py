"""Programs that some tests need. Without one the test is skipped, with its name; under OCTAVO_STRICT=1 it fails.

`script/bootstrap --for-tests` installs all of them. CI sets OCTAVO_STRICT, so that no test is silently skipped
because of a missing program. A missing kernel feature, privilege or network is a skip there, too.
"""

import os
import shutil

import pytest

from octavo.host import children

STRICT = os.environ.get("OCTAVO_STRICT", "") not in ("", "0")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_MISSING = "missing tool: "


def found(*names: str) -> str | None:
    """The path of the first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name, path=children.PLAIN_PATH))), None)


def reason(*names: str) -> str:
    """Why a test is skipped that needs one of these programs."""
    return f"{_MISSING}{' or '.join(names)}; script/bootstrap --for-tests installs it"


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test if none of these programs is installed; the names are alternatives for one program."""
    return pytest.mark.skipif(found(*names) is None, reason=reason(*names))


def as_failure(report: pytest.TestReport) -> None:
    """Turns a skip for a missing program into a failure if OCTAVO_STRICT requires it."""
    if STRICT and report.skipped and isinstance(report.longrepr, tuple):
        text = report.longrepr[2].removeprefix("Skipped: ")
        if text.startswith(_MISSING):
            report.outcome = "failed"
            report.longrepr = f"{text} (OCTAVO_STRICT)"
