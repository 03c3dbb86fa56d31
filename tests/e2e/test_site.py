"""`octavo report --site` of planted runs, opened in a browser without a network."""

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.conftest import Octavo
from tests.planted_runs import plant
from tests.tools import BROWSERS, found, needs
from tests.unit.plans import small_plan

from octavo.store.store import Store

pytestmark = pytest.mark.beside

_BROWSER = found(*BROWSERS)


@needs(*BROWSERS)
def test_the_site_opens_without_a_network_and_leads_to_every_run(octavo: Octavo, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with closing(Store.open(home / "octavo.sqlite")) as store:
        runs = [plant(store, small_plan(), metrics=12, number=number) for number in (1, 2)]
    finished = octavo("report", "--site", tmp_path / "site", OCTAVO_HOME=str(home))
    assert finished.returncode == 0, finished.stderr
    index = Path(finished.stdout.strip())
    assert index == tmp_path / "site" / "index.html"
    for number, page in enumerate((index, *(index.parent / "runs" / f"{run}.html" for run in runs))):
        shown = _shown(page, tmp_path / f"profile-{number}")
        assert "4 kB data blocks give" in shown
        assert "</html>" in shown


def _shown(page: Path, profile: Path) -> str:
    """The page as a browser renders it, without a network."""
    assert _BROWSER is not None
    offline = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    finished = subprocess.run(
        [
            *offline, _BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
            f"--user-data-dir={profile}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    console = [line for line in finished.stderr.splitlines() if "CONSOLE" in line and "source: chrome://" not in line]
    assert console == []
    return finished.stdout.replace("\N{NO-BREAK SPACE}", " ").replace("&nbsp;", " ")
