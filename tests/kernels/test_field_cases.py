"""Cases that have gone wrong elsewhere, by their number, on every quantizer with one scale a row, column or group.

Each operator is called so that it quantizes the rows of one (M, K) matrix with a scale each: what a case says of rows
then holds for all of them. Cases that concern one operator only are in its own folder, numbered alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from quantizers import assert_same_bytes
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from wavecast.kernels._device_helpers import quantize as device_quantize
from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.device import native_format
from wavecast.kernels.expert_weights import quantize_expert_weights
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS, quantize, scale_from_amax
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.rowwise_per_group.kernel import rowwise_per_group_kernel
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.weight_transpose.kernel import transpose_strip_kernel

pytestmark = pytest.mark.execute

Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
INF, NAN = float("inf"), float("nan")
M, K = 8, 128
"""One shape, so that each operator is compiled once for an architecture."""


def _one_group(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([x.shape[1]], dtype=torch.int32)


def by_rows(x: torch.Tensor, fmt: Fp8Format | None) -> Rows:
    values, scale, inverse = quantize_rowwise(x, format=fmt)
    return values, scale[:, 0], inverse[:, 0]


def by_columns(x: torch.Tensor, fmt: Fp8Format | None) -> Rows:
    out = colwise_per_group(x.t().contiguous(), _one_group(x), format=fmt)
    assert out.inverse is not None
    return out.values.t(), out.scale[0], out.inverse[0]


def by_groups_of_columns(x: torch.Tensor, fmt: Fp8Format | None) -> Rows:
    values, scale, inverse = quantize_rowwise_per_group(x, _one_group(x), format=fmt)
    return values, scale[0], inverse[0]


def by_experts(x: torch.Tensor, fmt: Fp8Format | None) -> Rows:
    values, scale, inverse = quantize_expert_weights(x.t()[None], format=fmt)
    return values[0].t(), scale[0, 0], inverse[0, 0]


def by_transposed_experts(x: torch.Tensor, fmt: Fp8Format | None) -> Rows:
    values, scale, inverse = quantize_weight_transpose(x.t().contiguous().t()[None], format=fmt)
    return values[0].t(), scale[0], inverse[0]


OPERATORS = {
    "rowwise": by_rows,
    "colwise_per_group": by_columns,
    "rowwise_per_group": by_groups_of_columns,
    "expert_weights": by_experts,
    "weight_transpose": by_transposed_experts,
}
EVERY_OPERATOR = pytest.mark.parametrize("quantize_rows", OPERATORS.values(), ids=OPERATORS)
QuantizeRows = Callable[[torch.Tensor, Fp8Format | None], Rows]


def only_once_in_software(arch: str, quantize_rows: QuantizeRows) -> None:
    """Conversions to e4m3fnuz that are no instruction take seconds to compile: one operator stands for all."""
    if not E4M3FNUZ.is_native_on(arch) and quantize_rows is not by_rows:
        pytest.skip("in software for one operator only")


def codes(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(torch.uint8)


def normal_rows() -> torch.Tensor:
    return torch.randn(M, K, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)


@EVERY_OPERATOR
def test_a1_the_maximum_is_that_of_the_dtype(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    """Values from -1 to 1: only those that round to the maximum become it, none becomes NaN, errors are rounding's."""
    fmt = native_format(virtual_arch)
    x = torch.linspace(-1, 1, M * (K - 1)).reshape(M, K - 1)
    x = torch.cat([x, torch.ones(M, 1)], dim=1).to(torch.bfloat16)
    values, scale, inverse = quantize_rows(x, None)
    assert values.dtype == fmt.dtype
    assert (scale == fmt.max).all()
    decoded = values.float()
    assert (decoded.abs().amax(dim=1) == fmt.max).all()
    assert not decoded.isnan().any()
    below = torch.tensor(fmt.max).to(fmt.dtype).view(torch.uint8) - 1  # the code of the second largest value
    halfway = (fmt.max + below.view(fmt.dtype).float().item()) / 2
    assert (x.float().abs()[decoded.abs() == fmt.max] * fmt.max >= halfway).all()
    normal = x.float().abs() * fmt.max >= fmt.min_normal
    error = (decoded * inverse[:, None] - x.float()).abs() / x.float().abs()
    assert error[normal].max() <= 1 / 16


