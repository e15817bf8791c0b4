"""Faults that public projects had, in kernels of our own that do the same wrong thing, and in the right form."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import triton
import triton.language as tl

from wavecast.simulator.checks import Check, CheckWarning, Severity
from wavecast.simulator.errors import MemoryFaultError
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.compile,
    pytest.mark.execute,
    pytest.mark.filterwarnings("ignore::wavecast.simulator.checks.CheckWarning"),
]
DEVICES = ["mi300x", "mi355x"]


def line_of(kernel: Any, marked: str) -> int:
    """Line of the only statement of a kernel that has the text."""
    lines, first = inspect.getsourcelines(kernel.fn)
    [place] = [number for number, line in enumerate(lines) if marked in line]
    return first + place


@triton.jit
def rows_kernel(x, out, row_step, column_step, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (column < columns)
    value = tl.load(x + row * columns + column, mask=mask)
    tl.store(out + row * row_step + column * column_step, value, mask=mask)


@pytest.mark.parametrize("device", DEVICES)
def test_output_addresses_alias_because_both_strides_are_one(device: str) -> None:
    """pytorch/ao#4900: a row-wise kernel is given row stride 1 and column stride 1."""
    x, out = torch.randn(64, 128), torch.zeros(64 * 128)
    with virtual_device(device, check=True) as virtual:
        rows_kernel[(16,)](x, out, 1, 1, 64, 128, BLOCK=128)
    line = line_of(rows_kernel, "tl.store")
    assert {finding.site.source.line for finding in virtual.findings if finding.site.source} == {line}
    assert {finding.check for finding in virtual.findings} == {Check.RACE}
    with virtual_device(device, check=True) as virtual:
        rows_kernel[(16,)](x, out, 128, 1, 64, 128, BLOCK=128)
    assert virtual.findings == ()
    assert torch.equal(out.view(64, 128), x)


@triton.jit
def group_scales_kernel(x, scales, K, N, BY_LANE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    column = tl.program_id(0) * BLOCK + lane
    group = tl.program_id(1)
    row = group * ROWS + tl.arange(0, ROWS)
    value = tl.load(x + row[:, None] * N + column[None, :], mask=column[None, :] < N, other=0.0)
    inside = lane < N if BY_LANE else column < N
    tl.store(scales + group * N + column, tl.max(tl.abs(value), axis=0), mask=inside)


@pytest.mark.parametrize("device", DEVICES)
def test_store_mask_looks_at_the_lane_instead_of_the_column(device: str) -> None:
    """Scales of K = 96, N = 200 in 3 groups: lanes beyond N write into the next group's, the last ones past the end."""
    x, scales = torch.randn(96, 200), torch.zeros(3 * 200)
    with virtual_device(device, check=True) as virtual, pytest.raises(MemoryFaultError):
        group_scales_kernel[(4, 3)](x, scales, 96, 200, BY_LANE=True, ROWS=32, BLOCK=64)
    findings = [finding for finding in virtual.findings if finding.check is Check.RACE]
    assert findings
    for finding in findings:
        assert finding.site.source is not None
        assert finding.site.source.line == line_of(group_scales_kernel, "tl.store")
        assert finding.buffer == "scales"
        # The first lane beyond a group's end lands on the next group's first scale.
        assert finding.offset is not None
        assert finding.offset % (200 * 4) < 56 * 4
    with virtual_device(device, check=True) as virtual:
        group_scales_kernel[(4, 3)](x, scales, 96, 200, BY_LANE=False, ROWS=32, BLOCK=64)
    assert virtual.findings == ()
    assert torch.equal(scales.view(3, 200), x.view(3, 32, 200).abs().amax(dim=1))


@triton.jit
def hand_over_kernel(
    data,
    flag,
    out,
    RELEASE: tl.constexpr,
    RELEASE_SCOPE: tl.constexpr,
    ACQUIRE: tl.constexpr,
    ACQUIRE_SCOPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data + index, index + 1)
        tl.debug_barrier()
        tl.atomic_xchg(flag, 1, sem=RELEASE, scope=RELEASE_SCOPE)
    else:
        while tl.atomic_add(flag, 0, sem=ACQUIRE, scope=ACQUIRE_SCOPE) != 1:
            pass
        tl.store(out + index, tl.load(data + index))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("release", "acquire", "check", "severity"),
    [
        (("release", "gpu"), ("acquire", "gpu"), None, None),
        (("release", "sys"), ("acquire", "sys"), None, None),
        (("acq_rel", "gpu"), ("acq_rel", "gpu"), None, None),
        (("relaxed", "gpu"), ("acquire", "gpu"), Check.MISSING_RELEASE, Severity.ERROR),
        (("release", "gpu"), ("relaxed", "gpu"), Check.MISSING_ACQUIRE, Severity.ERROR),
        (("release", "sys"), ("acquire", "gpu"), Check.SCOPE, Severity.WARNING),
    ],
)
def test_flag_with_a_relaxed_side_or_scopes_that_differ(
    device: str,
    release: tuple[str, str],
    acquire: tuple[str, str],
    check: Check | None,
    severity: Severity | None,
) -> None:
    """ROCm/aiter#2890: a relaxed store of the flag, and an acquire of the device against a release of the system."""
    data, flag, out = (torch.zeros(size, dtype=torch.int32) for size in (256, 1, 256))
    with virtual_device(device, check=True) as virtual:
        hand_over_kernel[(2,)](data, flag, out, *release, *acquire, BLOCK=256)
    assert out.tolist() == list(range(1, 257))
    if check is None:
        assert virtual.findings == ()
        return
    [finding] = virtual.findings
    assert (finding.check, finding.severity) == (check, severity)
    assert finding.site.source is not None
    assert finding.other is not None
    assert finding.other.source is not None
    assert finding.site.source.line == line_of(hand_over_kernel, "tl.store(out")
    assert finding.other.source.line == line_of(hand_over_kernel, "tl.store(data")
    assert (finding.buffer, finding.site.workgroup, finding.other.workgroup) == ("data", (1, 0, 0), (0, 0, 0))


