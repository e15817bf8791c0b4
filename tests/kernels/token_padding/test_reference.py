"""What padding means, on the references, by properties."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wavecast.kernels.token_padding import padded_rows
from wavecast.kernels.token_padding.reference import pad_token_groups_reference, unpad_token_groups_reference

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(sizes=SIZES, behind=st.integers(0, 9), multiple=st.sampled_from([1, 7, 16, 32, 128]))
def test_groups_start_at_multiples_between_zeros_and_come_back(sizes: list[int], behind: int, multiple: int) -> None:
    tokens = sum(sizes) + behind
    x = torch.arange(1, 1 + tokens * 3, dtype=torch.float32).reshape(tokens, 3)
    offs = torch.tensor(sizes).cumsum(0).int()
    padded, ends = pad_token_groups_reference(x, offs, multiple)
    assert padded.shape == (padded_rows(tokens, len(sizes), multiple), 3)
    assert padded.shape[0] % multiple == 0
    start = first = 0
    used = torch.zeros(padded.shape[0], dtype=torch.bool)
    for size, end in zip(sizes, ends.tolist(), strict=True):
        assert first % multiple == 0
        assert end - first == -(-size // multiple) * multiple  # an empty group stays empty
        assert torch.equal(padded[first : first + size], x[start : start + size])
        used[first : first + size] = True
        start, first = start + size, end
    assert (padded[~used] == 0).all()
    back = unpad_token_groups_reference(padded, offs, ends, tokens)
    assert torch.equal(back[:start], x[:start])
    assert (back[start:] == 0).all()


@settings(derandomize=True, deadline=None, max_examples=200)
@given(sizes=SIZES, multiple=st.integers(1, 130))
def test_the_rows_suffice_for_any_sizes(sizes: list[int], multiple: int) -> None:
    needed = sum(-(-size // multiple) * multiple for size in sizes)
    assert needed <= padded_rows(sum(sizes), len(sizes), multiple)
    assert padded_rows(sum(sizes), len(sizes), multiple) - multiple < sum(sizes) + len(sizes) * (multiple - 1)
