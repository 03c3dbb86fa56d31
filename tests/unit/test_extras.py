"""The packages of a production installation are sufficient for the commands for a running server."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from octavo.extras import FLEET, LAB, missing_extra

ROOT = Path(__file__).parents[2]
# A program, and files that DuckDB loads.
NEVER_IMPORTED = {"tpchgen_cli", "duckdb_extension_tpch"}
# `octavo doctor --predict` is for users of the lab; without it, it reports this.
OF_THE_LAB = "octavo.predict"
CORE_VERBS = ("binary", "doctor", "host", "hugepages", "io", "iotop", "watch")

# Run by a separate Python with the modules that it may not import, followed by the command line.
_HIDDEN = """
import runpy, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
hidden = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Hidden())
sys.argv[:] = ["octavo", *sys.argv[2:]]
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=False)
"""


def test_a_checkout_without_its_compiled_part_names_the_script() -> None:
    for raised in (
        ModuleNotFoundError("No module named 'octavo._core'", name="octavo._core"),
        ImportError("cannot import name '_core' from 'octavo' (src/octavo/__init__.py)", name="octavo"),
    ):
        error = missing_extra(raised)
        assert error is not None and error.exit_code == 3 and "script/bootstrap builds it" in str(error)
    assert missing_extra(ImportError("cannot import name 'x' from 'octavo'", name="octavo")) is None


def without_lab(module: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _HIDDEN, ",".join(LAB), module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"OCTAVO_HOME": str(home), "HOME": str(home)},
        timeout=600,
    )


class _Imports(ast.NodeVisitor):
    """The modules of Octavo that a file imports at any depth, except those for the type checker."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {one.name for one in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found |= {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}


def import_all(names: list[str]) -> int:
    """Imports these modules, all modules that they import, inside functions too, and so on; returns their number."""
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name in seen or name.partition(".")[0] != "octavo" or f"{name}.".startswith(f"{OF_THE_LAB}."):
            continue
        seen.add(name)
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name not in seen:  # below a module it is a function or a class, not a module
                raise
            continue
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        importlib.import_module(name)
        imports = _Imports()
        imports.visit(ast.parse(Path(spec.origin).read_text()))
        names += imports.found
    return len(seen)


def test_nothing_that_these_verbs_can_import_is_of_the_lab(tmp_path: Path) -> None:
    done = without_lab("tests.unit.test_extras", *(f"octavo.cli.{verb}" for verb in CORE_VERBS), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_that_is_not_so_of_a_verb_of_the_lab(tmp_path: Path) -> None:
    done = without_lab("tests.unit.test_extras", "octavo.cli.report", home=tmp_path)
    assert "ModuleNotFoundError" in done.stderr


def test_a_verb_of_the_lab_says_in_a_line_how_to_get_it(tmp_path: Path) -> None:
    done = without_lab("octavo", "run", "oltp-blocks-demo", "--dry-run", home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(
        r"octavo: this command needs \w+, which comes with octavo\[lab\]: pip install 'WHEEL\[lab\]'.*\n", done.stderr
    )


def test_an_option_of_the_lab_says_so_too(tmp_path: Path) -> None:
    done = without_lab("octavo", "doctor", "--predict", "t.octrace", home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"octavo: this command needs \w+, which comes with octavo\[lab\].*\n", done.stderr)


def test_the_extra_is_what_pyproject_says() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules = {re.split(r"[>=<\[]", one)[0].removesuffix("-python").replace("-", "_") for one in extras["lab"]}
    assert modules - NEVER_IMPORTED == LAB
    assert {re.split(r"[>=<\[]", one)[0] for one in extras["fleet"]} | {"dask"} == FLEET  # dask comes with distributed


def test_all_are_locked_to_the_same_versions() -> None:
    core, users, tests = (
        set(re.findall(r"^(\S+==\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements-core.txt", "requirements.txt", "requirements-dev.txt")
    )
    assert core < users < tests


if __name__ == "__main__":
    print(import_all(sys.argv[1:]))
