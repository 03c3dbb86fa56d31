"""The examples in the docstrings are correct."""

import doctest
import importlib

import pytest

MODULES = ["numbers", "document", "trials", "markdown", "chart_style", "chart_colours", "run_history", "sentences"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"octavo.report.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
