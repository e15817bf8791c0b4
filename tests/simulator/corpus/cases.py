"""The corpus: a wide sample of compiled Triton kernels that the parser and the engine must take in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.triton import compile_kernel

from . import elementwise_kernels as ek
from . import matrix_kernels as mk
from . import reduction_kernels as rk

ARCHITECTURES = ("gfx942", "gfx950")


@dataclass(frozen=True)
class Case:
    """One compilation.

    ``types`` has one word per argument that is not constexpr, in order: the type, then optionally ``:`` and what is
    known of the argument: ``*bf16:DS`` is what a launch tells of an aligned tensor below 2 GiB, ``*bf16`` of a slice.
    ``since`` is the first Triton version that compiles it; an older one may abort the process.
    """

    name: str
    kernel: Any
    types: str
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    architectures: tuple[str, ...] = ARCHITECTURES
    since: tuple[int, int] = (3, 6)


def compile_case(case: Case, arch: str) -> CodeObject:
    """Compile one case, from the compiler's cache if it is there."""
    names = [name for name in case.kernel.arg_names if name not in case.constexprs]
    words = [word.partition(":") for word in case.types.split()]
    return compile_kernel(
        case.kernel,
        signature={name: word[0] for name, word in zip(names, words, strict=True)},
        constexprs=case.constexprs,
        arch=arch,
        attrs={name: word[2] for name, word in zip(names, words, strict=True) if word[2]},
        options=case.options,
    )


def _elementwise() -> list[Case]:
    cases = []
    for source, target in [
        ("fp32", "bf16"), ("fp32", "fp16"), ("bf16", "fp32"), ("fp16", "fp32"), ("fp16", "bf16"), ("fp32", "i32"),
        ("fp32", "fp8e4nv"), ("fp32", "fp8e4b8"), ("bf16", "fp8e4nv"), ("bf16", "fp8e4b8"), ("fp32", "fp8e5"),
        ("fp32", "fp8e5b16"), ("fp16", "fp8e5"), ("fp8e4nv", "bf16"), ("fp8e4b8", "bf16"), ("fp8e5", "fp32"),
        ("fp8e5b16", "fp32"), ("fp8e4nv", "fp32"), ("fp8e4b8", "fp16"), ("i32", "fp32"), ("i8", "fp16"),
        ("i64", "fp32"), ("fp64", "fp32"), ("fp32", "u8"),
    ]:  # fmt: skip
        cases.append(Case(f"cast-{source}-{target}", ek.cast_kernel, f"*{source}:D *{target}:D i32", {"BLOCK": 1024}))
    cases += [
        Case("cast-through-fp32", ek.cast_through_fp32_kernel, "*bf16:DS *fp8e4nv:DS i32:D", {"BLOCK": 2048}),
        Case("axpy", ek.axpy_kernel, "*fp32:DS *fp32:DS *fp32:DS fp32 fp32 i32", {"BLOCK": 1024}),
        Case(
            "axpy-fp16", ek.axpy_kernel, "*fp16:DS *fp16:DS *fp16:DS fp32 fp32 i32", {"BLOCK": 2048}, {"num_warps": 16}
        ),
        Case("axpy-bf16-unaligned", ek.axpy_kernel, "*bf16 *bf16 *bf16 fp32 fp32 i32", {"BLOCK": 512}),
        Case("gated-unit", ek.gated_unit_kernel, "*bf16:DS *bf16:DS *bf16:DS i32:D i32:D", {"BLOCK": 1024}),
        Case("transcendental", ek.transcendental_kernel, "*fp32:D *fp32:D i32", {"BLOCK": 256}),
        Case("trigonometric", ek.trigonometric_kernel, "*fp32:D *fp32:D i32", {"BLOCK": 256}),
        Case("rounding", ek.rounding_kernel, "*fp32:D *fp32:D *fp32:D i32", {"BLOCK": 256}),
        Case("device-library", ek.device_library_kernel, "*fp32:D *fp32:D i32", {"BLOCK": 256}),
        Case("double", ek.double_kernel, "*fp32:D *fp64:D *fp64:D i32", {"BLOCK": 256}),
        Case("half", ek.half_kernel, "*fp16:D *fp16:D *fp16:D i32", {"BLOCK": 512}),
        Case("half-bf16", ek.half_kernel, "*bf16:DS *bf16:DS *bf16:DS i32", {"BLOCK": 512}),
        Case("integer", ek.integer_kernel, "*i32:D *i32:D *i64:D i32", {"BLOCK": 256}),
        Case("division-i32", ek.division_kernel, "*i32:D *i32:D *i32:D i32", {"BLOCK": 256}),
        Case("division-i64", ek.division_kernel, "*i64:D *i64:D *i64:D i32", {"BLOCK": 128}, {"num_warps": 2}),
        Case("small-integer-i8", ek.small_integer_kernel, "*i8:D *i8:D *i8:D i32", {"BLOCK": 1024}),
        Case("small-integer-i16", ek.small_integer_kernel, "*i16:D *i16:D *i16:D i32", {"BLOCK": 1024}),
        Case("random-uniform", ek.random_kernel, "*fp32:D i32 i32", {"NORMAL": False, "BLOCK": 512}),
        Case("random-normal", ek.random_kernel, "*fp32:D i32 i32", {"NORMAL": True, "BLOCK": 512}),
        Case("gather", ek.gather_kernel, "*bf16:DS *i64:D *bf16:DS i32 i32:D", {"BLOCK": 1024}),
        Case("local-gather", ek.local_gather_kernel, "*fp32:D *i32:D *fp32:D", {"ROWS": 16, "COLUMNS": 64}),
    ]
    return cases


