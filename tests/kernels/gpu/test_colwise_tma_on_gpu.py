"""The column-wise kernel for sm_90 on a real GPU: the reference's bytes, for groups that meet its pieces anyhow.

``hatch run rocm:test`` runs these; they are skipped where there is no such GPU.
"""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes, put_column_specials

from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.colwise_per_group.api import allocate_colwise
from wavecast.kernels.colwise_per_group.launch_tma import choose_tma, launch_tma
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import active_arch
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.tma import ARCH
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

pytestmark = pytest.mark.gpu

CASES = {
    "groups of whole pieces": (4096, 512, (1024, 2048, 3072, 4096)),
    "rows behind the last group": (4096, 512, (1024, 2048, 3072, 4019)),
    "one group, few columns": (4096, 8, (4096,)),
    "groups within 16 rows": (16, 64, (3, 3, 9, 16)),
    "every bound cuts": (48, 72, (1, 2, 3, 20, 20, 40)),
    "a group shorter than a piece behind an empty one": (256, 64, (0, 255)),
    "parts with several programs": (8192, 320, (17, 5000, 5003, 8191)),
    "no token belongs to a group": (4096, 640, (0, 0, 0)),
    "offsets beyond the rows": (4096, 192, (100, 4000, 9000)),
    "one group of all programs": (196_608, 64, (196_608,)),
    "more items than programs": (32768, 2048, (1000, 9000, 9001, 9130, 20000, 32768)),
}


@pytest.fixture(autouse=True)
def hopper() -> None:
    if active_arch() != ARCH or not torch.cuda.is_available():
        pytest.skip("no GPU of sm_90")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_reference(name: str, power_of_two: bool, dtype: torch.dtype) -> None:
    tokens, columns, ends = CASES[name]
    generator = torch.Generator(device="cuda").manual_seed(tokens)
    sizes = torch.exp2(torch.randint(-10, 11, (1, columns), generator=generator, device="cuda"))
    x = (torch.randn(tokens, columns, generator=generator, device="cuda") * sizes).to(dtype)
    x = put_column_specials(x)
    offs = torch.tensor(ends, dtype=torch.int32, device="cuda")
    out = allocate_colwise(x, offs, E4M3FN.dtype)
    conversion = Conversion(E4M3FN, E4M3FN.max, power_of_two, ARCH)
    plan = choose_tma(x, out.values.t(), len(ends), conversion)
    assert plan is not None
    assert out.inverse is not None
    for _ in range(3):  # what programs share is zeroed by each call
        out.values.view(torch.uint8).fill_(0x55)
        launch_tma(x, offs, out.values.t(), out.scale, out.inverse, conversion, plan)
    wanted = colwise_per_group_reference(x, offs, fmt=E4M3FN, power_of_two=power_of_two)
    assert_same_bytes("values", out.values, wanted[0])
    assert_same_bytes("scale", out.scale, wanted[1])
    assert_same_bytes("inverse", out.inverse, wanted[2])


def test_operators_take_it_where_groups_are_long() -> None:
    x = put_column_specials(torch.randn(16384, 2048, device="cuda").bfloat16())
    offs = torch.tensor([5, 16000], dtype=torch.int32, device="cuda")
    out = colwise_per_group(x, offs)
    assert out.inverse is not None
    wanted = colwise_per_group_reference(x, offs, fmt=E4M3FN, power_of_two=False)
    for name, ours, theirs in zip(("values", "scale", "inverse"), out, wanted, strict=True):
        assert ours is not None
        assert_same_bytes(name, ours, theirs)


@pytest.mark.parametrize(
    ("experts", "k", "n"), [(3, 3008, 4080), (3, 3000, 4080), (1, 8192, 8192), (9, 1024, 4096), (4, 8192, 1040)]
)
def test_weights_are_groups_of_equal_size(experts: int, k: int, n: int) -> None:
    weight = torch.randn(experts, n, k, device="cuda").bfloat16().transpose(1, 2)
    weight[0, 3, 5] = float("nan")
    weight[experts - 1, k - 1, n - 1] = float("inf")
    out = quantize_weight_transpose(weight)
    wanted = quantize_weight_transpose_reference(weight, fmt=E4M3FN, power_of_two=False)
    for name, ours, theirs in zip(("values", "scale", "inverse"), out, wanted, strict=True):
        assert_same_bytes(name, ours, theirs)