@triton.jit
def same_in_all_lanes(x):
    return tl.inline_asm_elementwise("v_readfirstlane_b32 $0, $1", "=s,v", [x], dtype=x.dtype, is_pure=False, pack=1)


@triton.jit
def count_then_signal_kernel(
    data, count, signal, out, PARTS: tl.constexpr, COUNT: tl.constexpr, TAKE: tl.constexpr, SIGNAL: tl.constexpr,
    POLLS_BY_WRITING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Parts are counted; who counts the last one takes the count and signals; two programs wait for that and read."""
    index = tl.arange(0, BLOCK)
    program = tl.program_id(0)
    if program < PARTS:
        tl.store(data + program * BLOCK + index, index + program)
        tl.inline_asm_elementwise("s_waitcnt vmcnt(0)", "=v,0", [0], dtype=tl.int32, is_pure=False, pack=1)
        tl.debug_barrier()
        if same_in_all_lanes(tl.atomic_add(count, 1, sem=COUNT, scope="sys")) == PARTS - 1:
            tl.atomic_xchg(count, 0, sem=TAKE, scope="sys")
            tl.atomic_xchg(signal, 1, sem=SIGNAL, scope="sys")
    else:
        seen = same_in_all_lanes(tl.atomic_add(signal, 0, sem="relaxed", scope="sys"))
        while seen == 0:
            seen = same_in_all_lanes(tl.atomic_add(signal, 0, sem="relaxed", scope="sys"))
        if POLLS_BY_WRITING:
            tl.atomic_add(signal, 1, sem="relaxed", scope="sys")
            tl.atomic_add(signal, 1, sem="acquire", scope="sys")
        else:
            tl.atomic_add(signal, 0, sem="acquire", scope="sys")
        tl.debug_barrier()
        for part in range(PARTS):
            value = tl.load(data + part * BLOCK + index)
            tl.store(out + ((program - PARTS) * PARTS + part) * BLOCK + index, value)


@pytest.mark.parametrize("polls_by_writing", [False, True])
@pytest.mark.parametrize(
    ("sems", "check"),
    [
        (("release", "acquire", "release"), None),
        (("acq_rel", "relaxed", "release"), None),
        (("relaxed", "acquire", "release"), Check.MISSING_RELEASE),
        (("release", "relaxed", "release"), Check.MISSING_ACQUIRE),
        (("release", "acquire", "relaxed"), Check.MISSING_RELEASE),
    ],
)
def test_a_count_and_a_signal_order_only_with_all_of_their_releases_and_acquires(
    sems: tuple[str, str, str], check: Check | None, polls_by_writing: bool
) -> None:
    """The compiler leaves out the wait behind the signal's write-back, as llvm-project#178316 says."""
    data, count, signal, out = (torch.zeros(size, dtype=torch.int32) for size in (3 * 64, 1, 1, 6 * 64))
    with virtual_device("mi300x", check=True) as virtual:
        count_then_signal_kernel[(5,)](data, count, signal, out, 3, *sems, polls_by_writing, BLOCK=64, num_warps=1)
    assert torch.equal(out.view(2, -1), data.expand(2, -1))
    assert {finding.check for finding in virtual.findings} == ({check} if check else set())
    for finding in virtual.findings:
        assert finding.site.source is not None
        assert finding.site.source.line == line_of(count_then_signal_kernel, "tl.load(data")


def test_a_finding_is_warned_of_once_and_counted_in_every_launch() -> None:
    x, out = torch.randn(64, 128), torch.zeros(64 * 128)
    with virtual_device("mi300x", check=True) as virtual:
        with pytest.warns(CheckWarning, match=r"(?s)race.*rows_kernel.*test_field_cases\.py:\d+.*hint"):
            rows_kernel[(16,)](x, out, 1, 1, 64, 128, BLOCK=128)
        first = {finding.check: finding.count for finding in virtual.findings}
        out.zero_()
        rows_kernel[(16,)](x, out, 1, 1, 64, 128, BLOCK=128)
        assert {finding.check: finding.count for finding in virtual.findings} == {
            check: 2 * count for check, count in first.items()
        }
    with virtual_device("mi300x") as virtual:
        rows_kernel[(16,)](x, out, 1, 1, 64, 128, BLOCK=128)
    assert virtual.findings == ()
