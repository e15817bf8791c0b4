"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

import mmap
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizers import assert_same_results, check_launch, column_major, put_specials, skewed_values

from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.blockwise.api import launch_blockwise
from wavecast.kernels.blockwise.reference import quantize_blockwise_reference
from wavecast.kernels.device import Path, last_path, native_format
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import EPS
from wavecast.simulator.virtual import active_virtual_device, virtual_device

pytestmark = pytest.mark.execute
SQUARE, ROW, COLUMN = (128, 128), (1, 128), (128, 1)


def inputs() -> dict[str, tuple[torch.Tensor, tuple[int, int]]]:
    ragged = put_specials(skewed_values(300, 200))
    ragged[:128, :128] = 0
    return {
        "ragged squares": (ragged, SQUARE),
        "ragged rows": (ragged, ROW),
        "smaller than a block": (skewed_values(7, 5), SQUARE),
        "column-major weight": (put_specials(skewed_values(257, 136)).t(), SQUARE),
        "experts' weights": (column_major(put_specials(skewed_values(3, 136, 152))), SQUARE),
        "columns of a column-major operand": (put_specials(skewed_values(40, 264)).t(), COLUMN),
        "batch of rows": (put_specials(skewed_values(2, 70, 264)), ROW),
        "padded rows, fp16": (put_specials(skewed_values(65, 300, dtype=torch.float16))[:, :200], ROW),
        "odd, fp32": (put_specials(skewed_values(131, 129, dtype=torch.float32)), SQUARE),
        "no row": (torch.empty(0, 5), SQUARE),
        "no column": (torch.empty(4, 0), ROW),
    }


def reference(block: tuple[int, int], x: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
    return quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=power_of_two)


@pytest.mark.parametrize("name", inputs())
def test_equal_to_the_reference_between_canaries(virtual_arch: str, name: str) -> None:
    x, block = inputs()[name]
    if x.numel() == 0:
        wanted = reference(block, x, native_format(virtual_arch), power_of_two=False)
        assert_same_results(name, quantize_blockwise(x, block), wanted)
        return
    fmt, power_of_two = native_format(virtual_arch), name == "experts' weights"
    launch = partial(launch_blockwise, block=block)
    check_launch(launch, partial(reference, block), x, fmt=fmt, power_of_two=power_of_two, arch=virtual_arch)


def test_tiny_amaxes_eps_and_saturation(virtual_arch: str) -> None:
    """One row a case; in the last rows the scale is 1 and infinities are what exceeds the maximum."""
    fmt = native_format(virtual_arch)
    tiny = [2.0**-149, 2.0**-133, 2.0**-126, 1e-36, EPS / 2, EPS, 2 * EPS, fmt.max, fmt.max * (1 - 2**-5)]
    x = torch.tensor(tiny)[:, None].repeat(1, 8)
    x[:, 1], x[:, 2], x[:, 3], x[:, 4] = -x[:, 0], float("inf"), float("-inf"), float("nan")
    out = quantize_blockwise(x, ROW)
    assert out.scale[4] == out.scale[5] > out.scale[6]
    assert out.values.float()[7, :4].tolist() == [fmt.max, -fmt.max, fmt.max, -fmt.max]
    assert out.values.float()[:, 4].isnan().all()
    assert_same_results("tiny", out, reference(ROW, x, fmt, power_of_two=False))


@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    rows=st.integers(1, 140),
    columns=st.integers(1, 20).map(lambda n: 8 * n),
    block=st.sampled_from([SQUARE, ROW]),
    seed=st.integers(0, 99),
)
def test_any_shape(rows: int, columns: int, block: tuple[int, int], seed: int) -> None:
    with virtual_device("mi300x"):
        x = put_specials(skewed_values(rows, columns, seed=seed))
        wanted = reference(block, x, native_format("gfx942"), power_of_two=False)
        assert_same_results("any", quantize_blockwise(x, block), wanted)


def test_d7_rows_and_matrices_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """The last row of a matrix, and the second matrix, start 2^31 values or more behind; little memory is touched."""
    k, stride, rows = 48, 1 << 23, 257
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 2 * (2 * rows * stride), flags=flags)
    x = torch.frombuffer(memory, dtype=torch.bfloat16).as_strided((2, rows, k), (rows * stride, stride, 1))
    x.copy_(skewed_values(2, rows, k))
    wanted = reference(SQUARE, x, native_format(virtual_arch), power_of_two=False)
    assert_same_results("far", quantize_blockwise(x), wanted)


@pytest.mark.parametrize("block", [SQUARE, ROW], ids=str)
def test_bytes_moved_and_launches(virtual_arch: str, block: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One launch of the same code for a new size; it moves the least it can; the host reads no value."""
    device = active_virtual_device()
    assert device is not None
    quantize_blockwise(skewed_values(40, 64), block)
    x = skewed_values(600, 1024)

    def refuse(*_: object) -> None:
        raise AssertionError("the host reads a tensor")

    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__index__", "__float__", "__iter__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    out = quantize_blockwise(x, block)
    monkeypatch.undo()
    assert last_path() is Path.TRITON
    small, large = device.launches
    assert small.code_object == large.code_object
    traffic = large.result.traffic
    assert traffic.hbm_read_bytes <= 1.05 * 2 * x.numel()
    assert traffic.hbm_write_bytes <= 1.05 * (x.numel() + 8 * out.scale.numel())
    assert traffic.release_fences + traffic.acquire_fences + traffic.atomic_requests == 0
