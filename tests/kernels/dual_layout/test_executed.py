"""The code objects that the GPU would run, executed: equal to the reference byte for byte."""

from __future__ import annotations

import pytest
from dual_layout_cases import CASES, Case, check

from wavecast.kernels.device import native_format
from wavecast.kernels.dual_layout.api import launch_both

pytestmark = pytest.mark.execute


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    check(launch_both, case, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)
