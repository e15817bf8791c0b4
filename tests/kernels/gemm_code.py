"""What the tests of the GEMMs' compiled code share: its instructions, those of its loop, registers and LDS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}
# Opcode to products of one instruction.
MATRIX = {
    "v_mfma_f32_16x16x32_fp8_fp8": 16 * 16 * 32,
    "v_mfma_f32_32x32x64_f8f6f4": 32 * 32 * 64,
    "v_mfma_f32_16x16x128_f8f6f4": 16 * 16 * 128,
    "v_mfma_f32_16x16x16_bf16": 16 * 16 * 16,
    "v_mfma_f32_16x16x32_bf16": 16 * 16 * 32,
}


@dataclass(frozen=True)
class Compiled:
    """One kernel: its assembly, opcodes of all, and of its loop over whole blocks of the sum."""

    text: str
    opcodes: Counter[str]
    loop: Counter[str]
    spills: int
    scalar_spills: int
    vgpr: int
    lds_bytes: int

    def widths(self, pattern: str, *, loop: bool) -> set[str]:
        found = (re.fullmatch(pattern, opcode) for opcode in (self.loop if loop else self.opcodes))
        return {match.group(1) for match in found if match}

    def matrix_instructions(self) -> tuple[str, int]:
        (found,) = ((opcode, n) for opcode, n in self.loop.items() if opcode.startswith("v_mfma"))
        return found


def opcodes(text: str) -> Counter[str]:
    found = re.findall(r"^\s+([a-z]+_[a-z0-9_]+)", text, re.MULTILINE)
    return Counter(re.sub(r"_(e32|e64|sdwa|dpp)$", "", opcode) for opcode in found)


def compiled(arch: str, function: Callable[[], object]) -> Compiled:
    """What a call launches, compiled and not executed."""
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    with virtual.virtual_device(DEVICES[arch], simulate=lambda *_, **__: None) as device:
        function()
    (launch,) = device.launches
    text = launch.code_object.assembly
    blocks = [opcodes(block) for block in re.split(r"^(?=\.LBB)", text, flags=re.MULTILINE)]
    # Blocks that are cut come in halves; of those that multiply a whole one, the loop is the shortest.
    loops = [block for block in blocks if products(block) and loads(block)]
    keys = ("vgpr_spill_count", "sgpr_spill_count", "vgpr_count")
    stated = {key: int(re.search(rf"\.{key}:\s*(\d+)", text).group(1)) for key in keys}
    loop = min(loops, key=lambda block: (-products(block), block.total()))
    return Compiled(text, opcodes(text), loop, *(stated[key] for key in keys), launch.code_object.lds_bytes)


def products(block: Counter[str]) -> int:
    """Matrix instructions."""
    return sum(n for opcode, n in block.items() if opcode.startswith("v_mfma"))


def loads(block: Counter[str]) -> int:
    return sum(n for opcode, n in block.items() if re.fullmatch(r"(buffer|global)_load_.*", opcode))
