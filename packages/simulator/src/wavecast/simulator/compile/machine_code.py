"""The machine code of a kernel, instruction by instruction, with the line of PTX that each comes from.

NVIDIA's disassembler, which Triton brings along, gives mnemonics and lines. What it does not name are the bits in which
the assembler notes how long a warp waits before its next instruction: four bits from the 105th of the 128 on (Jia et
al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018; Hopper's instructions keep the format).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

from wavecast.simulator.compile.toolchain import pinned_toolchain
from wavecast.simulator.errors import AssemblyError, MissingToolError
from wavecast.simulator.program.machine import MachineInstruction

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$]+)")
_FUNCTION = re.compile(r"^\s*\.type\s+([\w$]+),@function")
_LINE = re.compile(r'nv_debug_ptx_txt[^"]*", line (\d+)')
_CODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)[^/]*/\* 0x[0-9a-f]{16} \*/")
_UPPER = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
_STALL_BIT = 105 - 64
_STALL_MASK = 15
_FORM = "2"  # of what is kept on disk


def machine_code(binary: bytes, name: str) -> tuple[MachineInstruction, ...]:
    """Instructions of a kernel in the order of their addresses, without functions that it calls.

    None where the binary says nothing of lines. What was found is kept in Triton's cache, as the disassembler takes
    longer than a kernel's translation.

    Args:
        binary: A cubin.
        name: The kernel's symbol.

    Raises:
        MissingToolError: Triton has brought no disassembler along.
        AssemblyError: It does not read the binary.
    """
    from triton.runtime.cache import get_cache_manager

    key = hashlib.sha256(binary + f"{name} {_FORM}".encode()).hexdigest()
    with pinned_toolchain():
        cache = get_cache_manager(key)
        kept = cache.get_file("machine.json")
        if kept is not None:
            return tuple(MachineInstruction(*row) for row in json.loads(Path(kept).read_text(encoding="utf-8")))
        found = tuple(_parsed(_disassembled(binary, name), name))
        rows = [(item.line, item.opcode, item.stall_clk) for item in found]
        cache.put(json.dumps(rows), "machine.json", binary=False)
    return found


def _disassembled(binary: bytes, name: str) -> str:
    from triton import knobs

    try:
        tool = knobs.nvidia.nvdisasm.path
    except RuntimeError as error:
        raise MissingToolError(
            f"nvdisasm, which tells what {name} is in machine code, is not there: {error}",
            hint="take a Triton that brings NVIDIA's tools along, as its wheels do, or set TRITON_NVDISASM_PATH",
        ) from error
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        words = [tool, "-gp", "-c", "-hex", file.name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssemblyError(f"{tool} does not read the binary of {name}: {done.stderr.strip()[:200]}")
    return done.stdout


def _parsed(text: str, name: str) -> list[MachineInstruction]:
    found: list[MachineInstruction] = []
    line, is_mine, opcode = 0, False, ""
    for row in text.splitlines():
        section, function = _SECTION.match(row), _FUNCTION.match(row)
        if section:
            is_mine, line = section[1] == name, 0
        elif function:
            # What it calls, the rare cases of divisions, has no lines of its own.
            is_mine = is_mine and function[1] == name
        elif is_mine:
            of_line, code, upper = _LINE.search(row), _CODE.match(row), _UPPER.match(row)
            if of_line:
                line = int(of_line[1])
            elif code:
                opcode = code[1]
            elif upper and opcode:
                found.append(MachineInstruction(line, opcode, int(upper[1], 16) >> _STALL_BIT & _STALL_MASK))
                opcode = ""
    return found if any(item.line for item in found) else []
