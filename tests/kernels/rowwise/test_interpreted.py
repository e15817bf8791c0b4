"""The kernels in Triton's interpreter."""

from __future__ import annotations

import pytest
from quantizers import run_interpreted


@pytest.mark.compile
def test_kernels_in_the_interpreter() -> None:
    run_interpreted("rowwise")
