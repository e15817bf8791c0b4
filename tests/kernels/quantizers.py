"""What the tests of the quantizers share: inputs, byte comparison, canaries, and facts of compiled kernels."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized

CANARY = 0x55
MARGIN_BYTES = 256


BAD_WEIGHTS = pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.zeros(4, 4), "weight has 2 dimensions"),
        (torch.zeros(2, 4, 4, dtype=torch.int8), "weight is int8"),
        (torch.zeros(2, 4, 6), r"weight has strides \(24, 6, 1\) .* wanted are \(24, 1, 4\)"),
        (torch.zeros(1).expand(2, 4, 6), "weight has strides"),
        (
            torch.empty((1, 1 << 16, 1 << 16), device="meta").transpose(1, 2),
            "one expert is 4294967296; at most 2147483647",
        ),
    ],
    ids=["rank", "dtype", "row-major", "expanded", "beyond 32-bit offsets"],
)
"""Weights (E, K, N) that no operator takes, and what the error says."""


BAD_GROUPS_OF_ROWS = pytest.mark.parametrize(
    ("x", "offs", "message"),
    [
        (torch.zeros(4), [4], "x has 1 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), [4], "x is int32; wanted is one of bfloat16, float16, float32"),
        (torch.zeros(4, 5).t(), [5], "rows must be contiguous"),
        (torch.zeros(4, 5), [], "offs is empty"),
    ],
)
"""Matrices and end offsets that no column-wise operator takes, and what the error says."""


def exact_values(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    """Values of at most 4 significant bits: with a power-of-two scale their FP8 codes need no rounding."""
    generator = torch.Generator().manual_seed(seed)
    mantissa = torch.randint(-8, 9, shape, generator=generator)
    exponent = torch.randint(-2, 3, shape, generator=generator)
    return (mantissa * 2.0**exponent).to(dtype)


def skewed_values(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    """Normal values whose size differs by 10^4 along the first dimension."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.logspace(-2, 2, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return (torch.randn(*shape, generator=generator) * size).to(dtype)


