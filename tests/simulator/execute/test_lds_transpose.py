"""Transposing LDS loads against a bit-by-bit transposition."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from semantics_memory import transposed

pytestmark = pytest.mark.execute


@pytest.mark.parametrize(
    ("opcode", "size", "width"),
    [
        ("ds_read_b64_tr_b16", 8, 16),
        ("ds_read_b64_tr_b8", 8, 8),
        ("ds_read_b64_tr_b4", 8, 4),
        ("ds_read_b96_tr_b6", 12, 6),
    ],
)
def test_transposing_reads(machine: Machine, opcode: str, size: int, width: int) -> None:
    rng = np.random.default_rng(5)
    lds = rng.integers(0, 256, 1 << 16, dtype=np.uint8)
    words = size // 4
    for addresses in (np.arange(64) * 16, rng.permutation(1024)[:64] * 16 + 512):
        wave = machine.run(
            f"{opcode} v[10:{9 + words}], v1 offset:32",
            arch="gfx950",
            vector={1: addresses.astype(np.uint32)},
            lds=lds,
        )
        data = np.stack([lds[a + 32 : a + 32 + size] for a in addresses])
        np.testing.assert_array_equal(wave.vector[10 : 10 + words], transposed(data, width).view(np.uint32).T)
        np.testing.assert_array_equal(wave.records["address"][0], addresses + 32)
