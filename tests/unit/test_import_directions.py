"""The map in CONTRIBUTING.md: which packages may import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "octavo"


def imports_of(part: str) -> set[tuple[str, str]]:
    """Pairs of a module of this part and an octavo module that it imports, anywhere in the file."""
    found: set[tuple[str, str]] = set()
    for path in sorted((PACKAGE / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "octavo":
                found |= {(str(path.relative_to(PACKAGE)), f"{node.module}.{alias.name}") for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {(str(path.relative_to(PACKAGE)), alias.name) for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("part", "forbidden"),
    [
        ("postgres", ("analysis", "cli", "instruments", "knobs", "lab", "plan", "report", "store", "workloads")),
        ("plan", ("analysis", "cli", "lab", "report", "store")),
        ("analysis", ("cli", "report")),
        ("report", ("cli",)),
        ("host", ("cli", "instruments", "knobs", "lab", "plan", "postgres", "report", "store", "workloads")),
        ("hugepages", ("cli", "instruments", "lab", "report")),
        ("io", ("cli", "instruments", "lab", "report")),
        ("watch", ("cli", "lab", "report")),
        ("workloads", ("analysis", "cli", "instruments", "lab", "report")),
        ("workload_support", ("analysis", "cli", "instruments", "lab", "report", "store")),
        ("instruments", ("analysis", "cli", "lab", "plan", "report", "store", "workload_support")),
    ],
)
def test_no_part_imports_what_is_above_it(part: str, forbidden: tuple[str, ...]) -> None:
    above = tuple(f"octavo.{one}." for one in forbidden)
    assert not [pair for pair in sorted(imports_of(part)) if f"{pair[1]}.".startswith(above)]
