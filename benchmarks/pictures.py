"""Draws docs/images/{report,i5-queries,i5-load}.png from the published TPC-H results.

script/pictures DIRECTORY
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.browser import Browser

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, MARGIN = 1120, 24
# Open every fold, because the pictures show parts of folded content.
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
BOX = """(() => {{
  const from = {first}.getBoundingClientRect(), to = {last}.getBoundingClientRect();
  return [Math.min(from.left, to.left) + scrollX, from.top + scrollY, to.bottom + scrollY];
}})()"""


def main() -> None:
    """Imports into a separate store, makes the page, and takes the three pictures."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="octavo-pictures-", dir="/var/tmp") as directory:
        page = Path(directory) / "report.html"
        octavo(directory, "import", "vondra-tpch", sys.argv[1])
        octavo(directory, "report", "last", "--html", str(page))
        with Browser() as browser:
            browser.open(page, WIDTH)
            take(browser, "report.png", "document.querySelector('header')", "document.querySelector('.pictures')")
            browser.run(OPEN)
            take(browser, "i5-queries.png", *sheet(0))
            take(browser, "i5-load.png", *sheet(-1))


def sheet(number: int) -> tuple[str, str]:
    """The first and last element of a set of heatmaps: its heading and its squares."""
    return f"[...document.querySelectorAll('#items > h3:has(+ details)')].at({number})", (
        f"[...document.querySelectorAll('#items > h3 + details')].at({number})"
    )


def take(browser: Browser, name: str, first: str, last: str) -> None:
    """Takes a picture from the top of one element to the bottom of another."""
    left, top, bottom = browser.run(BOX.format(first=first, last=last))
    top = max(0, top - MARGIN)
    (IMAGES / name).write_bytes(browser.picture(0, top, WIDTH, bottom + 4 - top))
    print(f"docs/images/{name}: from {left:.0f}, {bottom - top:.0f} high")


def octavo(home: str, *arguments: str) -> None:
    """Runs the command with that state directory."""
    subprocess.run(
        [ROOT / "octavo", *arguments], env={**os.environ, "OCTAVO_HOME": home}, check=True, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main()