def any_bits(*shape: int, seed: int) -> torch.Tensor:
    """bf16 of uniformly distributed bits: every exponent, NaN and infinities."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-(1 << 15), 1 << 15, shape, generator=generator, dtype=torch.int16).view(torch.bfloat16)


REPEATABLE = settings(
    derandomize=True, deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
"""Hypothesis: the same examples in every run, few enough to execute them, and none a fresh virtual device."""
SEEDS = st.integers(0, 2**32 - 1)


def put_specials(x: torch.Tensor) -> torch.Tensor:
    """A copy with one NaN, +Inf and -Inf at places that do not depend on the shape's divisibility."""
    flat = x.clone().reshape(-1)
    flat[flat.numel() // 2] = float("nan")
    flat[flat.numel() // 3] = float("inf")
    flat[flat.numel() // 5] = float("-inf")
    return flat.reshape(x.shape)


def put_column_specials(x: torch.Tensor) -> torch.Tensor:
    """In place: single NaN and infinities, a zero column, a tiny column, a column of nothing but NaN."""
    rows, columns = x.shape
    x[rows // 3, 0] = float("nan")
    x[rows // 2, 1 % columns] = float("inf")
    x[rows // 4, 1 % columns] = float("-inf")
    x[:, 2 % columns] = 0
    x[rows // 2, 2 % columns] = -1e-7 if x.dtype == torch.float16 else -1e-30
    x[:, 3 % columns] = float("nan")
    x[:, 4 % columns] = float("-inf")
    return x


def column_major(weight: torch.Tensor) -> torch.Tensor:
    """(E, K, N) with the same values and K contiguous."""
    return weight.transpose(1, 2).contiguous().transpose(1, 2)


def finite_weights(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """(E, K, N) with K contiguous, skewed over experts."""
    return column_major(skewed_values(*shape, dtype=dtype))


def special_weights(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """`finite_weights` with NaN, Inf, a zero k and a zero n."""
    weight = column_major(put_specials(finite_weights(*shape, dtype=dtype)))
    weight[-1, shape[1] // 3] = 0
    weight[-1, :, shape[2] // 3] = 0
    return weight


def far_apart_rows(rows: torch.Tensor, *, stride: int = 1 << 30) -> torch.Tensor:
    """A copy with ``stride`` values between the rows, in memory of which only the rows are ever touched.

    Of three rows, the third is 2^31 values behind the first.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, ((rows.shape[0] - 1) * stride + rows.shape[1]) * rows.element_size(), flags=flags)
    apart = torch.frombuffer(memory, dtype=rows.dtype).as_strided(rows.shape, (stride, 1))
    return apart.copy_(rows)


def stored_bytes(launch: Any) -> int:
    """Bytes that one launch on a virtual device has stored; one that is stored twice counts twice."""
    from wavecast.simulator.traffic import AccessKind

    instructions = launch.result.traffic.instructions
    return sum(i.bytes_asked for i in instructions if i.kind is AccessKind.STORE)


def assert_same_bytes(name: str, actual: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal shape, strides (of what has elements) and bytes; any NaN code equals any other."""
    assert actual.dtype == wanted.dtype, name
    assert actual.shape == wanted.shape, name
    assert actual.stride() == wanted.stride() or wanted.numel() == 0, name
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[actual.dtype.itemsize]
    bits, wanted_bits = (t.contiguous().view(raw).reshape(-1) for t in (actual, wanted))
    both_nan = (actual.float().isnan() & wanted.float().isnan()).contiguous().reshape(-1)
    differ = (bits != wanted_bits) & ~both_nan
    if differ.any():
        first = int(differ.nonzero()[0])
        raise AssertionError(
            f"{name}: {int(differ.sum())} of {differ.numel()} values differ, the first at {first}: "
            f"{int(bits[first]):#x}, wanted {int(wanted_bits[first]):#x}"
        )


def assert_same_results(variant: str, actual: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    """`assert_same_bytes` for values, scale and inverse."""
    for name, a, w in zip(("values", "scale", "inverse"), actual, wanted, strict=True):
        assert_same_bytes(f"{variant} {name}", a, w)


@dataclass
class Guarded:
    """Tensors between canaries."""

    storages: list[torch.Tensor]

    def like(self, wanted: torch.Tensor) -> torch.Tensor:
        """A tensor of the same shape, strides and dtype, full of canaries and with canaries on both sides."""
        size = wanted.numel() * wanted.dtype.itemsize
        storage = torch.full((size + 2 * MARGIN_BYTES,), CANARY, dtype=torch.uint8)
        self.storages.append(storage)
        inner = storage[MARGIN_BYTES : MARGIN_BYTES + size].view(wanted.dtype)
        return inner.as_strided(wanted.shape, wanted.stride())


@contextmanager
def guarded_outputs() -> Iterator[Guarded]:
    """Canaries round every tensor made with `Guarded.like`, checked on exit."""
    guard = Guarded([])
    yield guard
    for storage in guard.storages:
        for side in (storage[:MARGIN_BYTES], storage[storage.numel() - MARGIN_BYTES :]):
            assert (side == CANARY).all(), "a kernel wrote beside its output"


def check_launch(
    launch: Callable[..., None],
    reference: Callable[..., Quantized],
    x: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    arch: str | None,
) -> None:
    """Results equal the reference's byte for byte, and nothing is written beside them."""
    wanted = reference(x, fmt, power_of_two=power_of_two)
    with guarded_outputs() as guard:
        out = Quantized(*(guard.like(tensor) for tensor in wanted))
        launch(x, out, Conversion(fmt, fmt.max, power_of_two, arch))
    assert_same_results(f"{tuple(x.shape)} {x.dtype}", out, wanted)


@dataclass(frozen=True)
class Facts:
    """What the assembly of one kernel says.

    Attributes:
        assembly: the text.
        opcodes: base mnemonic to its static count.
        vgpr, spills, lds_bytes: as the compiler states them.
    """

    assembly: str
    opcodes: Counter[str]
    vgpr: int
    spills: int
    lds_bytes: int

    def count(self, pattern: str) -> int:
        """Static instructions whose mnemonic matches ``pattern`` in full."""
        return sum(n for opcode, n in self.opcodes.items() if re.fullmatch(pattern, opcode))

    def widths(self, kind: str) -> set[str]:
        """Suffixes of the global or buffer accesses of one kind, ``load`` or ``store``: ``{"dwordx4", "byte"}``."""
        return {m.group(1) for o in self.opcodes if (m := re.fullmatch(rf"(?:global|buffer)_{kind}_(\w+)", o))}


def compile_facts(
    fn: Any,
    *,
    arch: str,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    num_warps: int,
    num_stages: int = 2,
    unspecialised: Collection[str] = (),
) -> Facts:
    """Compile as a launch on aligned buffers below 2 GiB and sizes that are multiples of 16 would.

    Nothing is known of the values of ``unspecialised`` arguments.
    """
    from wavecast.simulator.compile.triton import compile_kernel

    signature = {name: kind for name, kind in signature.items() if name not in constexprs}
    code = compile_kernel(
        fn,
        signature=signature,
        arch=arch,
        constexprs=constexprs,
        attrs={
            name: "DS" if kind.startswith("*") else "D" for name, kind in signature.items() if name not in unspecialised
        },
        options={"num_warps": num_warps, "num_stages": num_stages},
    )
    text = code.assembly
    spills = re.search(r"\.vgpr_spill_count:\s*(\d+)", text)
    vgpr = re.search(r"\.vgpr_count:\s*(\d+)", text)
    assert spills is not None
    assert vgpr is not None
    opcodes = re.findall(r"^\s+([a-z]+_[a-z0-9_]+)", text, re.MULTILINE)
    return Facts(
        assembly=text,
        opcodes=Counter(re.sub(r"_(e32|e64|sdwa|dpp)$", "", opcode) for opcode in opcodes),
        vgpr=int(vgpr.group(1)),
        spills=int(spills.group(1)),
        lds_bytes=code.lds_bytes,
    )


def run_interpreted(*operators: str) -> None:
    """Check the kernels of operators in Triton's interpreter, which must be chosen before Triton is imported."""
    script = Path(__file__).parent / "interpreted.py"
    done = subprocess.run([sys.executable, str(script), *operators], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stdout.startswith("0 ")