def _atomics() -> list[Case]:
    cases = [
        Case(f"amax-{sem.replace('_', '-')}", ek.amax_atomic_kernel, "*bf16:D *fp32:D i32", {"SEM": sem, "BLOCK": 2048})
        for sem in ("relaxed", "acquire", "release", "acq_rel")
    ]
    for sem, scope in [("acq_rel", "gpu"), ("relaxed", "cta"), ("release", "sys")]:
        constexprs = {"SEM": sem, "SCOPE": scope, "BLOCK": 256}
        cases.append(Case(f"integer-atomic-{scope}", ek.integer_atomic_kernel, "*i32:D *i32:D i32", constexprs))
    for target in ("fp32", "fp16", "bf16", "fp64"):
        types = f"*fp32:DS *{target}:DS i32"
        since = (3, 7) if target in ("fp16", "bf16") else (3, 6)
        cases.append(Case(f"float-atomic-{target}", ek.float_atomic_kernel, types, {"BLOCK": 512}, since=since))
    return [
        *cases,
        Case("lock", ek.lock_kernel, "*fp32:D *i32 *fp32 i32", {"BLOCK": 256}),
        Case("ticket", ek.ticket_kernel, "*fp32:D *fp32 *i32 *fp32:D i32", {"BLOCK": 512, "PARTS": 64}),
    ]


