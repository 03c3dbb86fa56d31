"""The packages that commands for a running server do not need, so that a production host needs few (`octavo[lab]`)."""

from octavo.errors import HostError

# The modules of the extras in pyproject.toml; what `fleet` runs on is besides the lab's.
FLEET = frozenset({"cryptography", "dask", "distributed"})
LAB = frozenset({"duckdb", "numpy", "pydantic", "scipy", "sqlalchemy", "vl_convert"})


def missing_extra(error: ImportError) -> HostError | None:
    """How to install the missing module; None if it belongs neither to an extra nor to Octavo's compiled part.

    >>> str(missing_extra(ModuleNotFoundError("No module named 'numpy.linalg'", name="numpy.linalg")))
    "this command needs numpy, which comes with octavo[lab]: pip install 'WHEEL[lab]', with the wheel of script/package"
    >>> missing_extra(ModuleNotFoundError("No module named 'x'", name="x")) is None
    True
    """
    # `from octavo import _core` raises an ImportError of octavo, `from octavo._core import …` one of the module.
    if error.name == "octavo._core" or (error.name == "octavo" and "'_core'" in str(error)):
        return HostError("the compiled part of Octavo (octavo._core) is missing; script/bootstrap builds it")
    module = (error.name or "").partition(".")[0]
    extra = "lab" if module in LAB else "fleet" if module in FLEET else None
    if extra is None:
        return None
    # The file, not the name: nobody has promised that an index has no other package of this name.
    return HostError(
        f"this command needs {module}, which comes with octavo[{extra}]: "
        f"pip install 'WHEEL[{extra}]', with the wheel of script/package"
    )
