"""Runs a few PTX instructions on the lanes of warps, values in and out through memory."""

from __future__ import annotations

import re

import numpy as np

from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.trace import Observer
from wavecast.simulator.program.ptx import parse_ptx

LANES = 32
HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n"
LETTERS = {1: "h", 2: "h", 4: "r", 8: "d"}
_ENGINE = Engine()


def kernel_text(body: str, *, parameters: int = 1, threads: int = LANES, name: str = "probe") -> str:
    """A kernel with ``parameters`` pointers; %t is the thread in the block, %i the thread in the grid, %a… pointers."""
    declared = ", ".join(f".param .u64 {name}_param_{number}" for number in range(parameters))
    loads = "\n".join(f"ld.param.u64 %a{number}, [{name}_param_{number}];" for number in range(parameters))
    return (
        f"{HEADER}.visible .entry {name}({declared})\n.reqntid {threads}\n{{\n"
        ".reg .pred %p<32>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .b64 %d<64>;\n.reg .b64 %a<8>;\n"
        ".reg .b32 %t, %i, %b;\n.reg .b64 %w;\n"
        f"{loads}\nmov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmov.u32 %i, %ntid.x;\nmad.lo.s32 %i, %i, %b, %t;\n"
        f"{body}\nret;\n}}\n"
    )


def run(
    text: str,
    *arrays: np.ndarray,
    blocks: int = 1,
    shared_bytes: int = 0,
    observer: Observer | None = None,
    record: int = 0,
) -> Execution:
    """Run a kernel whose parameters are arrays, which it changes in place."""
    memory = AddressSpace()
    pointers = [memory.map_array(array, f"array {number}") for number, array in enumerate(arrays)]
    kernel = parse_ptx(text, shared_bytes=shared_bytes)
    return _ENGINE.execute(
        kernel, grid=(blocks, 1, 1), arguments=pointers, memory=memory, observer=observer, record=record
    )


def lanewise(instruction: str, *sources: np.ndarray, result: np.dtype | type) -> np.ndarray:
    """Apply one instruction, or several, to arrays of equal length, an element a lane.

    In the text ``{0}`` is the result and ``{1}``, ``{2}``, … are the sources, as registers of their width.
    """
    count = len(sources[0])
    padded = -(-count // LANES) * LANES
    arrays = [np.concatenate([source, np.repeat(source[:1], padded - count)]) for source in sources]
    output = np.zeros(padded, dtype=result)
    body, names, used = [], [], dict.fromkeys("hrd", 0)
    for number, array in enumerate([output, *arrays]):
        size = array.dtype.itemsize
        letter = LETTERS[size]
        used[letter] += 1
        names.append(f"%{letter}{used[letter]}")
        body.append(f"mad.wide.u32 %w, %i, {size}, %a{number};")
        if number:
            body.append(f"ld.global.b{8 * size} {names[-1]}, [%w];")
    body.append(instruction.format(*names))
    body.append(f"mad.wide.u32 %w, %i, {output.dtype.itemsize}, %a0;")
    body.append(f"st.global.b{8 * output.dtype.itemsize} [%w], {names[0]};")
    text = kernel_text("\n".join(body), parameters=len(arrays) + 1)
    run(text, output, *arrays, blocks=padded // LANES)
    return output[:count]


def opcode_count(execution: Execution, pattern: str) -> int:
    """How often warps executed instructions whose mnemonic matches."""
    return sum(
        int(times)
        for instruction, times in zip(execution.kernel.instructions, execution.executed, strict=True)
        if re.match(pattern, instruction.opcode)
    )
