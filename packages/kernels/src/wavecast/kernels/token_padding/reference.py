"""Padding of token groups in plain torch: group by group, obviously right, slow."""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group.reference import group_bounds
from wavecast.kernels.token_padding.plan import padded_rows


def padded_offsets_reference(offs: torch.Tensor, tokens: int, multiple: int) -> torch.Tensor:
    """End offsets of the padded groups."""
    ends, end = [], 0
    for start, stop in group_bounds(offs, tokens):
        end += -(-(stop - start) // multiple) * multiple
        ends.append(end)
    return torch.tensor(ends, dtype=torch.int32, device=offs.device)


def pad_token_groups_reference(x: torch.Tensor, offs: torch.Tensor, multiple: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded tokens and padded offsets, as `pad_token_groups` describes them."""
    tokens, columns = x.shape
    padded_offs = padded_offsets_reference(offs, tokens, multiple)
    out = torch.zeros((padded_rows(tokens, offs.numel(), multiple), columns), dtype=x.dtype, device=x.device)
    first = 0
    for (start, stop), end in zip(group_bounds(offs, tokens), padded_offs.tolist(), strict=True):
        out[first : first + stop - start] = x[start:stop]
        first = end
    return out, padded_offs


def unpad_token_groups_reference(
    padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, tokens: int
) -> torch.Tensor:
    """The tokens without padding, as `unpad_token_groups` describes them."""
    out = torch.zeros((tokens, padded.shape[1]), dtype=padded.dtype, device=padded.device)
    first = 0
    for (start, stop), end in zip(group_bounds(offs, tokens), padded_offs.tolist(), strict=True):
        rows = padded[first : first + stop - start]
        out[start : start + len(rows)] = rows
        first = end
    return out