@EVERY_OPERATOR
def test_a5_small_negatives_are_no_nan(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    """-0 and what rounds to it. FNUZ formats have no -0: its byte, 80, is their NaN."""
    only_once_in_software(virtual_arch, quantize_rows)
    x = torch.zeros(M, K, dtype=torch.bfloat16)
    x[:, 0] = 1
    x[:, 1:4] = torch.tensor([-0.0, -1e-7, -1e-9])
    values, _, _ = quantize_rows(x, E4M3FNUZ)
    assert (codes(values)[:, 1:] == 0).all()


@triton.jit
def _convert_kernel(x_ptr, values_ptr, FP8_MAX: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index)
    tl.store(values_ptr + index, device_quantize(x, 1.0, FP8_MAX, values_ptr.dtype.element_ty))


@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
def test_a7_finite_values_and_infinity_saturate(virtual_arch: str, fmt: Fp8Format) -> None:
    """Both sides of each rounding boundary at the top, whatever the target's instruction does there by itself."""
    top = [448, 449, 464, 465, 1e6] if fmt is E4M3FN else [240, 244, 247, 248, 1e6]
    x = torch.tensor([*top, INF, *(-value for value in top), -INF, NAN, 1.0, 0.0, -1.0])
    values = torch.empty(16, dtype=fmt.dtype)
    _convert_kernel[(1,)](x, values, fmt.max, 16)
    wanted = quantize(x, torch.ones(1), fmt)
    assert (wanted.float()[:6] == fmt.max).all()
    assert (wanted.float()[6:12] == -fmt.max).all()
    assert_same_bytes("values", values, wanted)
    assert values.float()[12].isnan()


@EVERY_OPERATOR
def test_a8_240_or_224(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    """Every byte that a limit of 224 leaves means twice as much in the OCP format: none is 7F or FF."""
    only_once_in_software(virtual_arch, quantize_rows)
    limited = E4M3FNUZ.limited_to(224)
    x = normal_rows()
    x[2, 5] = INF
    values, scale, _ = quantize_rows(x, limited)
    amax = torch.where(x.isfinite(), x, torch.zeros_like(x)).float().abs().amax(dim=1)
    assert torch.equal(scale, scale_from_amax(amax, limited, power_of_two=False))
    assert values.float().abs().max() == 224
    assert torch.equal(values.contiguous().view(torch.float8_e4m3fn).float(), 2 * values.float())


@EVERY_OPERATOR
def test_b1_zeros(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    x = normal_rows()
    whole = quantize_rows(x, None)
    x[3] = 0
    values, scale, inverse = quantize_rows(x, None)
    assert scale[3].isfinite()
    assert scale[3] > 0
    assert (codes(values)[3] == 0).all()
    assert (values.float()[3] * inverse[3] == 0).all()
    others = [row for row in range(M) if row != 3]
    assert torch.equal(codes(values)[others], codes(whole[0])[others])
    assert torch.equal(scale[others], whole[1][others])
    assert (codes(quantize_rows(torch.zeros(M, K, dtype=torch.bfloat16), None)[0]) == 0).all()


@EVERY_OPERATOR
def test_b2_tiny_values_have_finite_scales(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    tiny = torch.tensor([2.0**-149, 2.0**-133, 2.0**-126, 1e-36, 5.7e-35, 1e-30, 1e-14, 1e-13])
    values, scale, inverse = quantize_rows(tiny[:, None] * torch.ones(K), None)
    assert scale.isfinite().all()
    assert inverse.isfinite().all()
    assert (scale == scale_from_amax(torch.zeros(1), native_format(virtual_arch), power_of_two=False)).all()
    decoded = values.float()
    assert not decoded.isnan().any()
    assert (decoded[:, 0].diff() >= 0).all()


@EVERY_OPERATOR
def test_b4_infinity_saturates_and_nan_stays_beside_finite_values(
    virtual_arch: str, quantize_rows: QuantizeRows
) -> None:
    fmt = native_format(virtual_arch)
    x = normal_rows()
    x[5, 0], x[5, 7], x[6, 1], x[7] = INF, -INF, NAN, NAN
    values, scale, _ = quantize_rows(x, None)
    decoded = values.float()
    assert decoded[5, 0] == fmt.max
    assert decoded[5, 7] == -fmt.max
    assert decoded[6, 1].isnan()
    assert decoded[7].isnan().all()
    assert int(decoded.isnan().sum()) == 1 + K
    finite = torch.where(x.isfinite(), x, torch.zeros_like(x)).float()
    assert torch.equal(scale, scale_from_amax(finite.abs().amax(dim=1), fmt, power_of_two=False))
    expected = quantize(finite, scale[:, None], fmt)
    assert torch.equal(codes(values)[x.isfinite()], codes(expected)[x.isfinite()])


@EVERY_OPERATOR
def test_b5_eps_is_one_named_constant(virtual_arch: str, quantize_rows: QuantizeRows) -> None:
    fmt = native_format(virtual_arch)
    amax = torch.tensor([EPS / 2, EPS, 2 * EPS, 4 * EPS]).repeat(2)
    _, scale, _ = quantize_rows(amax[:, None] * torch.ones(K), None)
    wanted = torch.full((4,), fmt.max) / torch.tensor([EPS, EPS, 2 * EPS, 4 * EPS])
    assert torch.equal(scale, wanted.repeat(2))


SCALES = {"FP8_MAX": 240.0, "EPS": EPS, "POWER_OF_TWO": False}
ROWS_OF_FP8 = {"x_ptr": "*bf16", "values_ptr": "*fp8e4b8", "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
KERNELS = {
    rowwise_resident_kernel: (
        ROWS_OF_FP8 | {"m": "i32", "k": "i32", "x_row_stride": "i32"},
        SCALES | {"BLOCK_M": 2, "BLOCK_K": 128, "PIECES": 2, "VECTOR": 8},
    ),
    rowwise_streaming_kernel: (
        ROWS_OF_FP8 | {"k": "i32", "x_row_stride": "i32"},
        SCALES | {"BLOCK_K": 512, "VECTOR": 8},
    ),
    rowwise_per_group_kernel: (
        ROWS_OF_FP8 | {"offs_ptr": "*i32"} | dict.fromkeys(("m", "k_units", "row_stride_units", "groups"), "i32"),
        SCALES | {"UNIT": 8, "BLOCK_M": 2, "BLOCK_K": 128, "VECTOR": 8},
    ),
    transpose_strip_kernel: (
        {"w_ptr": "*bf16", "words_ptr": "*i32", "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
        | {"k": "i32", "n": "i32", "programs": "i32"},
        SCALES
        | {"FP8": tl.float8e4b8, "WORD": tl.int32, "KEY": tl.int16, "BLOCK_N": 256, "BLOCK_K": 32, "PACK": 4}
        | {"RESIDENT_BLOCKS": 1, "STREAMED": True, "SHARERS": 2, "XCDS": 8},
    ),
}


@pytest.mark.compile
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_d7_products_of_sizes_have_64_bits(kernel: Any) -> None:
    """A row, expert or column times a stride may pass 2^31; 32-bit products have a factor that is compiled in.

    Executed beyond 2^31 are `rowwise`, `rowwise_per_group` and `colwise_per_group`; the last multiplies within a tile
    in 32 bits, and the host refuses tiles that this is too few for.
    """
    types, constants = KERNELS[kernel]
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, places)
    text = triton.compile(source, target=GPUTarget("hip", "gfx942", 64), options={"num_warps": 1}).asm["ttir"]
    products = re.findall(r"arith\.muli (%\S+), (%\S+) (?:overflow<\S+> )?: (?:tensor<\S*x)?i(\d+)", text)
    constant = set(re.findall(r"(%\S+) = arith\.constant", text))
    assert sum(width == "64" for _, _, width in products) >= 2
    assert not [(a, b) for a, b, width in products if width == "32" and not constant & {a, b}]
