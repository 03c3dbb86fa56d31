"""The doctests of the product's modules are its small specification."""

import doctest
import importlib
import pkgutil

import pytest

import octavo


def _modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(octavo.__path__, "octavo.") if info.name != "octavo.__main__"]


@pytest.mark.parametrize("name", _modules())
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_some() -> None:
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in _modules()) > 5
