"""What the tests of kernels in HIP share: the kernels that a file is compiled to, and what each of them keeps to."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from wavecast.kernels.hip.compiler import compile_hip
from wavecast.simulator.program.assembly import kernel_names, parse_assembly
from wavecast.simulator.program.kernel import Kernel


def kernels_of(source: Path, arch: str) -> list[Kernel]:
    """The kernels of a file of `tiles.hip.h`'s: three types of operands, two of results each."""
    text = compile_hip(source, arch).assembly
    found = [parse_assembly(text, name=name) for name in kernel_names(text)]
    assert len(found) == 6
    return found


def assert_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting(kernel: Kernel, arch: str) -> None:
    """What stands in the loop over the sum are products, their operands, and no access to memory but theirs."""
    resources = kernel.resources
    assert resources.vgpr <= 256
    assert resources.vgpr_spills == resources.sgpr_spills == resources.scratch_bytes == 0
    assert resources.lds_bytes == 2 * 2 * 256 * (128 if arch == "gfx950" else 64)
    blocks = {i.block for i in kernel.instructions if i.opcode.startswith("v_mfma")}
    assert len(blocks) == 1
    opcodes = Counter(i.opcode for i in kernel.instructions if i.block in blocks)
    assert {name for name in opcodes if name.startswith("ds_")} == {"ds_read_b128"}
    # A loop over lanes would stand where an address is taken for different ones in each.
    texts = [i.text for i in kernel.instructions]
    assert not [text for text in texts if re.search(r"v_cmp_eq_u64\S* \S+, [sv]\[", text)]
    assert not [name for name in opcodes if re.match(r"s_sleep|buffer_|global_|scratch_", name)]
    assert not [i.text for i in kernel.instructions if i.opcode.startswith("flat_")]
