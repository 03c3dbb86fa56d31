"""The doctests of Octavo's modules serve as their specification."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import octavo


def _modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(octavo.__path__, "octavo.") if info.name != "octavo.__main__"]


def _has_examples(name: str) -> bool:
    """Whether its text has any: to search for examples in a module without any takes a tenth of a second."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    return b">>> " in Path(spec.origin).read_bytes()


@pytest.mark.parametrize("name", _modules())
def test_doctests(name: str) -> None:
    module = importlib.import_module(name)  # each can be imported
    if _has_examples(name):
        found = doctest.testmod(module)
        assert found.failed == 0
        assert found.attempted > 0


def test_there_are_some() -> None:
    assert sum(map(_has_examples, _modules())) > 5
