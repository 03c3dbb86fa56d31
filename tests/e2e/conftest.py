"""What tests of the whole command import."""

from tests.conftest import ROOT, Octavo

__all__ = ["ROOT", "Octavo"]
