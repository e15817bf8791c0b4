"""Checks, the reference path, the plan, and the reference against numpy."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch
from colwise_cases import CASES, Case
from quantizers import BAD_GROUPS_OF_ROWS

from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.colwise_per_group.api import colwise_launch
from wavecast.kernels.colwise_per_group.baseline import FUSED_ROWS, VARIANTS, fused_rows
from wavecast.kernels.colwise_per_group.plan import CHUNK, LINE_BYTES, plan
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference, group_bounds
from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)
NO_DEVICE = pytest.mark.skipif(active_arch() is not None, reason="a device is active")


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["byte-stores", "vector-two-pass", "fused-single-pass", "wavecast"]


@NO_DEVICE
@EVERY_VARIANT
def test_without_a_device_the_reference_answers(quantize: Callable) -> None:
    x, offs = CASES[1].x(), CASES[1].offs()
    out = quantize(x, offs, format=E4M3FNUZ, power_of_two=True)
    wanted = colwise_per_group_reference(x, offs, fmt=E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert torch.equal(out.values.view(torch.uint8), wanted[0].view(torch.uint8))
    assert out.values.stride() == (1, x.shape[0])
    assert torch.equal(out.scale, wanted[1])
    assert out.scale.shape == (3, x.shape[1])


@EVERY_VARIANT
@BAD_GROUPS_OF_ROWS
def test_bad_input_is_named(quantize: Callable, x: torch.Tensor, offs: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(x, torch.tensor(offs, dtype=torch.int32), format=E4M3FNUZ)


def test_offsets_of_another_type_are_named() -> None:
    with pytest.raises(ValueError, match="offs is int64; wanted is one of int32; convert it"):
        colwise_per_group(torch.zeros(4, 4), torch.tensor([4]), format=E4M3FN)


@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference_agrees_with_numpy_and_ml_dtypes(case: Case, fmt: Fp8Format) -> None:
    x = case.x().float().numpy()
    values, scale, inverse = colwise_per_group_reference(case.x(), case.offs(), fmt=fmt, power_of_two=False)
    codes = np.zeros(x.shape, np.uint8)
    scales = np.empty(scale.shape, np.float32)
    start = 0
    with np.errstate(invalid="ignore"):
        for group, end in enumerate(min(end, case.tokens) for end in case.ends):
            rows = x[start:end]
            magnitude = np.where(np.isfinite(rows), np.abs(rows), np.float32(0))
            amax = magnitude.max(axis=0, initial=np.float32(0))
            scales[group] = np.float32(fmt.max) / np.maximum(amax, np.float32(EPS))
            scaled = np.clip(rows * scales[group], np.float32(-fmt.max), np.float32(fmt.max))
            dtype = {E4M3FN: ml_dtypes.float8_e4m3fn, E4M3FNUZ: ml_dtypes.float8_e4m3fnuz}[fmt]
            codes[start:end] = scaled.astype(dtype).view(np.uint8)
            start = max(start, end)
    ours = values.view(torch.uint8).numpy()
    nan = np.isin(codes, fmt.nan_bytes)
    np.testing.assert_array_equal(scale.numpy(), scales)
    np.testing.assert_array_equal(inverse.numpy(), np.float32(1) / scales)
    np.testing.assert_array_equal(ours[~nan], codes[~nan])
    assert np.isin(ours[nan], fmt.nan_bytes).all()


def test_rows_behind_the_last_group_are_zero_bytes() -> None:
    values, _, _ = colwise_per_group_reference(
        torch.full((6, 2), -1.0), torch.tensor([2, 4], dtype=torch.int32), fmt=E4M3FN, power_of_two=False
    )
    assert values.view(torch.uint8)[4:].tolist() == [[0, 0], [0, 0]]
    assert (values.float()[:4] == -E4M3FN.max).all()


def test_offsets_are_clipped_to_the_rows() -> None:
    assert group_bounds(torch.tensor([-3, 4, 99, 120], dtype=torch.int32), 10) == [(0, 0), (0, 4), (4, 10), (10, 10)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", None])
@pytest.mark.parametrize("element_bytes", [2, 4])
def test_plan_fills_waves_and_lines(arch: str | None, element_bytes: int) -> None:
    previous = 0
    for mean in (1, 100, 128, 129, 512, 1024, 1025, 2048):
        tile = plan(32 * mean, 32, element_bytes=element_bytes, arch=arch)
        assert tile.row_lanes * tile.col_lanes == 64
        assert tile.columns * element_bytes == LINE_BYTES
        assert tile.chunk == CHUNK
        assert tile.on_gfx is (arch in {"gfx942", "gfx950"})
        assert tile.waves <= 16
        assert previous <= tile.rows
        previous = tile.rows
        assert mean <= tile.rows < max(2 * mean, 256)
        assert "read once" in tile.reason


@pytest.mark.parametrize(
    ("mean", "waves", "rows", "row_bytes"),
    [
        (1, 4, 512, 64),
        (520, 4, 512, 64),
        (1024, 8, 1024, 64),
        (1040, 8, 1024, 64),
        (2048, 8, 2048, 32),
        (2049, 16, 1024, 128),
    ],
)
def test_plan_narrows_the_tile_on_nvidia(mean: int, waves: int, rows: int, row_bytes: int) -> None:
    tile = plan(32 * mean, 32, element_bytes=2, arch="sm_90")
    assert (tile.waves, tile.rows, 2 * tile.columns) == (waves, rows, row_bytes)
    assert tile.row_lanes * tile.col_lanes == 32
    assert not tile.on_gfx
    assert ("read once" in tile.reason) is (mean <= rows)


def test_plan_streams_longer_groups_and_says_so() -> None:
    tile = plan(32 * 4096, 32, element_bytes=2, arch="gfx942")
    assert (tile.rows, tile.waves) == (1024, 8)
    assert "read twice" in tile.reason


def test_launch_states_the_alignment_that_the_sizes_have_and_no_more() -> None:
    x = torch.empty((90, 72), dtype=torch.bfloat16, device="meta")
    tile = plan(90, 2, element_bytes=2, arch="gfx942")
    grid, sizes, constants = colwise_launch(x, 2, fmt=E4M3FNUZ, power_of_two=True, plan=tile)
    assert grid == (2, 2)
    assert sizes == (45, 9, 9, 2)
    assert (constants["TOKENS_UNIT"], constants["COLUMNS_UNIT"]) == (2, 8)


def test_fused_tile_follows_the_mean_group() -> None:
    assert fused_rows(32768, 32) == 1024
    assert fused_rows(16640, 16) == 2048
    assert fused_rows(16640, 1) is None
    assert fused_rows(64, 2) is None
    assert set(FUSED_ROWS) == {256, 512, 1024, 2048}
