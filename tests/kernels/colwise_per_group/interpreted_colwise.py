"""Run as a script: the column-wise kernels against the reference, in Triton's interpreter.

The interpreter's FP8 casts do not round to nearest even, so the kernels store into fp32 here, which shows exactly the
values that they cast; torch casts them. Small tiles make the cases cross pieces, tiles and both passes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import torch
from colwise_cases import CASES, Case
from quantizers import assert_same_bytes, guarded_outputs

from wavecast.kernels.colwise_per_group.api import launch_colwise
from wavecast.kernels.colwise_per_group.baseline import launch_fused, launch_two_pass, launch_two_pass_unit_stride
from wavecast.kernels.colwise_per_group.plan import Plan
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.wgrad_copies.baseline import column_major_copy

SMALL = Plan(chunk=8, pieces=2, waves=2, row_lanes=4, col_lanes=8, lane_cols=4, reason="128 rows of 32 columns")


def check_ours(case: Case, fmt: Fp8Format, *, power_of_two: bool) -> None:
    x, offs = case.x(), case.offs()
    wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two)
    with guarded_outputs() as guard:
        values = guard.like(wanted[0].float().t().contiguous().t())
        scale, inverse = guard.like(wanted[1]), guard.like(wanted[2])
        launch_colwise(x, offs, values, scale, inverse, fmt=fmt, power_of_two=power_of_two, plan=SMALL)
    name = f"{case.name} {fmt.name}"
    assert_same_bytes(name, scale, wanted[1])
    assert_same_bytes(name, inverse, wanted[2])
    assert_same_bytes(name, values.to(fmt.dtype), wanted[0])


def check_baselines(case: Case, fmt: Fp8Format) -> None:
    x, offs = case.x(), case.offs()
    wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=False)
    last = case.ends[-1]
    for launch in (launch_two_pass, launch_two_pass_unit_stride, launch_fused):
        with guarded_outputs() as guard:
            values = guard.like(wanted[0].float().t().contiguous().t())
            scale = guard.like(wanted[1])
            launch(x, offs, values, scale, fmt=fmt, power_of_two=False)
        assert_same_bytes(f"{launch.__name__} {case.name}", scale, wanted[1])
        assert_same_bytes(f"{launch.__name__} {case.name}", values[:last].to(fmt.dtype), wanted[0][:last])
    copy = column_major_copy(x)
    assert copy.stride() == (1, x.shape[0])
    assert torch.equal(copy, x)


def main() -> None:
    checks = 0
    for index, case in enumerate(case for case in CASES if case.interpreted):
        check_ours(case, (E4M3FNUZ, E4M3FN)[index % 2], power_of_two=index % 3 == 0)
        checks += 1
    for case in (Case("equal", 512, 40, (256, 512)), Case("tails", 500, 33, (250, 500))):
        check_baselines(case, E4M3FNUZ)
        checks += 1
    print(f"{checks} checks")


if __name__ == "__main__":
    main()
