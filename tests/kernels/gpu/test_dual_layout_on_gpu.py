"""Both dual-layout quantizers on a real GPU, AMD's or NVIDIA's: bytes equal to the references."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, column_major, put_specials, skewed_values

from wavecast.kernels import dual_layout, weight_layouts
from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.dual_layout.api import dual_layout_result
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.weight_layouts.api import weight_layouts_result

pytestmark = pytest.mark.gpu

Parts = tuple[tuple[torch.Tensor | None, ...], ...]


@pytest.fixture(scope="module")
def fmt() -> Fp8Format:
    """The native format of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch)


def check(name: str, actual: Parts, wanted: Parts) -> None:
    assert last_path() is Path.TRITON
    for part, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        on_cpu = tuple(None if tensor is None else tensor.cpu() for tensor in a)
        assert_same_results(f"{name} {part}", on_cpu, w)


GROUPS = {
    "equal": (1024, [256, 512, 768, 1024]),
    "skewed-and-empty": (1000, [0, 3, 3, 900, 950]),
    "one": (9000, [9000]),
    "none": (64, [0, 0]),
    "no-rows": (0, [0, 0]),
    "many-tiny": (2048, list(range(5, 2005, 10))),
    "bytes": (1001, [17, 500]),
}


@pytest.mark.parametrize("variant", dual_layout.VARIANTS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("columns", [1, 200, 4104])
def test_dual_layout(fmt: Fp8Format, variant: str, groups: str, columns: int) -> None:
    rows, ends = GROUPS[groups]
    x = skewed_values(rows, columns)
    x = put_specials(x) if x.numel() else x
    offs = torch.tensor(ends, dtype=torch.int32)
    wanted = dual_layout_result(x, offs, fmt=fmt, power_of_two=False)
    check(variant, dual_layout.VARIANTS[variant](x.cuda(), offs.cuda()), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs(fmt: Fp8Format, dtype: torch.dtype) -> None:
    x, offs = put_specials(skewed_values(640, 4104, dtype=dtype)), torch.tensor([100, 630], dtype=torch.int32)
    wanted = dual_layout_result(x, offs, fmt=fmt, power_of_two=True)
    check(str(dtype), dual_layout.quantize_dual_layout(x.cuda(), offs.cuda(), power_of_two=True), wanted)


@pytest.mark.parametrize("variant", weight_layouts.VARIANTS)
@pytest.mark.parametrize("shape", [(1, 16, 32), (3, 200, 300), (2, 1024, 6000)], ids=str)
def test_weight_layouts(fmt: Fp8Format, variant: str, shape: tuple[int, int, int]) -> None:
    weight = column_major(put_specials(skewed_values(*shape)))
    wanted = weight_layouts_result(weight, fmt=fmt, power_of_two=False)
    check(variant, weight_layouts.VARIANTS[variant](column_major(weight.cuda())), wanted)


@pytest.mark.parametrize(("rows", "columns", "groups"), [(16384, 5120, 16), (16384, 2048, 64), (8192, 7168, 1)])
def test_every_tile_of_a_filled_gpu_is_right_every_time(fmt: Fp8Format, rows: int, columns: int, groups: int) -> None:
    """Many programs at once, caches full: a program that did not see others' maxima would show."""
    x = torch.randn(rows, columns, device="cuda").bfloat16()
    cuts = torch.randint(0, rows + 1, (groups - 1,), generator=torch.Generator().manual_seed(groups))
    offs = torch.cat([cuts.sort()[0], torch.tensor([rows])]).to(torch.int32).cuda()
    wanted = dual_layout.VARIANTS["two-kernels"](x, offs)
    for _ in range(5):
        out = dual_layout.quantize_dual_layout(x, offs)
        for one, other in zip((*out.rowwise, *out.colwise), (*wanted.rowwise, *wanted.colwise), strict=True):
            assert one is not None
            assert other is not None
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
