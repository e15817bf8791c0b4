"""What is refused, and the path without a device."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.token_padding import pad_token_groups, padded_rows, unpad_token_groups
from wavecast.kernels.token_padding.api import in_units
from wavecast.kernels.token_padding.reference import pad_token_groups_reference

OFFS = torch.tensor([1, 4], dtype=torch.int32)


@pytest.mark.parametrize(
    ("x", "offs", "multiple", "message"),
    [
        (torch.zeros(4), OFFS, 16, "x has 1 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), OFFS, 16, "x is int32; wanted is one of .*float8_e4m3fn,"),
        (torch.zeros(4, 5).t(), OFFS, 16, "rows must be contiguous"),
        (torch.zeros(4, 5), OFFS.long(), 16, "offs is int64; wanted is one of int32"),
        (torch.zeros(4, 5), OFFS[:0], 16, "offs is empty"),
        (torch.zeros(4, 5), OFFS, 0, "multiple is 0; wanted is at least 1"),
        (torch.zeros(4, 5), OFFS, 1 << 30, "number of padded rows is 3221225472; at most 2147483647"),
    ],
)
def test_bad_input_of_padding_is_named(x: torch.Tensor, offs: torch.Tensor, multiple: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pad_token_groups(x, offs, multiple)


@pytest.mark.parametrize(
    ("padded", "offs", "padded_offs", "tokens", "message"),
    [
        (torch.zeros(4), OFFS, OFFS, 4, "padded has 1 dimensions"),
        (torch.zeros(4, 5).t(), OFFS, OFFS, 4, "rows must be contiguous"),
        (torch.zeros(4, 5), OFFS, OFFS[:1], 4, "groups in offs is 2 but that in padded_offs is 1; they must be equal"),
        (torch.zeros(4, 5), OFFS, OFFS, 5, "tokens is 5 and padded has 4 rows"),
        (torch.zeros(4, 5), OFFS, OFFS, -1, "tokens is -1"),
    ],
)
def test_bad_input_of_unpadding_is_named(
    padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, tokens: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        unpad_token_groups(padded, offs, padded_offs, tokens)


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
def test_without_a_device_the_reference_answers() -> None:
    x = torch.randn(4, 5).requires_grad_()
    padded = pad_token_groups(x, OFFS, 16)
    assert last_path() is Path.REFERENCE
    assert not padded.tokens.requires_grad
    assert padded.tokens.shape == (padded_rows(4, 2, 16), 5) == (48, 5)
    wanted, ends = pad_token_groups_reference(x.detach(), OFFS, 16)
    assert_same_bytes("tokens", padded.tokens, wanted)
    assert torch.equal(padded.offs, ends)
    assert torch.equal(unpad_token_groups(padded.tokens, OFFS, padded.offs, 4), x.detach())


@pytest.mark.parametrize(
    ("x", "unit"),
    [
        (torch.zeros(4, 8, dtype=torch.bfloat16), torch.int32),
        (torch.zeros(4, 7, dtype=torch.bfloat16), torch.int16),
        (torch.zeros(4, 8, dtype=torch.bfloat16)[:, 1:7], torch.int16),
        (torch.zeros(4, 8).to(torch.float8_e4m3fnuz), torch.int32),
        (torch.zeros(4, 6).to(torch.float8_e4m3fnuz), torch.int16),
        (torch.zeros(4, 5).to(torch.float8_e4m3fnuz), torch.int8),
        (torch.zeros(4, 5), torch.int32),
        (torch.zeros(0, 5, dtype=torch.float16), torch.int16),
    ],
)
def test_rows_are_moved_as_the_widest_integers_that_they_consist_of(x: torch.Tensor, unit: torch.dtype) -> None:
    assert [view.dtype for view in in_units(x, x)] == [unit, unit]
