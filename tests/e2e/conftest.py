"""Imports for tests of the whole command."""

from tests.conftest import ROOT, Octavo

__all__ = ["ROOT", "Octavo"]
