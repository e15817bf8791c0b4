"""Token groups padded to a multiple of rows, and the way back, without waiting for the device."""

from __future__ import annotations

from wavecast.kernels.token_padding.api import PaddedTokens, pad_token_groups, unpad_token_groups
from wavecast.kernels.token_padding.plan import padded_rows

__all__ = ["PaddedTokens", "pad_token_groups", "padded_rows", "unpad_token_groups"]
