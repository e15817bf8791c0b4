"""Executed code objects equal the references byte for byte."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizers import far_apart_rows, guarded_outputs, put_specials, skewed_values

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.token_padding import PaddedTokens, pad_token_groups, padded_rows, unpad_token_groups
from wavecast.kernels.token_padding.api import launch_pad, launch_unpad
from wavecast.kernels.token_padding.reference import pad_token_groups_reference, unpad_token_groups_reference
from wavecast.simulator.virtual import active_virtual_device, virtual_device

pytestmark = pytest.mark.execute
RAGGED = [1, 7, 15, 17, 0, 31, 33, 127, 129]


def ends_of(sizes: list[int]) -> torch.Tensor:
    return torch.tensor(sizes).cumsum(0).int()


def same(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    assert torch.equal(actual.view(torch.uint8), wanted.view(torch.uint8))


def check(x: torch.Tensor, offs: torch.Tensor, multiple: int, arch: str) -> None:
    """Both ways equal the references, between canaries; what is in a group comes back as it was."""
    wanted = PaddedTokens(*pad_token_groups_reference(x, offs, multiple))
    back = unpad_token_groups_reference(wanted.tokens, offs, wanted.offs, x.shape[0])
    with guarded_outputs() as guard:
        out = PaddedTokens(guard.like(wanted.tokens), guard.like(wanted.offs))
        launch_pad(x, offs, out, multiple, arch)
        same(out.tokens, wanted.tokens)
        same(out.offs, wanted.offs)
        if back.numel():
            dense = guard.like(back)
            launch_unpad(out.tokens, offs, out.offs, dense, arch)
            same(dense, back)
    end = min(int(offs[-1]), x.shape[0])
    same(back[:end].contiguous(), x[:end].contiguous())


@pytest.mark.parametrize("multiple", [16, 32, 128])
def test_d4_ragged_sizes(virtual_arch: str, multiple: int) -> None:
    check(put_specials(skewed_values(sum(RAGGED) + 5, 40)), ends_of(RAGGED), multiple, virtual_arch)


def inputs() -> dict[str, tuple[torch.Tensor, list[int], int]]:
    x = put_specials(skewed_values(100, 24))
    return {
        "multiple of 1": (x, [3, 0, 90], 1),
        "multiple that is no power of two": (x, [3, 0, 90], 24),
        "all groups empty": (x, [0, 0, 0], 16),
        "no row": (x[:0], [0, 0], 16),
        "no row, no room": (x[:0], [0, 0], 1),
        "no column": (x[:, :0], [3, 0, 90], 16),
        "offsets beyond the rows": (x, [20, 60, 70, 80], 16),
        "padded rows": (x[:, 3:20], [3, 0, 90], 16),
        "fp32": (put_specials(skewed_values(50, 5, dtype=torch.float32)), [9, 40], 16),
        "FP8": (torch.arange(256, dtype=torch.uint8).reshape(16, 16).view(torch.float8_e4m3fnuz), [3, 9], 16),
        "odd FP8": (torch.arange(255, dtype=torch.uint8).reshape(17, 15).view(torch.float8_e4m3fn), [3, 14], 16),
        "more groups than are looked at together": (skewed_values(2500, 8), [1] * 2490, 4),
    }


@pytest.mark.parametrize("name", inputs())
def test_equal_to_the_reference_between_canaries(virtual_arch: str, name: str) -> None:
    x, sizes, multiple = inputs()[name]
    check(x, ends_of(sizes), multiple, virtual_arch)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=9),
    behind=st.integers(0, 20),
    multiple=st.sampled_from([1, 16, 128]),
)
def test_any_sizes(sizes: list[int], behind: int, multiple: int) -> None:
    with virtual_device("mi300x"):
        check(skewed_values(sum(sizes) + behind + 1, 16), ends_of(sizes), multiple, "gfx942")


def test_d7_rows_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """Rows are 2^30 values apart, in memory of which only these rows are ever touched, read by both kernels."""
    x = far_apart_rows(skewed_values(5, 16))
    offs = ends_of([2, 3])
    same(pad_token_groups(x, offs, 16).tokens, pad_token_groups_reference(x, offs, 16)[0])
    same(unpad_token_groups(x, offs, offs, 5), x.contiguous())


def test_decreasing_offsets_touch_nothing_outside(virtual_arch: str) -> None:
    """Their groups are undefined; the sum of their sizes is beyond the rows that there are."""
    x, offs = skewed_values(40, 16), torch.tensor([40, 0, 40, -5, 40], dtype=torch.int32)
    with guarded_outputs() as guard:
        rows = padded_rows(40, 5, 16)
        out = PaddedTokens(guard.like(x.new_empty((rows, 16))), guard.like(offs))
        launch_pad(x, offs, out, 16, virtual_arch)
        launch_unpad(out.tokens, offs, out.offs, guard.like(x), virtual_arch)


@pytest.mark.parametrize("grown", [-(1 << 31), (1 << 31) - 1, -7, 1000])
def test_wrong_padded_offsets_read_nothing_outside(virtual_arch: str, grown: int) -> None:
    """Also where a row and its shift are beyond 32 bits together."""
    x, offs = skewed_values(40, 16), torch.tensor([8, 16, 40], dtype=torch.int32)
    with guarded_outputs() as guard:
        launch_unpad(x, offs, torch.full_like(offs, grown), guard.like(x), virtual_arch)


def test_bytes_moved_and_launches(virtual_arch: str) -> None:
    """One launch each; it moves the least it can."""
    device = active_virtual_device()
    assert device is not None
    x, offs = skewed_values(700, 1024), ends_of([100, 33, 0, 250, 310])
    padded = pad_token_groups(x, offs, 16)
    back = unpad_token_groups(padded.tokens, offs, padded.offs, 700)
    assert last_path() is Path.TRITON
    assert torch.equal(back[:693], x[:693])
    pad, unpad = device.launches
    assert pad.result.traffic.hbm_read_bytes <= 1.05 * 2 * x.numel()
    assert pad.result.traffic.hbm_write_bytes <= 1.05 * 2 * padded.tokens.numel()
    assert unpad.result.traffic.hbm_read_bytes <= 1.05 * 2 * x.numel()
    assert unpad.result.traffic.hbm_write_bytes <= 1.05 * 2 * x.numel()
    for launch in (pad, unpad):
        assert launch.result.traffic.release_fences + launch.result.traffic.acquire_fences == 0
