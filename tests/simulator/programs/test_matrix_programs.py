"""Whole ``tl.dot`` programs, compiled by Triton and executed from their code object, against float64 products.

Inputs are small integers, so that every product and partial sum is exact.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from corpus import matrix_kernels as kernels

from wavecast.simulator.virtual import VirtualDevice

pytestmark = [pytest.mark.compile, pytest.mark.execute]

NATIVE = {
    "gfx942": (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    "gfx950": (torch.float8_e4m3fn, torch.float8_e5m2),
}


def integers(*shape: int, dtype: torch.dtype, seed: int = 0, limit: int = 4) -> torch.Tensor:
    values = torch.randint(-limit, limit + 1, shape, generator=torch.Generator().manual_seed(seed))
    return values.to(torch.float32).to(dtype)


def exact(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).to(torch.float64)


def gemm(
    m: int, n: int, k: int, left: torch.dtype, right: torch.dtype, out: torch.dtype, tile: tuple[int, int, int],
    *, along_k: bool = True, precision: str = "ieee", **options: Any,
) -> None:  # fmt: skip
    import triton.language as tl

    a = integers(m, k, dtype=left)
    b = integers(*((n, k) if along_k else (k, n)), dtype=right, seed=1)
    c = torch.full((m, n), 77.0).to(out)
    accumulator = tl.float64 if out is torch.float64 else tl.float32
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    kernels.gemm_kernel[grid](
        a, b, c, m, n, k, a.stride(0), b.stride(0),
        BM=tile[0], BN=tile[1], BK=tile[2], B_ALONG_K=along_k, PRECISION=precision, ACCUMULATOR=accumulator, **options,
    )  # fmt: skip
    expected = exact(a) @ (exact(b).T if along_k else exact(b))
    torch.testing.assert_close(c, expected.to(out), rtol=0, atol=0)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("along_k", [True, False])
def test_bf16(device: VirtualDevice, stages: int, along_k: bool) -> None:
    gemm(
        256, 128, 256, torch.bfloat16, torch.bfloat16, torch.float32, (128, 64, 64), along_k=along_k, num_stages=stages
    )


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("along_k", [True, False])
def test_fp8(device: VirtualDevice, stages: int, along_k: bool) -> None:
    fp8, _ = NATIVE[device.arch]
    gemm(128, 128, 256, fp8, fp8, torch.float32, (64, 64, 128), along_k=along_k, num_stages=stages)


def test_mixed_fp8(device: VirtualDevice) -> None:
    fp8, bf8 = NATIVE[device.arch]
    gemm(64, 64, 256, bf8, fp8, torch.float32, (64, 64, 128))


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
def test_other_types(device: VirtualDevice, kind: torch.dtype) -> None:
    out = torch.float64 if kind is torch.float64 else torch.float32
    gemm(64, 96, 64, kind, kind, out, (64, 32, 16))


@pytest.mark.parametrize("nonkdim", [16, 32])
def test_both_sizes_of_matrix_instruction(device: VirtualDevice, nonkdim: int) -> None:
    gemm(64, 64, 128, torch.bfloat16, torch.bfloat16, torch.float32, (64, 64, 64), matrix_instr_nonkdim=nonkdim)


def test_spilled_registers(device: VirtualDevice) -> None:
    gemm(256, 256, 128, torch.bfloat16, torch.bfloat16, torch.float32, (256, 256, 64), num_warps=4, waves_per_eu=2)


def test_tails_in_every_dimension(device: VirtualDevice) -> None:
    m, n, k = 70, 54, 96
    a, b = integers(m + 58, k, dtype=torch.bfloat16), integers(n + 74, k, dtype=torch.bfloat16, seed=1)
    c = torch.full((m + 1, n), 77.0)
    kernels.gemm_kernel[(2, 2)](a, b, c, m, n, k, k, k, BM=64, BN=64, BK=64, B_ALONG_K=True)
    expected = exact(a[:m]) @ exact(b[:n]).T
    torch.testing.assert_close(c[:m].double(), expected, rtol=0, atol=0)
    assert (c[m] == 77).all()


def test_split_k_adds_atomically(device: VirtualDevice) -> None:
    m, n, k, parts = 64, 64, 512, 4
    a, b = integers(m, k, dtype=torch.bfloat16), integers(n, k, dtype=torch.bfloat16, seed=1)
    c = torch.zeros(m, n)
    kernels.split_k_gemm_kernel[(1, 1, parts)](a, b, c, m, n, k, BM=64, BN=64, BK=64, PARTS=parts)
    torch.testing.assert_close(c.double(), exact(a) @ exact(b).T, rtol=0, atol=0)


def test_persistent(device: VirtualDevice) -> None:
    fp8, _ = NATIVE[device.arch]
    m, n, k, programs = 256, 192, 128, 5
    a, b = integers(m, k, dtype=fp8), integers(n, k, dtype=fp8, seed=1)
    scale_a, scale_b = 2.0 ** integers(m, dtype=torch.float32, seed=2), 2.0 ** integers(n, dtype=torch.float32, seed=3)
    c = torch.zeros(m, n)
    kernels.persistent_gemm_kernel[(programs,)](
        a, b, c, scale_a, scale_b, m, n, k, PROGRAMS=programs, BM=64, BN=64, BK=64
    )
    expected = exact(a) @ exact(b).T * scale_a.double()[:, None] * scale_b.double()[None, :]
    torch.testing.assert_close(c.double(), expected, rtol=0, atol=0)


def test_grouped_with_an_empty_and_a_ragged_group(device: VirtualDevice) -> None:
    n, k, ends = 128, 128, [100, 100, 163, 256]
    a, b = integers(256, k, dtype=torch.bfloat16), integers(4, n, k, dtype=torch.bfloat16, seed=1)
    c = torch.full((256, n), 77.0)
    ones = torch.ones(256), torch.ones(4, n)
    kernels.grouped_gemm_kernel[(7,)](
        a, b, c, torch.tensor(ends, dtype=torch.int32), *ones, 4, n, k, BM=64, BN=64, BK=64
    )
    first = 0
    for group, last in enumerate(ends):
        expected = exact(a[first:last]) @ exact(b[group]).T
        torch.testing.assert_close(c[first:last].double(), expected, rtol=0, atol=0)
        first = last


def test_integers(device: VirtualDevice) -> None:
    a, b = (integers(64, 128, dtype=torch.float32, seed=s, limit=127).to(torch.int8) for s in (0, 1))
    c = torch.zeros(64, 64, dtype=torch.int32)
    kernels.integer_gemm_kernel[(1, 1)](a, b, c, 64, 128, BM=64, BN=64, BK=64)
    torch.testing.assert_close(c, (a.long() @ b.long().T).int(), rtol=0, atol=0)


SCALED = [("e4m3", "e4m3", 1), ("e4m3", "e4m3", 2), ("e5m2", "e4m3", 2), ("e2m1", "e2m1", 1), ("e4m3", "e2m1", 1)]


@pytest.mark.parametrize(("left", "right", "stages"), SCALED)
def test_block_scales(device: VirtualDevice, left: str, right: str, stages: int) -> None:
    if device.arch != "gfx950":
        pytest.skip("gfx942 has no block-scaled matrix instruction")
    m, n, k = 64, 64, 256
    operands = {}
    for name, rows, form, seed in (("a", m, left, 0), ("b", n, right, 1)):
        scale = torch.randint(126, 129, (rows, k // 32), generator=torch.Generator().manual_seed(seed + 10))
        factor = torch.exp2(scale.double() - 127).repeat_interleave(32, dim=1)
        if form == "e2m1":
            codes = torch.randint(0, 16, (rows, k), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
            values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6]).double()[(codes & 7).long()]
            values = torch.where(codes >= 8, -values, values)
            data = codes[:, 0::2] | codes[:, 1::2] << 4
        else:
            data = integers(rows, k, dtype=torch.float8_e4m3fn if form == "e4m3" else torch.float8_e5m2, seed=seed)
            values = exact(data)
        operands[name] = data, scale.to(torch.uint8), values * factor
    c = torch.zeros(m, n)
    kernels.scaled_gemm_kernel[(1, 1)](
        operands["a"][0], operands["b"][0], c, operands["a"][1], operands["b"][1], n, k,
        FORMAT_A=left, FORMAT_B=right, PACK_A=2 if left == "e2m1" else 1, PACK_B=2 if right == "e2m1" else 1,
        BM=64, BN=64, BK=128, num_stages=stages,
    )  # fmt: skip
    torch.testing.assert_close(c.double(), operands["a"][2] @ operands["b"][2].T, rtol=0, atol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_attention(device: VirtualDevice, causal: bool) -> None:
    """Within bf16 rounding of the probabilities and the output (2^-8 each) of the float64 result."""
    heads, length, depth = 2, 128, 64
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(heads, length, depth, generator=generator).to(torch.bfloat16) for _ in range(3))
    output = torch.zeros_like(q)
    scale = 1.44269504 / depth**0.5
    kernels.attention_kernel[(length // 64, heads)](
        q, k, v, output, scale, length, CAUSAL=causal, DEPTH=depth, BM=64, BN=64
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    torch.testing.assert_close(output.double(), expected, rtol=2**-7, atol=2**-7)
