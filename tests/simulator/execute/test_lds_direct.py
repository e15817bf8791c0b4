"""Loads from memory straight into LDS against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from semantics_memory import LANES, MASKS, SMALL_LOADS, bits, read, split, width_of_load, write

from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.instruction import M0

pytestmark = pytest.mark.execute

SUFFIXES = ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4")
SPAN = 4096
RECORDS_IN_WORD_2 = SPAN - 64


def in_lds(suffix: str, data: np.ndarray) -> np.ndarray:
    """(64, slot bytes): small elements are extended to a word."""
    if suffix not in SMALL_LOADS:
        return data
    values = np.ascontiguousarray(data).view(SMALL_LOADS[suffix][0])[:, 0]
    return values.astype(np.int64).astype(np.uint32)[:, None].view(np.uint8)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_direct_loads(machine: Machine, suffix: str, mask: int) -> None:
    rng = np.random.default_rng(13)
    array = rng.integers(0, 256, SPAN, dtype=np.uint8)
    space = AddressSpace()
    base = space.map_array(array, "array")
    before = rng.integers(0, 256, 1 << 16, dtype=np.uint8)
    width = width_of_load(suffix)
    offsets = rng.integers(16, 3000, 64)
    offsets[7::9] = SPAN - 16
    descriptor = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: RECORDS_IN_WORD_2, 7: 0x27000}
    for m0 in (0, 0x1234, 0xFFF0):
        scalar = descriptor | {M0: m0}
        for kind in ("global", "buffer"):
            if kind == "global":
                text, vector = f"global_load_lds_{suffix} v[1:2], off offset:16", split(base + offsets - 16, 1)
                active = bits(mask)
            else:
                text, vector = (
                    f"buffer_load_{suffix} v1, s[4:7], 0 offen offset:16 lds",
                    {1: (offsets - 16).astype(np.uint32)},
                )
                active = bits(mask) & (offsets < RECORDS_IN_WORD_2)
            wave = machine.run(
                text, arch="gfx950", vector=vector, scalar=scalar, lds=before, exec_mask=mask, memory=space
            )
            data = in_lds(suffix, read(array, offsets, width, active))
            targets = m0 + 16 + LANES * data.shape[1]
            fits = targets + data.shape[1] <= 1 << 16
            np.testing.assert_array_equal(wave.lds, write(before, targets, data, bits(mask) & fits), err_msg=text)
            assert wave.context[Context.LDS_STRAY] == np.count_nonzero(bits(mask) & ~fits)
            if mask:
                assert wave.records["exec"][0] == sum(1 << int(lane) for lane in np.flatnonzero(active))
