"""Facts of the kernels that there are in HIP and in Triton, side by side, by execution.

``hatch run bench:async-tp-code`` prints the tables, with ``--page`` it writes docs/reference/async-tp-code.md. It takes
some minutes; needed are no GPU, and the compiler of HIP that ``wavecast.kernels.hip.compiler`` finds.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernels"))
from symmetric import ImmediateMemory

from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, GatherLaunch
from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan, plan_all_gather_matmul
from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.colwise_per_group import colwise_per_group, colwise_per_group_hip
from wavecast.kernels.device import compute_units, native_format
from wavecast.kernels.hip.compiler import find_compiler
from wavecast.kernels.matmul_reduce_scatter.launch import ScatterLaunch
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import MatmulReduceScatterPlan, plan_matmul_reduce_scatter
from wavecast.simulator.virtual import active_virtual_device, virtual_device

PAGE = ROOT / "docs/reference/async-tp-code.md"
DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}
FORMS = ("HIP", "Triton")
ROWS, N, K, RANKS = 1024, 8192, 4096, 8
WORKGROUPS = 8

TOKENS, COLUMNS, GROUPS = 32768, 2048, 32

HEAD = """# Kernels in HIP and in Triton

Three operators have a second kernel, on compiler builtins: the two products over a group, and the column-wise quantizer
per group.

All-gather+matmul and matmul+reduce-scatter have two kernels each on gfx942 and gfx950, with the same signals, counters
and order of tiles: `kernel.py` (Triton), and `all_gather_matmul/async_mm.hip` and `matmul_reduce_scatter/async_rs.hip`
(compiler builtins), which share `async_tp/tiles.hip.h`. Triton's are taken unless `WAVECAST_ASYNC_TP_CODE` is `hip`
([environment variables](environment-variables.md)).

`hatch run bench:async-tp-code --page` writes this page: {tools}.

## What the overlapped kernels in HIP take

bf16, fp16, or the FP8 format that the architecture multiplies, with inverse scales for all or for each row and column;
gathering, a bias; results of the operands' type, of FP8 bf16, or in fp32. Rows and chunks of any number; K in multiples
of 16 bytes, N in multiples of 4; tensors that begin at multiples of 16 bytes. What they do not take is an error before
anything is launched, with the reason; Triton's kernel takes all of it.

A workgroup of 8 waves makes 256 × 256 results. Each wave holds 128 × 64 of them, loads its part of the next step into
registers while it multiplies this one, and writes it to the other half of the LDS: one barrier a step. The 16-byte
pieces of a row lie in LDS in an order that depends on the row. Results pass through LDS once more, so that stores fill
cache lines.

On a GPU they are loaded with `hipModuleLoadData` and launched with `hipModuleLaunchKernel`; under a virtual device the
same bytes of arguments are executed. `hipcc` compiles them where it is on the path, else the clang of the `ziglang`
wheel.
"""
EXECUTED = """
## By execution

Whole tiles, K = {k}; FP8 with a scale for every row and column, all results in bf16. *Matrix share* is that of matrix
instructions in all wave instructions; one of 32 × 32 multiplies as much as two or four of 16 × 16. *Registers spilled*
are vector and scalar ones. *LDS* are its cycles a tile, and in brackets those that bank conflicts cost.
*Predicted* is {ranks} × {rows} rows, N = {n}, K = {k}: gathering with all chunks there, on the compute units that the
copy engines' signals leave, {units}; scattering with all parts there, on all units. Half
of the tiles that are counted of it are sent in fp32, half are added to what has come.
"""
ACQUIRED = """
## How a signal is acquired

The poll, as emitted, up to the barrier, without arithmetic. The poll reads past all caches and drops none; one wave
invalidates once (`buffer_inv sc0 sc1`, system scope) before the barrier that the others wait at.
"""
QUANTIZER = """
## The column-wise quantizer

`colwise_per_group_hip` gives the bytes of `colwise_per_group`. It takes bf16 and fp16 to the E4M3 format of the
architecture, rows and columns in multiples of 8. Predicted for {tokens} × {columns} bf16 in {groups} groups.

