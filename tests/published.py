"""The location of published results for tests, which may be absent."""

from pathlib import Path

import pytest

TPCH_I5 = Path(__file__).parents[2] / "shared" / "data" / "vondra-tpch-i5"

needs_tpch_i5 = pytest.mark.skipif(
    not TPCH_I5.exists(), reason="the published TPC-H results are not beside the checkout"
)