def _reductions() -> list[Case]:
    tile = {"ROWS": 8, "COLUMNS": 64}
    return [
        Case("softmax", rk.softmax_kernel, "*fp32:DS *fp32:DS i32 i32:D", {"BLOCK": 1024}),
        Case("softmax-wide", rk.softmax_kernel, "*bf16:DS *bf16:DS i32:D i32:D", {"BLOCK": 16384}, {"num_warps": 8}),
        Case("layernorm", rk.layernorm_kernel, "*bf16:DS *fp32:DS *fp32:DS *bf16:DS *fp32 i32 fp32", {"BLOCK": 2048}),
        Case("rmsnorm", rk.rmsnorm_kernel, "*bf16:DS *bf16:DS *bf16:DS i32:D fp32", {"BLOCK": 4096}),
        Case("column-sum", rk.column_sum_kernel, "*fp32:DS *fp32:DS i32 i32", {"ROWS": 64, "COLUMNS": 64}),
        Case("argument-reduce", rk.argument_reduce_kernel, "*fp32:D *fp32:D *i32:D *i32:D", tile),
        Case("integer-reduce", rk.integer_reduce_kernel, "*i32:D *i32:D", tile),
        Case("integer-reduce-i64", rk.integer_reduce_kernel, "*i64:D *i64:D", tile),
        Case("scan", rk.scan_kernel, "*fp32:D *fp32:D *fp32:D", {**tile, "REVERSE": False}),
        Case("scan-reverse", rk.scan_kernel, "*i32:D *i32:D *i32:D", {**tile, "REVERSE": True}),
        Case("histogram", rk.histogram_kernel, "*i32:D *i32:D i32", {"BINS": 128, "BLOCK": 1024}),
        Case("sort", rk.sort_kernel, "*fp32:D *fp32:D", {"ROWS": 4, "COLUMNS": 64, "DESCENDING": False}),
        Case("sort-i32", rk.sort_kernel, "*i32:D *i32:D", {"ROWS": 2, "COLUMNS": 256, "DESCENDING": True}),
        Case("top-k", rk.top_k_kernel, "*fp16:D *fp16:D", {"ROWS": 4, "COLUMNS": 64, "K": 8}),
        Case("rotary", rk.rotary_kernel, "*bf16:DS *fp32:DS *fp32:DS *bf16:DS i32", {"HALF": 64}),
        Case("dot-product", mk.dot_product_kernel, "*fp32:D *fp32:D *fp32", {"BLOCK": 1024}),
    ]


def _quantizers() -> list[Case]:
    cases = []
    for target, maximum in (("fp8e4b8", 240.0), ("fp8e4nv", 448.0)):
        row = {"MAXIMUM": maximum, "POWER_OF_TWO": False, "BLOCK": 1024}
        grid = {"MAXIMUM": maximum, "ROWS": 32, "COLUMNS": 64}
        flat = "*bf16:DS *{0}:DS *fp32:DS i32:D i32:D"
        cases += [
            Case(f"row-quantize-{target}", rk.row_quantize_kernel, flat.format(target), row),
            Case(
                f"row-quantize-power-{target}",
                rk.row_quantize_kernel,
                f"*fp32 *{target} *fp32 i32 i32",
                {**row, "POWER_OF_TWO": True, "BLOCK": 512},
            ),
            Case(
                f"column-quantize-{target}",
                rk.column_quantize_kernel,
                f"*bf16:DS *{target}:DS *fp32:DS i32 i32:D i32:D",
                grid,
            ),
            Case(
                f"group-column-quantize-{target}",
                rk.group_column_quantize_kernel,
                f"*bf16:DS *i32:D *{target}:DS *fp32:DS i32:D i32:D",
                {**grid, "ROWS": 128, "COLUMNS": 32},
            ),
            Case(
                f"group-row-quantize-{target}",
                rk.group_row_quantize_kernel,
                f"*bf16:DS *i32:D *{target}:DS *fp32:DS i32 i32:D",
                {**grid, "ROWS": 16, "COLUMNS": 128},
                {"num_warps": 8},
            ),
        ]
    for target in ("fp8e4nv", "fp8e5"):
        cases.append(
            Case(
                f"microscale-quantize-{target}",
                rk.microscale_quantize_kernel,
                f"*bf16:DS *{target}:DS *u8:DS i32:D",
                {"ROWS": 32, "COLUMNS": 128},
            )
        )
    for kind in ("bf16", "fp32", "fp8e4nv", "i64"):
        cases.append(
            Case(
                f"transpose-{kind}", rk.transpose_kernel, f"*{kind}:DS *{kind}:DS i32 i32", {"ROWS": 64, "COLUMNS": 64}
            )
        )
    return cases