"""


@dataclass(frozen=True)
class Facts:
    """What one form of the kernel does on one architecture and type.

    Attributes:
        tile: rows, columns.
        waves: of a workgroup.
        registers: vector registers of a lane, accumulation registers included.
        lds_bytes, spills: of a workgroup; of a lane.
        matrix: opcode of the matrix instruction.
        per_tile: wave instructions of a tile, all and matrix.
        lds_clk: cycles of the LDS for a tile, and those for conflicts.
        predicted_us: of the large shape.
        bound: what bounds that.
        acquire: instructions from the poll to the barrier.
    """

    tile: tuple[int, int]
    waves: int
    registers: int
    lds_bytes: int
    spills: int
    matrix: str
    per_tile: tuple[int, int]
    lds_clk: tuple[int, int]
    predicted_us: float
    bound: str
    acquire: tuple[str, ...]

    @property
    def tera(self) -> float:
        """Predicted operations a second / 10^12."""
        return 2 * RANKS * ROWS * N * K / self.predicted_us / 1e6


class BlankMemory(ImmediateMemory):
    """Every signal has come; windows have no contents, and copies do nothing."""

    def __init__(self, ranks: int, window_bytes: int = 4) -> None:
        super().__init__(1, ranks, window_bytes, address_of=active_virtual_device().address_of)
        for pad in self.pads:
            pad.fill_(1)

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: str) -> None:
        pass


def plan_of(form: str, arch: str, dtype: torch.dtype) -> AllGatherMatmulPlan:
    """The plan of the large shape."""
    layout = Layout(dtype, torch.bfloat16, None, K, aligned=True) if form == "HIP" else None
    return plan_all_gather_matmul(
        shard_rows=ROWS, columns=N, length=K, ranks=RANKS, element_bytes=dtype.itemsize, arch=arch,
        engine="copy-engine", hip=layout,
    )  # fmt: skip


def launch(plan: AllGatherMatmulPlan, dtype: torch.dtype, ranks: int, rows: int, n: int) -> None:
    """One rank's call on tensors without contents."""
    fp8 = dtype.itemsize == 1
    b = torch.empty(n, K, dtype=dtype).t()
    columns = torch.ones(1, n) if fp8 else None
    a_inverse = torch.ones(ranks * rows, 1) if fp8 else None
    gathered, out = torch.empty(ranks * rows, K, dtype=dtype), torch.empty(ranks * rows, n, dtype=torch.bfloat16)
    shard, factors = torch.empty(rows, K, dtype=dtype), [Factor(b, columns, None, out, plan)]
    where = Gathered(gathered, a_inverse, fetch_scales=False, own_rows=True)
    GatherLaunch(make_workspace(BlankMemory(ranks)), shard, where, factors)(shard, None, where, factors)


def scatter_plan_of(form: str, arch: str, dtype: torch.dtype) -> MatmulReduceScatterPlan:
    """The plan of the large shape."""
    layout = Layout(dtype, torch.bfloat16, None, K, aligned=True) if form == "HIP" else None
    return plan_matmul_reduce_scatter(
        rows=ROWS, columns=N, length=K, ranks=RANKS, element_bytes=dtype.itemsize, arch=arch, hip=layout
    )


def scatter(plan: MatmulReduceScatterPlan, dtype: torch.dtype, ranks: int, rows: int, n: int) -> None:
    """One rank's call on tensors without contents."""
    fp8 = dtype.itemsize == 1
    inverses = (torch.ones(ranks * rows, 1), torch.ones(1, n)) if fp8 else (None, None)
    b, out = torch.empty(n, K, dtype=dtype).t(), torch.empty(rows, n, dtype=torch.bfloat16)
    parts = as_parts(torch.empty(ranks * rows, K, dtype=dtype), b, ranks, 0, *inverses)
    workspace = make_workspace(BlankMemory(ranks, rows * n * 4 * (ranks - 1)))
    ScatterLaunch(workspace, parts, b, out, plan, average=False)(parts, b, out)


