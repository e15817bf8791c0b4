"""The quantizer in HIP, executed: the reference's bytes and nothing beside them; what it refuses."""

from __future__ import annotations

import pytest
import torch
from colwise_cases import CASES, Case
from quantizers import any_bits, assert_same_bytes, guarded_outputs

from wavecast.kernels.colwise_per_group import colwise_per_group_hip
from wavecast.kernels.colwise_per_group.launch_hip import PIECE_ROWS, SOURCE, hip_obstacle, launch_colwise_hip
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import native_format
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, E5M2FNUZ, Fp8Format
from wavecast.kernels.hip.compiler import compile_hip
from wavecast.simulator.program.assembly import kernel_names, parse_assembly
from wavecast.simulator.virtual import virtual_device

pytest.importorskip("ziglang")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
TAKEN = [case for case in CASES if hip_obstacle(case.x(), E4M3FNUZ, "gfx942") is None]
LONG = (
    Case("long, held", 2 * PIECE_ROWS, 72, (2 * PIECE_ROWS - 5,), special=True),
    Case("long, a piece and a chunk before what is held", 3 * PIECE_ROWS + 16, 40, (3, 3 * PIECE_ROWS + 11)),
    Case("fp16, long", 5 * PIECE_ROWS, 16, (5 * PIECE_ROWS - 9,), dtype=torch.float16, special=True),
)


def run_between_canaries(arch: str, x: torch.Tensor, offs: torch.Tensor, *, power_of_two: bool = False) -> None:
    fmt = native_format(arch)
    wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two)
    with guarded_outputs() as guard:
        values, scale, inverse = (guard.like(tensor) for tensor in wanted)
        launch_colwise_hip(x, offs, values, scale, inverse, fmt=fmt, power_of_two=power_of_two, arch=arch)
    assert_same_bytes("values", values, wanted[0])
    assert_same_bytes("scale", scale, wanted[1])
    assert_same_bytes("inverse", inverse, wanted[2])


@pytest.mark.parametrize("case", [*TAKEN, *LONG], ids=lambda case: case.name)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    run_between_canaries(virtual_arch, case.x(), case.offs(), power_of_two=case.special)


def test_any_bits(virtual_arch: str) -> None:
    run_between_canaries(virtual_arch, any_bits(600, 64, seed=5), torch.tensor([100, 571], dtype=torch.int32))


def test_the_operator_in_hip(virtual_arch: str) -> None:
    case = Case("operator", 80, 16, (11, 80))
    wanted = colwise_per_group_reference(case.x(), case.offs(), fmt=native_format(virtual_arch), power_of_two=False)
    out = colwise_per_group_hip(case.x(), case.offs())
    assert_same_bytes("values", out.values, wanted[0])
    with pytest.raises(ValueError, match="cannot do it: x has 81 rows; it takes multiples of 8; or use colwise_per_"):
        colwise_per_group_hip(torch.ones(81, 16, dtype=torch.bfloat16), case.offs())


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_the_simulators_checks_find_nothing(device: str) -> None:
    case = LONG[1]
    with virtual_device(device, check=True) as virtual:
        colwise_per_group_hip(case.x(), case.offs())
        assert virtual.launches
        assert [str(finding) for finding in virtual.findings] == []


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_two_workgroups_fit_a_compute_unit_and_nothing_spills(arch: str) -> None:
    text = compile_hip(SOURCE, arch).assembly
    assert len(kernel_names(text)) == 2
    for name in kernel_names(text):
        resources = parse_assembly(text, name=name).resources
        assert resources.vgpr <= 128
        assert resources.vgpr_spills == resources.scratch_bytes == 0


@pytest.mark.parametrize(
    ("x", "fmt", "arch", "message"),
    [
        (torch.zeros(8, 8, dtype=torch.bfloat16), E4M3FNUZ, "gfx942", None),
        (torch.zeros(8, 8, dtype=torch.bfloat16), E4M3FN, "sm_90", "it is for gfx942 and gfx950, got sm_90"),
        (torch.zeros(8, 8), E4M3FNUZ, "gfx942", "x is torch.float32; it takes bfloat16 and float16"),
        (torch.zeros(8, 8, dtype=torch.float16), E4M3FN, "gfx942", "format e4m3fn is not converted to by gfx942"),
        (torch.zeros(8, 8, dtype=torch.float16), E5M2FNUZ, "gfx942", "format e5m2fnuz is not what it converts to"),
        (torch.zeros(9, 8, dtype=torch.float16), E4M3FNUZ, "gfx942", "x has 9 rows; it takes multiples of 8"),
        (torch.zeros(8, 9, dtype=torch.float16), E4M3FNUZ, "gfx942", "x has 9 columns"),
        (torch.zeros(8, 9, dtype=torch.float16)[:, :8], E4M3FNUZ, "gfx942", "rows of x are 9 elements apart"),
        (torch.zeros(80, dtype=torch.float16)[1:65].view(8, 8), E4M3FNUZ, "gfx942", "no multiple of 16 bytes"),
        (torch.empty(8 << 22, dtype=torch.float16).view(8, 1 << 22)[:, :8], E4M3FNUZ, "gfx942", "512 rows have more"),
    ],
)
def test_what_it_refuses(x: torch.Tensor, fmt: Fp8Format, arch: str, message: str | None) -> None:
    found = hip_obstacle(x, fmt, arch)
    assert (found is None) if message is None else (found is not None and message in found)
