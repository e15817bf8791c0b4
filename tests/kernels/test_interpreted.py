"""The quantizers that have no such test in their own folder, in Triton's interpreter, in one process."""

from __future__ import annotations

import pytest
from quantizers import run_interpreted


@pytest.mark.compile
def test_kernels_in_the_interpreter() -> None:
    run_interpreted("tensorwise", "blockwise", "rowwise_per_group", "colwise_per_group")
