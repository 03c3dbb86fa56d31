"""The regression tests of contrib's modules, each in a temporary instance, as `make check` runs them.

A module's Makefile lists its tests and the settings of their server: REGRESS, REGRESS_OPTS (src/makefiles/pgxs.mk).
Isolation tests and Perl scripts of the modules are not run.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from octavo.check.outcome import ClassifiedDifference, Failure, Suite
from octavo.check.suites import Progress, keep, read_lines, run_driver
from octavo.check.workspace import TestWorkspace
from octavo.home import make_directory
from octavo.host import trees

_NAME = "contrib"
_VARIABLE = re.compile(r"^(\w+)[ \t]*\+?=[ \t]*(.*)$", re.MULTILINE)
_TEST = re.compile(r"\w[\w.-]*", re.ASCII)
# A library's name, in which what only make knows (such as Python's version) may be anything.
_EXPANDED = re.compile(r"\$\(\w+\)")
_LIBRARY = re.compile(r"[\w*][\w*.-]*", re.ASCII)
_OPTION = re.compile(r"--(?:temp-config|load-extension)=[\w./-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Module:
    """A module's tests, options of pg_regress for them, and libraries without which they cannot run, as patterns."""

    tests: tuple[str, ...]
    options: tuple[str, ...]
    libraries: tuple[str, ...]


def parse_makefile(text: str, tree: Path) -> Module:
    r"""What a module's Makefile says; words that only make can expand are left out.

    >>> parse_makefile("MODULE_big = a\nREGRESS = one \\\n\ttwo $(MORE)\n"
    ...                "REGRESS_OPTS = --temp-config $(top_srcdir)/contrib/a/a.conf\n", Path("/src"))
    Module(tests=('one', 'two'), options=('--temp-config=/src/contrib/a/a.conf',), libraries=('a',))
    >>> parse_makefile("MODULE_big = a_python$(python_majorversion)\nREGRESS = one\n", Path("/src")).libraries
    ('a_python*',)
    """
    variables: dict[str, list[str]] = {}
    for name, value in _VARIABLE.findall(text.replace("\\\n", " ")):
        variables.setdefault(name, []).extend(value.partition("#")[0].split())

    def words(*names: str) -> list[str]:
        return [word for name in names for word in variables.get(name, ())]

    options = " ".join(words("REGRESS_OPTS")).replace("--temp-config ", "--temp-config=")
    return Module(
        tuple(word for word in words("REGRESS") if _TEST.fullmatch(word)),
        tuple(word for word in options.replace("$(top_srcdir)", str(tree)).split() if _OPTION.fullmatch(word)),
        tuple(
            library
            for word in words("MODULES", "MODULE_big")
            if _LIBRARY.fullmatch(library := _EXPANDED.sub("*", word))
        ),
    )


def run_contrib(workplace: TestWorkspace, progress: Progress) -> Suite:
    """Every module that the build has; the others are skipped, with the reason."""
    tree = workplace.tests.parents[1]
    output = make_directory(workplace.directory / _NAME)
    skipped: list[tuple[str, str]] = []
    modules: dict[str, Module] = {}
    for makefile in sorted((tree / "contrib").glob("*/Makefile")):
        module = parse_makefile("\n".join(read_lines(makefile)), tree)
        lacking = [name for name in module.libraries if not list((workplace.build.prefix / "lib").glob(f"{name}.so"))]
        if module.tests and lacking:
            skipped.append((makefile.parent.name, f"the build has no {', '.join(lacking)}"))
        elif module.tests:
            modules[makefile.parent.name] = module
    total = sum(len(module.tests) for module in modules.values())
    done = identical = 0
    judged: list[ClassifiedDifference] = []
    failures: list[Failure] = []
    files: list[Path] = []
    started = time.monotonic()
    for name, module in modules.items():
        place = trees.make_for(output / name, workplace.account, 0o755)
        (place / "data").symlink_to(tree / "contrib" / name / "data")  # \copy looks for it where the driver runs
        ran = run_driver(
            workplace, _NAME, "regress", tree / "contrib" / name, place,
            ["--dbname=contrib_regression", *module.options, *module.tests], len(module.tests),
            lambda tests, before=done: progress(_NAME, before + tests, total), prefix=f"{name}/",
        )  # fmt: skip
        done += len(module.tests)
        identical += ran.identical
        judged += ran.judged
        failures += ran.failures
        files += ran.files
    seconds = time.monotonic() - started
    kept = keep(workplace, _NAME, files, below=output)
    return Suite(_NAME, total, identical, tuple(judged), tuple(failures), tuple(skipped), seconds, kept)
