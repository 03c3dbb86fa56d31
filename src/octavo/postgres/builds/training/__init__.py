"""The training of a build for profile-guided optimization: files for psql and pgbench.

The training is pgbench's own transactions and PGIO's reads and updates of random blocks, so that one profile serves the
presets that compare compilers' flags. It runs on the instrumented build, as the account that makes it
(`profile_guided`). Its files are part of the build's key.
"""

import hashlib
from collections.abc import Sequence
from importlib import resources

# Meson's option for a build that uses a profile ("Built-in options", b_pgo), and the one that makes it.
USE, GENERATE = "-Db_pgo=use", "-Db_pgo=generate"
FILL = "fill.sql"
# pgbench's arguments, one line per run. They give counts, not times, so the executed code does not depend on the
# machine's speed.
RUNS = (
    ("--builtin=tpcb-like", "--transactions=400"),
    ("--builtin=simple-update", "--transactions=400", "--protocol=prepared"),
    ("--builtin=select-only", "--transactions=4000"),
    ("--builtin=select-only", "--transactions=4000", "--protocol=prepared"),
    ("--file=read.sql", "--transactions=60"),
    ("--file=update.sql", "--transactions=20"),
)
INITIALIZE = ("--initialize", "--quiet", "--scale=2")


def is_trained(options: Sequence[str]) -> bool:
    """Whether a build with these meson options is profile-guided."""
    return USE in options


def files() -> dict[str, str]:
    """The files by name."""
    found = (file for file in resources.files(__name__).iterdir() if file.name.endswith(".sql"))
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(found, key=lambda file: file.name)}


def digest() -> str:
    """The sha256 of everything that the training runs."""
    return hashlib.sha256(repr((INITIALIZE, RUNS, files())).encode()).hexdigest()
