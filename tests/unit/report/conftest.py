"""The documents as fixtures; each test gets its own copy."""

import pytest

from . import documents
from .surroundings import Document


@pytest.fixture
def small() -> Document:
    return documents.small()


@pytest.fixture
def grid() -> Document:
    return documents.grid()


@pytest.fixture(params=["unfinished", "single", "all_invalid", "hostile", "queries"])
def edge(request: pytest.FixtureRequest) -> Document:
    return getattr(documents, request.param)()
