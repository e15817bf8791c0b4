"""The kernel in HIP: what its code is, that the simulator's checks find nothing, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from gemms import scales, values
from hip_code import assert_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting, kernels_of
from symmetric import ImmediateMemory

from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.device import native_format
from wavecast.kernels.hip.compiler import compile_hip
from wavecast.kernels.matmul_reduce_scatter.launch import ScatterLaunch
from wavecast.kernels.matmul_reduce_scatter.launch_hip import PARAMETERS, SOURCE, hip_kernel
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter, window_bytes
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.virtual import virtual_device

pytest.importorskip("ziglang")
GOOD = Layout(torch.bfloat16, torch.bfloat16, None, 512, aligned=True)


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
class TestCompiled:
    def test_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting(self, arch: str) -> None:
        for kernel in kernels_of(SOURCE, arch):
            assert_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting(kernel, arch)

    def test_parts_are_released_at_system_scope_behind_all_waves_stores(self, arch: str) -> None:
        for kernel in kernels_of(SOURCE, arch):
            lines = [" ".join(i.text.split()) for i in kernel.instructions]
            released = [i for i, line in enumerate(lines) if line == "buffer_wbl2 sc0 sc1"]
            assert released
            for at in released:
                barrier = max(i for i, line in enumerate(lines[:at]) if line == "s_barrier")
                waits = [i for i in range(barrier) if re.match(r"s_waitcnt.*vmcnt\(0\)", lines[i])]
                assert not any(re.match(r"(global|buffer)_store", line) for line in lines[waits[-1] : barrier])

    def test_arguments_lie_where_the_compiler_expects_them(self, arch: str) -> None:
        name = hip_kernel(torch.bfloat16, torch.float32).name
        kernel = parse_assembly(compile_hip(SOURCE, arch).assembly, name=name)
        found = [(item.name, item.offset, item.size) for item in kernel.arguments if not item.is_hidden]
        wanted, at = [], 0
        for argument, kind in PARAMETERS:
            size = 8 if kind == "P" else 4
            at = -(-at // size) * size
            wanted.append((argument, at, size))
            at += size
        assert found == wanted


@pytest.mark.compile
@pytest.mark.execute
@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
@pytest.mark.parametrize("fp8", [False, True])
def test_the_simulators_checks_find_nothing(device: str, fp8: bool) -> None:
    """No race in LDS or on results, no stray access; of steps and tiles that end early too."""
    rows, n, k, ranks = 150, 260, 176, 2
    with virtual_device(device, check=True) as virtual:
        dtype = native_format(virtual.arch).dtype if fp8 else torch.bfloat16
        memory = ImmediateMemory(1, ranks, window_bytes(rows, n, ranks), address_of=virtual.address_of)
        memory.pads[1].fill_(1)  # the other rank's part has come
        inverses = (scales(ranks * rows, 1, exact=True, seed=1), scales(1, n, exact=True, seed=2))
        b = values(n, k, dtype=dtype, exact=True, seed=3).t()
        a = values(ranks * rows, k, dtype=dtype, exact=True, seed=4)
        parts, out = as_parts(a, b, ranks, 0, *(inverses if fp8 else (None, None))), torch.empty(rows, n).bfloat16()
        plan = plan_matmul_reduce_scatter(
            rows=rows, columns=n, length=k, ranks=ranks, element_bytes=dtype.itemsize, arch=virtual.arch,
            hip=Layout.of(b, out, None, a),
        )  # fmt: skip
        assert plan.hip is not None
        plan = replace(plan, hip=replace(plan.hip, programs=2, xcds=2), polls=3)
        workspace = make_workspace(memory)
        ScatterLaunch(workspace, parts, b, out, plan, average=False)(parts, b, out)
        workspace.check()
        assert virtual.launches
        assert [str(finding) for finding in virtual.findings] == []


def plan(**changes: object):
    given = {
        "rows": 1024,
        "columns": 8192,
        "length": 512,
        "ranks": 8,
        "element_bytes": 2,
        "arch": "gfx942",
        "hip": GOOD,
    }
    return plan_matmul_reduce_scatter(**{**given, **changes})


def test_a_workgroup_for_every_unit() -> None:
    found = plan(full_mesh=True)
    assert (found.hip.programs, found.peers) == (304, 7)
    assert found.reason.startswith("kernel in HIP: tiles of 256 × 256, one a compute unit, 304 workgroups; programs")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": 510}, "N is 510; it takes multiples of 4: pad b with"),
        ({"length": 508}, "K is 508; it takes multiples of 8"),
        ({"arch": "gfx90a"}, "it is for gfx942 and gfx950, got gfx90a"),
        # The result's rows would have fewer: those that are sent are of fp32, whatever it is of.
        ({"columns": 1 << 21}, "256 rows of an operand, the result or a part of it have more than 2147483647 bytes"),
        ({"hip": replace(GOOD, out_dtype=torch.float16)}, "the result of torch.bfloat16 is torch.float16"),
    ],
)
def test_asked_for_where_it_is_not_possible_it_is_an_error(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"asked for and not possible: {message}.*WAVECAST_ASYNC_TP_CODE=triton"):
        plan(**changes)
