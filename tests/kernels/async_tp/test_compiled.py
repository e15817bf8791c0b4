"""Facts of the overlapped kernels on large shapes: registers, the loop, how signals are acquired and released."""

from __future__ import annotations

import re

import pytest
from gemm_code import MATRIX
from overlapped_code import KERNELS, instructions, overlapped

pytestmark = pytest.mark.compile
# Half of the combinations; every kernel, architecture and type is in one.
CASES = pytest.mark.parametrize(
    ("kernel", "arch", "fp8"),
    [
        ("all-gather", "gfx942", False),
        ("all-gather-fetching", "gfx942", True),
        ("reduce-scatter", "gfx942", True),
        ("all-gather-fetching", "gfx950", True),
        ("reduce-scatter", "gfx950", False),
    ],
)
ACQUIRE = ["s_waitcnt vmcnt(0)", "buffer_inv sc0 sc1"]


def test_every_kernel_is_looked_at() -> None:
    (cases,) = CASES.args[1:]
    assert {kernel for kernel, _, _ in cases} == set(KERNELS)


@CASES
def test_nothing_spills_and_the_loop_is_the_gemms(kernel: str, arch: str, fp8: bool) -> None:
    """Waiting costs the loop over the sum nothing: the matrix instructions are the most of what is not memory."""
    code = overlapped(kernel, arch, fp8=fp8)
    assert code.spills == code.scalar_spills == 0
    assert "scratch_" not in code.text
    assert code.vgpr <= 256
    opcode, _ = code.matrix_instructions()
    assert opcode in MATRIX
    assert code.widths(r"(?:buffer|global)_load_(\w+)", loop=True) == {"dwordx4"}
    assert code.widths(r"ds_(?:read|write)_(\w+)", loop=True) == {"b128"}
    assert not any(re.match(r"s_sleep|buffer_(inv|wbl2)|.*atomic.*", name) for name in code.loop)


@CASES
def test_e5_a_signal_is_acquired_at_system_scope_before_the_barrier(kernel: str, arch: str, fp8: bool) -> None:
    """The poll does not invalidate; the one load that acquires does, before the other waves pass the barrier."""
    code = instructions(overlapped(kernel, arch, fp8=fp8).text)
    polls = [i for i, text in enumerate(code) if re.match(r"global_load_dword v\d+, .* sc0 sc1$", text)]
    acquiring = [i for i in polls if code[i + 1 : i + 3] == ACQUIRE]
    assert len(polls) == 2
    (acquire,) = acquiring
    assert "s_barrier" in code[acquire : acquire + 15]
    assert any("s_sleep" in text for text in code)


@pytest.mark.parametrize(
    ("kernel", "arch", "fp8"), [("all-gather-fetching", "gfx942", True), ("reduce-scatter", "gfx942", True)]
)
def test_stores_of_all_waves_are_through_before_one_releases_them(kernel: str, arch: str, fp8: bool) -> None:
    """Each wave waits for its own stores, then comes the barrier, then the write-back at system scope and the count."""
    code = instructions(overlapped(kernel, arch, fp8=fp8).text)
    counts = [
        i
        for i, text in enumerate(code)
        if text.startswith("buffer_wbl2 sc0 sc1") and any("atomic_add" in later for later in code[i : i + 4])
    ]
    assert counts
    for count in counts:
        before = code[max(count - 40, 0) : count]
        last_barrier = max(i for i, text in enumerate(before) if text == "s_barrier")
        waits = [i for i, text in enumerate(before[:last_barrier]) if text == "s_waitcnt vmcnt(0)"]
        assert waits
        assert not any("store" in text and not text.startswith("ds_") for text in before[waits[-1] :])
