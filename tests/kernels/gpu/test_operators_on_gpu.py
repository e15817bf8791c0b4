"""Every variant of every operator on a real GPU, AMD's or NVIDIA's: bytes equal to the reference.

``hatch run rocm:test`` runs these. They need no simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from quantizers import assert_same_bytes, column_major, put_specials, skewed_values

from wavecast.kernels import colwise_per_group, expert_weights, fnuz, rowwise, rowwise_per_group, weight_transpose
from wavecast.kernels.colwise_per_group.baseline import VARIANTS as COLWISE_VARIANTS
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.fnuz.reference import quantize_fnuz_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference
from wavecast.kernels.wgrad_copies.baseline import VARIANTS as WGRAD_VARIANTS
from wavecast.kernels.wgrad_copies.reference import wgrad_operands_reference

pytestmark = pytest.mark.gpu

Tensors = tuple[torch.Tensor | None, ...]


@pytest.fixture(scope="module")
def fmt() -> Fp8Format:
    """The native format of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch)


def check(name: str, actual: Tensors, wanted: Tensors) -> None:
    """Same bytes, an inverse scale that a variant does not compute left out; and the kernels ran, not the reference."""
    assert last_path() is Path.TRITON
    for part, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        if a is not None:
            assert w is not None
            assert_same_bytes(f"{name} {part}", a.cpu(), w)


@pytest.mark.parametrize("variant", rowwise.VARIANTS)
@pytest.mark.parametrize("shape", [(1, 16), (5, 100), (300, 2048), (7, 5120), (4, 1800), (3, 70000)], ids=str)
@pytest.mark.parametrize("power_of_two", [False, True])
def test_rowwise(fmt: Fp8Format, variant: str, shape: tuple[int, int], power_of_two: bool) -> None:
    x = put_specials(skewed_values(*shape))
    wanted = quantize_rowwise_reference(x, fmt, power_of_two=power_of_two)
    check(variant, rowwise.VARIANTS[variant](x.cuda(), power_of_two=power_of_two), wanted)


def test_a8_a_limited_format(fmt: Fp8Format) -> None:
    """The clamp is not left to a conversion that saturates at the format's own maximum."""
    x = put_specials(skewed_values(30, 500))
    limited = fmt.limited_to(fmt.max / 2)
    wanted = quantize_rowwise_reference(x, limited, power_of_two=False)
    check("limited", rowwise.quantize_rowwise(x.cuda(), format=limited), wanted)


GROUPS = {
    "equal": (1024, [256, 512, 768, 1024]),
    "skewed-and-empty": (1000, [0, 3, 3, 900, 950]),
    "beyond-every-tile": (9000, [9000]),
    "none": (64, [0, 0]),
}
# Practice's fused kernel is right for groups up to the mean only; none of the earlier ones writes the tail rows, or has
# a policy for NaN and infinity.
ONLY_EQUAL = {"fused-single-pass"}


@pytest.mark.parametrize("variant", COLWISE_VARIANTS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("columns", [64, 200])
def test_colwise_per_group(fmt: Fp8Format, variant: str, groups: str, columns: int) -> None:
    tokens, ends = GROUPS[groups]
    if variant in ONLY_EQUAL and groups != "equal":
        pytest.skip("this variant stands for practice that is right for equal groups only")
    x = skewed_values(tokens, columns)
    offs = torch.tensor(ends, dtype=torch.int32)
    if variant == "wavecast":
        x = put_specials(x)
        wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=True)
        check(variant, COLWISE_VARIANTS[variant](x.cuda(), offs.cuda(), power_of_two=True), wanted)
        return
    values, scale, _ = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=True)
    actual = COLWISE_VARIANTS[variant](x.cuda(), offs.cuda(), power_of_two=True)
    assert_same_bytes("scale", actual.scale.cpu(), scale)
    owned = ends[-1]
    assert torch.equal(actual.values.cpu()[:owned].view(torch.uint8), values[:owned].view(torch.uint8))


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("padding", [0, 3])
def test_rowwise_per_group(fmt: Fp8Format, groups: str, rows: int, padding: int) -> None:
    columns, ends = GROUPS[groups]
    x = put_specials(skewed_values(columns + padding, rows).t().contiguous())
    offs = torch.tensor(ends, dtype=torch.int32)
    wanted = quantize_rowwise_per_group_reference(x[:, :columns], offs, fmt, power_of_two=False)
    check(groups, rowwise_per_group.quantize_rowwise_per_group(x.cuda()[:, :columns], offs.cuda()), wanted)


@pytest.mark.parametrize("variant", weight_transpose.VARIANTS)
@pytest.mark.parametrize("shape", [(1, 32, 16), (3, 200, 300), (2, 512, 6000)], ids=str)
def test_weight_transpose(fmt: Fp8Format, variant: str, shape: tuple[int, int, int]) -> None:
    w = column_major(skewed_values(*shape))
    wanted = quantize_weight_transpose_reference(w, fmt, power_of_two=True)
    check(variant, weight_transpose.VARIANTS[variant](column_major(w.cuda()), power_of_two=True), wanted)


@pytest.mark.parametrize("variant", expert_weights.VARIANTS)
@pytest.mark.parametrize("shape", [(1, 16, 32), (3, 200, 300), (2, 6000, 64)], ids=str)
def test_expert_weights(fmt: Fp8Format, variant: str, shape: tuple[int, int, int]) -> None:
    w = column_major(skewed_values(*shape))
    wanted = quantize_expert_weights_reference(w, fmt, power_of_two=True)
    check(variant, expert_weights.VARIANTS[variant](column_major(w.cuda()), power_of_two=True), wanted)


@pytest.mark.parametrize("variant", WGRAD_VARIANTS)
def test_wgrad_operands(fmt: Fp8Format, variant: str) -> None:
    grad, a = skewed_values(512, 96), skewed_values(512, 160, seed=1)
    offs = torch.tensor([100, 100, 512], dtype=torch.int32)
    wanted = wgrad_operands_reference(grad, a, offs=offs, fmt=fmt, power_of_two=True)
    actual = WGRAD_VARIANTS[variant](grad.cuda(), a.cuda(), offs=offs.cuda(), power_of_two=True)
    for name, mine, theirs in zip(("grad_output", "a"), actual, wanted, strict=True):
        check(f"{variant} {name}", mine, theirs)


@pytest.mark.parametrize("variant", fnuz.VARIANTS)
def test_wrong_maximum(fmt: Fp8Format, variant: str) -> None:
    if fmt.name != "e4m3fnuz":
        pytest.skip("the wrong maximum is a fault of e4m3fnuz")
    x = skewed_values(33, 500)
    maximum = 448.0 if variant == "max-448" else fmt.max
    check(variant, fnuz.VARIANTS[variant](x.cuda()), quantize_fnuz_reference(x, maximum=maximum, power_of_two=False))


@pytest.mark.parametrize(
    "call",
    [
        lambda: rowwise.quantize_rowwise(torch.zeros(4, 4, dtype=torch.bfloat16)),
        lambda: colwise_per_group.colwise_per_group(
            torch.zeros(4, 4, dtype=torch.bfloat16), torch.tensor([4], dtype=torch.int32)
        ),
    ],
)
def test_cpu_tensors_are_no_detour(fmt: Fp8Format, call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="CPU tensors while a real"):
        call()