def _gemm(
    name: str, kind: str, out: str, tile: tuple[int, int, int], architectures: tuple[str, ...] = ARCHITECTURES,
    *, along_k: bool = True, precision: str = "ieee", accumulator: Any = tl.float32, hint: str = ":DS",
    **options: Any,
) -> Case:  # fmt: skip
    left, _, right = kind.partition("/")
    types = f"*{left}{hint} *{right or left}{hint} *{out}{hint} i32 i32:D i32:D i32:D i32:D"
    constexprs = {"BM": tile[0], "BN": tile[1], "BK": tile[2], "B_ALONG_K": along_k, "PRECISION": precision}
    constexprs["ACCUMULATOR"] = accumulator
    return Case(f"gemm-{name}", mk.gemm_kernel, types, constexprs, options, architectures)


def _gemms() -> list[Case]:
    native = {"gfx942": ("fp8e4b8", "fp8e5b16"), "gfx950": ("fp8e4nv", "fp8e5")}
    cases = []
    for stages in (1, 2, 3):
        for along in (True, False):
            order = "k" if along else "n"
            cases.append(
                _gemm(f"bf16-{order}-stages{stages}", "bf16", "bf16", (128, 128, 64), along_k=along, num_stages=stages)
            )
        for arch, (e4, _) in native.items():
            cases.append(_gemm(f"{e4}-stages{stages}", e4, "bf16", (128, 128, 64), (arch,), num_stages=stages))
    for arch, (e4, e5) in native.items():
        cases += [
            _gemm(f"{e5}", e5, "fp32", (64, 64, 64), (arch,)),
            _gemm(f"{e5}-{e4}", f"{e5}/{e4}", "bf16", (64, 64, 128), (arch,)),
            _gemm(f"{e4}-n", e4, "bf16", (128, 128, 128), (arch,), along_k=False),
            _gemm(f"{e4}-nonkdim16", e4, "bf16", (64, 64, 128), (arch,), matrix_instr_nonkdim=16),
        ]
    cases += [
        _gemm("fp16", "fp16", "fp16", (128, 128, 32)),
        _gemm("fp16-n-small", "fp16", "fp32", (32, 32, 32), along_k=False, num_warps=1),
        _gemm("fp32", "fp32", "fp32", (64, 64, 32)),
        _gemm("fp32-xf32", "fp32", "fp32", (64, 64, 32), ("gfx942",), precision="tf32"),
        _gemm("fp32-bf16x3", "fp32", "fp32", (64, 64, 32), precision="bf16x3"),
        _gemm("fp64", "fp64", "fp64", (64, 64, 16), accumulator=tl.float64),
        _gemm("bf16-unaligned", "bf16", "bf16", (64, 64, 32), hint=""),
        _gemm("bf16-aligned", "bf16", "fp32", (64, 128, 64), hint=":D"),
        _gemm("bf16-tiny", "bf16", "bf16", (16, 16, 32), num_warps=1),
        _gemm("bf16-nonkdim16", "bf16", "bf16", (128, 128, 64), matrix_instr_nonkdim=16),
        _gemm("bf16-nonkdim32", "bf16", "bf16", (128, 128, 64), matrix_instr_nonkdim=32, num_stages=1),
        _gemm("bf16-nonkdim4", "bf16", "fp32", (4, 64, 64), num_warps=1, num_stages=1),
        _gemm("bf16-large", "bf16", "bf16", (256, 256, 64), num_warps=8),
        _gemm("bf16-spill", "bf16", "bf16", (256, 256, 64), num_warps=4, waves_per_eu=2),
        _gemm("bf16-accumulation-registers", "bf16", "bf16", (256, 256, 32), num_warps=4),
        _gemm("fp8e4nv-converted", "fp8e4nv", "bf16", (64, 64, 64), ("gfx942",)),
        _gemm("bf16-kpack2", "bf16", "bf16", (128, 64, 64), ("gfx942",), kpack=2),
        Case(
            "integer-gemm", mk.integer_gemm_kernel, "*i8:DS *i8:DS *i32:DS i32:D i32:D", {"BM": 64, "BN": 64, "BK": 64}
        ),
    ]
    return cases