OPERATORS: Mapping[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "all-gather+matmul": (plan_of, launch),
    "matmul+reduce-scatter": (scatter_plan_of, scatter),
}
"""By name: the plan of the large shape, and a call by a plan."""


def facts(operator: str, form: str, arch: str, *, fp8: bool) -> Facts:
    """Execute some tiles whole, and a sample of the large shape."""
    dtype = native_format(arch).dtype if fp8 else torch.bfloat16
    make_plan, launch = OPERATORS[operator]
    plan = make_plan(form, arch, dtype)
    tiles = plan.hip or plan.gemm
    block_m, block_n = tiles.block_m, tiles.block_n
    few: Any = replace(tiles, programs=WORKGROUPS)
    small = replace(plan, hip=few) if plan.hip is not None else replace(plan, gemm=few)
    with virtual_device(DEVICES[arch]) as device:
        launch(small, dtype, 2, WORKGROUPS // 2 * block_m, block_n)
        whole = device.launches[-1]
    with virtual_device(DEVICES[arch], workgroups="sample") as device:
        launch(plan, dtype, RANKS, ROWS, N)
        large = device.launches[-1].result
    result = whole.result
    kernel, executed = result.kernel, result.execution.executed
    per_opcode: Counter[str] = Counter()
    for instruction, count in zip(kernel.instructions, executed, strict=True):
        per_opcode[instruction.opcode] += int(count)
    matrix = {opcode: count for opcode, count in per_opcode.items() if opcode.startswith("v_mfma")}
    ((opcode, products),) = matrix.items()
    return Facts(
        (block_m, block_n),
        kernel.workgroup_size // 64,
        kernel.resources.vgpr,
        kernel.resources.lds_bytes,
        spills(kernel),
        opcode,
        (per_opcode.total() // WORKGROUPS, products // WORKGROUPS),
        (int(result.traffic.lds_clk) // WORKGROUPS, int(result.traffic.lds_conflict_clk) // WORKGROUPS),
        large.predicted_us,
        str(large.time.bound),
        acquire_sequence([instruction.text for instruction in kernel.instructions]),
    )


def acquire_sequence(lines: Sequence[str]) -> tuple[str, ...]:
    """From the poll of a signal to the barrier behind its acquisition: loads, waits, invalidation, barrier."""
    lines = [" ".join(line.split()) for line in lines]
    poll = next(i for i, line in enumerate(lines) if re.match(r"global_load_dword v\d+, .* sc0 sc1$", line))
    barrier = lines.index("s_barrier", lines.index("buffer_inv sc0 sc1", poll))
    wanted = re.compile(r"(global_|flat_|buffer_inv|s_waitcnt|s_sleep|s_barrier|ds_(read|write))")
    return tuple(line for line in lines[poll : barrier + 1] if wanted.match(line))


def table(found: Mapping[tuple[str, str], Facts]) -> Iterator[str]:
    """A row for every fact, a column for every form and type of one architecture."""
    columns = list(found)
    yield "| | " + " | ".join(f"{form}, {kind}" for form, kind in columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    rows: tuple[tuple[str, Callable[[Facts], str]], ...] = (
        ("tile, waves", lambda f: f"{f.tile[0]} × {f.tile[1]}, {f.waves}"),
        ("vector registers, registers spilled", lambda f: f"{f.registers}, {f.spills}"),
        ("LDS, KiB", lambda f: f"{f.lds_bytes / 1024:.0f}"),
        ("matrix instruction", lambda f: f"`{f.matrix.removeprefix('v_mfma_f32_')}`"),
        ("matrix instructions a tile", lambda f: f"{f.per_tile[1]:,}"),
        ("wave instructions a tile", lambda f: f"{f.per_tile[0]:,}"),
        ("per 1,000 results", lambda f: f"{1000 * f.per_tile[0] / (f.tile[0] * f.tile[1]):,.0f}"),
        ("matrix share, %", lambda f: f"{100 * f.per_tile[1] / f.per_tile[0]:.0f}"),
        ("LDS, 1,000 cycles a tile (conflicts)", lambda f: f"{f.lds_clk[0] / 1e3:.0f} ({f.lds_clk[1] / 1e3:.1f})"),
        ("LDS cycles per 1,000 results", lambda f: f"{1000 * f.lds_clk[0] / (f.tile[0] * f.tile[1]):,.0f}"),
        ("predicted, µs", lambda f: f"{f.predicted_us:.0f}"),
        ("Tflop/s", lambda f: f"{f.tera:.0f}"),
        ("bound by", lambda f: f.bound),
    )
    for name, value in rows:
        yield f"| {name} | " + " | ".join(value(f) for f in found.values()) + " |"


def page() -> Iterator[str]:
    """The page, part by part."""
    tools = f"{find_compiler().name}, triton {triton.__version__}, python {platform.python_version()}"
    yield HEAD.format(tools=tools)
    acquired: dict[tuple[str, str], tuple[str, ...]] = {}
    units = ", ".join(
        f"{plan_of('HIP', of, torch.bfloat16).transport.most_units} of {compute_units(of)} on {of}" for of in DEVICES
    )
    yield EXECUTED.format(k=f"{K:,}", n=f"{N:,}", rows=f"{ROWS:,}", ranks=RANKS, units=units)
    for operator in OPERATORS:
        for arch, device in DEVICES.items():
            found = {
                (form, "FP8" if fp8 else "bf16"): facts(operator, form, arch, fp8=fp8)
                for fp8 in (False, True)
                for form in FORMS
            }
            acquired = {(arch, form): found[form, "bf16"].acquire for form in FORMS} | acquired
            yield f"\n### {operator[0].upper()}{operator[1:]} on {arch} ({device})\n\n"
            yield "\n".join(table(found)) + "\n"
    yield from acquired_part(acquired)
    yield QUANTIZER.format(tokens=f"{TOKENS:,}", columns=f"{COLUMNS:,}", groups=GROUPS)
    yield "\n".join(quantizer_table()) + "\n"


def acquired_part(acquired: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    """The instructions of every form and architecture."""
    yield ACQUIRED
    for (arch, form), lines in acquired.items():
        yield f"\n{form}, {arch}:\n\n```asm\n" + "\n".join(lines) + "\n```\n"


def quantizer_table() -> Iterator[str]:
    """A column for every form and architecture."""
    found = {}
    x = torch.zeros(TOKENS, COLUMNS, dtype=torch.bfloat16)
    offs = torch.arange(1, GROUPS + 1, dtype=torch.int32) * (TOKENS // GROUPS)
    for arch, name in DEVICES.items():
        for form, operator in zip(FORMS, (colwise_per_group_hip, colwise_per_group), strict=True):
            with virtual_device(name, workgroups="sample") as device:
                operator(x, offs)
                (launched,) = device.launches
            found[arch, form] = launched.result
    yield "| | " + " | ".join(f"{form}, {arch}" for arch, form in found) + " |"
    yield "| --- |" + " ---: |" * len(found)
    rows: tuple[tuple[str, Callable[[Any], str]], ...] = (
        ("waves", lambda r: f"{r.kernel.workgroup_size // 64}"),
        ("vector registers, registers spilled", lambda r: f"{r.kernel.resources.vgpr}, {spills(r.kernel)}"),
        ("LDS, KiB", lambda r: f"{r.kernel.resources.lds_bytes / 1024:.0f}"),
        (
            "wave instructions per 1,000 values",
            lambda r: f"{1000 * r.execution.executed.sum() / len(r.execution.workgroups) * per_value(r):.0f}",
        ),
        ("predicted, µs", lambda r: f"{r.predicted_us:.1f}"),
        ("bound by", lambda r: str(r.time.bound)),
    )
    for name, value in rows:
        yield f"| {name} | " + " | ".join(value(r) for r in found.values()) + " |"


def per_value(result: Any) -> float:
    """Workgroups a value."""
    grid = result.execution.grid
    return grid[0] * grid[1] * grid[2] / (TOKENS * COLUMNS)


def spills(kernel: Any) -> int:
    """Registers, vector and scalar."""
    return int(kernel.resources.vgpr_spills + kernel.resources.sgpr_spills)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    text = "".join(page())
    if given.page:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
