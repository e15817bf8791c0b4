"""Functions that a kernel calls, constants that it reads by name, and calls of the host."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from small_kernels import build, run

from wavecast.simulator.errors import AssemblyError, ExecutionError, LaunchError, UnsupportedInstructionError
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.hostcall import format_message
from wavecast.simulator.program.constants import parse_constant

ADDRESS = """
\ts_getpc_b64 {register}
\ts_add_u32 {low}, {low}, {name}@rel32@lo+4
\ts_addc_u32 {high}, {high}, {name}@rel32@hi+12"""


def address(first: int, name: str) -> str:
    return ADDRESS.format(register=f"s[{first}:{first + 1}]", low=f"s{first}", high=f"s{first + 1}", name=name)


BODY = f"""
\ts_load_dwordx2 s[6:7], s[0:1], 0x0
\tv_lshlrev_b32_e32 v1, 2, v0
\tv_mov_b32_e32 v2, v0
{address(8, "outer")}
\ts_swappc_b64 s[30:31], s[8:9]
\ts_swappc_b64 s[30:31], s[8:9]
\ts_waitcnt lgkmcnt(0)
\tglobal_store_dword v1, v2, s[6:7]"""
FUNCTIONS = f"""
\ts_endpgm
.Lfunc_end1:
\t.type\touter,@function
outer:
\ts_mov_b64 s[34:35], s[30:31]
{address(10, "inner")}
\ts_swappc_b64 s[30:31], s[10:11]
\ts_setpc_b64 s[34:35]
.Lfunc_end2:
\t.type\tinner,@function
inner:
{address(12, "numbers")}
\ts_load_dword s14, s[12:13], 0x8
\ts_waitcnt lgkmcnt(0)
\tv_add_u32_e32 v2, s14, v2
\ts_cmp_eq_u32 s14, 0
\ts_cbranch_scc1 .LBB7_1
\tv_add_u32_e32 v2, 1, v2
.LBB7_1:
\ts_setpc_b64 s[30:31]
.Lfunc_end3:
\t.type\tnumbers,@object
numbers:
\t.long\t5, 6
\t.quad\t-1000 ; a comment
\t.size\tnumbers, 16
\t.type\tunused,@function
unused:
\tv_not_an_opcode v0"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_functions_call_functions_return_and_read_constants(engine: Engine) -> None:
    out = np.zeros(64, np.int32)
    kernel = build(BODY, end=FUNCTIONS)
    execution = run(engine, kernel, out, 0)
    assert out.tolist() == [lane + 2 * (-1000 + 1) for lane in range(64)]
    assert kernel.functions.keys() == {"outer", "inner"}
    executed = {kernel.instructions[i].opcode: int(n) for i, n in enumerate(execution.executed)}
    assert (executed["global_store_dword"], executed["s_cbranch_scc1"]) == (1, 2)


def test_a_name_that_the_text_does_not_define_is_named(engine: Engine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="refers to 'outer', which is neither a function"):
        engine.program(build(BODY))


def test_a_jump_to_no_instruction_is_a_fault(engine: Engine) -> None:
    kernel = build("\ts_mov_b64 s[4:5], 0\n\ts_setpc_b64 s[4:5]")
    with pytest.raises(ExecutionError, match="jumps to 0x0, where no instruction is"):
        run(engine, kernel, np.zeros(64, np.int32), 0)


def test_a_kernel_that_calls_the_host_without_a_buffer_is_refused(engine: Engine) -> None:
    with pytest.raises(LaunchError, match="has no hidden_hostcall_buffer"):
        run(engine, build("\ts_sendmsg sendmsg(MSG_INTERRUPT)"), np.zeros(64, np.int32), 0)


def test_constants_of_every_directive() -> None:
    text = (
        'table:  ; @table\n\t.ascii\t"a\\n\\"\\\\\\101\\000"\n\t.asciz\t"b; c"\n\t.byte\t255\n\t.short\t-2\n'
        "\t.zero\t3\n\t.zero\t2,7\n\t.size\ttable, 21\n"
    )
    assert parse_constant(text, "table") == b'a\n"\\A\0b; c\0\xff\xfe\xff\0\0\0\7\7'
    with pytest.raises(AssemblyError, match="'other' is not in the text"):
        parse_constant(text, "other")
    with pytest.raises(AssemblyError, match="no data that is understood"):
        parse_constant("table:\n\t.uleb128\t4\n\t.size\ttable, 1\n", "table")


def words(*parts: bytes | int | float) -> list[int]:
    data = b""
    for part in parts:
        if isinstance(part, bytes):
            data += part + b"\0" * (8 - len(part) % 8)
        else:
            data += struct.pack("<d" if isinstance(part, float) else "<Q", part)
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (words(b"no argument: 100%%\n"), "no argument: 100%\n"),
        (words(b"%d %i|%5d|%-5u|%05x", 2**64 - 1, 2**32 - 7, 42, 42, 255), "-1 -7|   42|42   |000ff"),
        (words(b"%hhd %hu %ld %llx", 0xFF, 0x1FFFF, 2**63, 2**64 - 1), f"-1 65535 {-(2**63)} ffffffffffffffff"),
        (words(b"%f %.2e %g", 1.5, 12345.678, 0.25), "1.500000 1.23e+04 0.25"),
        (words(b"%s=%u, %s", b"eightchr", 3, b"x"), "eightchr=3, x"),
        (words(b"%c%p", ord("A"), 0x1234), "A0x1234"),
    ],
)
def test_messages_are_formatted_as_printf_does(message: list[int], text: str) -> None:
    assert format_message(message) == text