def _gemm_variants() -> list[Case]:
    tile = {"BM": 64, "BN": 64, "BK": 64}
    cases = [
        Case("weight-only-gemm", mk.weight_only_gemm_kernel, "*bf16:DS *u8:DS *fp32:DS *bf16:DS i32:D i32:D", tile),
        Case("batched-gemm", mk.batched_gemm_kernel, "*fp16:DS *fp16:DS *fp32:DS", {**tile, "BATCH": 2}),
        Case("descriptor-gemm", mk.descriptor_gemm_kernel, "*bf16:DS *bf16:DS *bf16:DS i32 i32:D i32:D", tile),
    ]
    for kind, architectures in [("bf16", ARCHITECTURES), ("fp8e4b8", ("gfx942",)), ("fp8e4nv", ("gfx950",))]:
        three = f"*{kind}:DS *{kind}:DS *{{}}:DS"
        cases += [
            Case(
                f"split-k-{kind}", mk.split_k_gemm_kernel, three.format("fp32") + " i32 i32:D i32:D",
                {**tile, "PARTS": 4}, {}, architectures,
            ),
            Case(
                f"persistent-{kind}", mk.persistent_gemm_kernel,
                three.format("bf16") + " *fp32:DS *fp32:DS" + " i32 i32:D i32:D",
                {**tile, "PROGRAMS": 304}, {}, architectures,
            ),
            Case(
                f"grouped-{kind}", mk.grouped_gemm_kernel,
                three.format("bf16") + " *i32:D *fp32:DS *fp32:DS i32 i32:D i32:D", tile, {}, architectures,
            ),
        ]  # fmt: skip
    return cases


def _scaled_and_attention() -> list[Case]:
    cases = []
    formats = {"e4m3": ("*fp8e4nv", 1), "e5m2": ("*fp8e5", 1), "e2m1": ("*u8", 2)}
    for a, b, stages in [
        ("e4m3", "e4m3", 1), ("e4m3", "e4m3", 2), ("e5m2", "e4m3", 2), ("e2m1", "e2m1", 2), ("e4m3", "e2m1", 1),
    ]:  # fmt: skip
        types = f"{formats[a][0]}:DS {formats[b][0]}:DS *bf16:DS *u8:DS *u8:DS i32:D i32:D"
        constexprs = {"FORMAT_A": a, "FORMAT_B": b, "PACK_A": formats[a][1], "PACK_B": formats[b][1]}
        constexprs |= {"BM": 64, "BN": 64, "BK": 128}
        cases.append(
            Case(
                f"scaled-{a}-{b}-stages{stages}",
                mk.scaled_gemm_kernel,
                types,
                constexprs,
                {"num_stages": stages},
                ("gfx950",),
            )
        )
    attention = "*{0}:DS *{0}:DS *{0}:DS *{0}:DS fp32 i32:D"
    shape = {"DEPTH": 64, "BM": 64, "BN": 64}
    cases += [
        Case("attention-causal", mk.attention_kernel, attention.format("bf16"), {**shape, "CAUSAL": True}),
        Case(
            "attention-full", mk.attention_kernel, attention.format("fp16"),
            {"DEPTH": 128, "BM": 128, "BN": 64, "CAUSAL": False}, {"num_warps": 8},
        ),
    ]  # fmt: skip
    return cases


CASES: list[Case] = [
    *_elementwise(),
    *_atomics(),
    *_reductions(),
    *_quantizers(),
    *_gemms(),
    *_gemm_variants(),
    *_scaled_and_attention(),
]
TRITON_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
COMPILATIONS = [
    (case, arch)
    for arch in ARCHITECTURES
    for case in CASES
    if arch in case.architectures and case.since <= TRITON_VERSION
]
COMPILATION_IDS = [f"{arch}-{case.name}" for case, arch in COMPILATIONS]
