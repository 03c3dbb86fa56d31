"""docs/extending.md, literally: its files and lines go into a copy of the sources, and its commands run there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.home import make_directory

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
_COPIED = ("src/octavo", "docs", "tests", "pyproject.toml", "README.md")
_CONTRACTS = ("test_contracts.py", "test_doc_tables.py", "test_instruments.py", "test_validity.py")
# A new file, a line of an existing one, or commands.
_BLOCK = re.compile(
    r"New file `(?P<new>[^`]+)`:\n\n```\w+\n(?P<text>.*?)^```\n"
    r"|In `(?P<old>[^`]+)`, (?P<where>below|above) (?P<quote>`+)(?P<anchor>.+?)(?P=quote):\n\n"
    r"```\w+\n(?P<lines>.*?)^```\n"
    r"|^```sh\n(?P<commands>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Checkout:
    """A copy of the sources in which the page's commands run."""

    root: Path

    def run(self, *arguments: str, exits: tuple[int, ...] = (0,)) -> str:
        """Runs Python in the copy; returns its output."""
        finished = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, check=False, timeout=1200,
            env={**os.environ, "PYTHONPATH": f"{self.root / 'src'}:{self.root}", "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        said = f"{finished.stdout[-3000:]}{finished.stderr[-3000:]}"
        assert finished.returncode in exits and ": failed: " not in finished.stderr, f"{arguments}: {said}"
        return finished.stdout

    def command(self, line: str) -> str:
        """Runs a line of the page."""
        if line == "script/test contracts":
            return self.run(
                "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/unit/{one}" for one in _CONTRACTS)
            )
        if line == "script/doc-tables --write":
            return self.run("-m", "tests.doc_tables", "--write")
        program, *arguments = shlex.split(line)
        if program == ".venv/bin/python":
            return self.run(*arguments)
        assert program == "./octavo"
        # On a busy machine there may be no valid trial, which is exit code 4.
        return self.run("-m", "octavo", *arguments, exits=(0, 4) if arguments[0] == "run" else (0,))


@pytest.fixture
def checkout(home: Path, tmp_path: Path) -> Checkout:
    # Tests that the page runs use the builds of these tests.
    shared = make_directory(home / "tests") / "builds"
    if not shared.is_symlink():
        shared.symlink_to((home / "builds").resolve())
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            # Compiled modules of Octavo are valid in the copy, too, until a module changes there.
            left_out = () if name == "src/octavo" else ("__pycache__",)
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns(*left_out))
        else:
            shutil.copy(source, tmp_path / name)
    return Checkout(tmp_path)


def followed(page: str, checkout: Checkout) -> Iterator[tuple[str, str]]:
    """Follows the page from its beginning to its end; yields each command with its output."""
    for block in _BLOCK.finditer(page):
        if name := block["new"]:
            path = checkout.root / name
            assert not path.exists()
            path.write_text(block["text"])
        elif name := block["old"]:
            path = checkout.root / name
            lines = path.read_text().splitlines(keepends=True)
            (place,) = (number for number, line in enumerate(lines) if line.startswith(block["anchor"]))
            lines.insert(place + (block["where"] == "below"), block["lines"])
            path.write_text("".join(lines))
        else:
            for command in block["commands"].splitlines():
                yield command, checkout.command(command)


@pytest.mark.measures
def test_the_page_leads_from_empty_files_to_a_run(checkout: Checkout) -> None:
    """About a minute: every command of the page is run, including the contracts twice and two runs."""
    page = PAGE.read_text()
    if os.geteuid() != 0:  # the knob needs root; otherwise its cells would be skipped
        page = page.replace('vfs_cache_pressure = "100"\n', "")
    assert page.count("\n```") == 2 * len(_BLOCK.findall(page)), "a block that no test would follow"
    done = dict(followed(page, checkout))
    assert "How fast are rows counted" in done["./octavo report last"]
    document = json.loads(done["./octavo report last --format json"])
    trials = document["trials"]
    assert document["run"]["primary_metric"] == "rows_per_second"
    assert len({trial["cell"] for trial in trials}) == 3  # a disturbed trial is repeated
    assert all(trial["status"] in ("ok", "invalid") for trial in trials), [trial["reason"] for trial in trials]
    for trial in trials:
        seen = {one["metric"] for one in trial["observations"]}
        assert {"rows_per_second", "forks_per_second"} <= seen
        if os.geteuid() == 0:
            assert trial["facts"]["knobs"]["vfs_cache_pressure"]["achieved"] == "100"
    assert {cell["levels"]["rows"] for cell in document["cells"]} == {"20000"}


@pytest.mark.beside  # follows the page up to the tests, and runs nothing
@pytest.mark.parametrize(
    ("was", "mistake", "named"),
    [
        (
            '("workload", "count-rows"), ("rows", levels["rows"])',
            '("workload", "count-rows"),',
            "contents\\(\\) ignores rows",
        ),
        ('"rows counted a second", "1/s"', '"rows counted a second", "rows/s"', "unknown unit"),
        ('"1/s", "higher")', '"1/s")', "verdicts are about rows_per_second"),
        ("script/doc-tables --write", "script/test contracts", "test_the_tables_of_the_docs_are_the_codes"),
        ('raise UnavailableError(f"/proc/stat', 'raise OSError(f"/proc/stat', "test_an_instrument_that_cannot_see"),
        ('"processes and threads started a second", "1/s"', '"", "1/s"', "has no title"),
        ("| `count-rows` | How fast", "| `counted-rows` | How fast", "README.md has nothing about count-rows"),
    ],
)
def test_a_typical_mistake_is_named(was: str, mistake: str, named: str, checkout: Checkout) -> None:
    page = PAGE.read_text()
    assert was in page
    page = re.sub(r"^(./octavo (run|report|presets)|.venv/bin/python) .*\n", "", page.replace(was, mistake), flags=re.M)
    with pytest.raises(AssertionError, match=named):
        list(followed(page, checkout))
