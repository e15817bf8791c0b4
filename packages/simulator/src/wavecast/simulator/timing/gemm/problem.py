"""What a matrix multiplication computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import SimulatorError


class GemmError(SimulatorError):
    """A problem, tile or library that the GEMM model cannot price; the message says what it can."""


class Scaling(StrEnum):
    """How operands of 8 bits are scaled."""

    NONE = "none"
    TENSORWISE = "tensorwise"
    ROWWISE = "rowwise"
    BLOCKWISE = "blockwise"
    """A factor for 1 × 128 elements of A and for 128 × 128 of B, applied to partial sums by vector instructions."""
    MX = "mx"
    """A factor for 32 elements along K, applied by the matrix instruction."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One product: (m, k) × (k, n) → (m, n)."""

    m: int
    n: int
    k: int

    @property
    def flop(self) -> int:
        return 2 * self.m * self.n * self.k


OPERAND_BITS = {"bf16": 16, "f16": 16, "fp8": 8, "mxfp8": 8, "mxfp4": 4}
"""Operand types and their width."""

_SCALE_BLOCK = 128


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """One launch: a product, or a group of products that share a launch.

    Attributes:
        groups: Its products; groups without rows, columns or depth take part with no work.
        dtype: Type of both operands, a key of ``OPERAND_BITS``.
        scaling: How they are scaled.
        out_bytes: Bytes of an element of the result.
        exact_sums: Whether sums of 8-bit products go to fp32 registers after every 128 elements of depth, because the
            matrix unit of Hopper keeps fewer bits (``use_fast_accum=False``). AMD's keeps them all.
    """

    groups: tuple[Shape, ...]
    dtype: str = "bf16"
    scaling: Scaling = Scaling.NONE
    out_bytes: int = 2
    exact_sums: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in OPERAND_BITS:
            raise GemmError(f"operand type {self.dtype!r} is not known; wanted is one of {', '.join(OPERAND_BITS)}")
        if not self.groups or any(min(shape.m, shape.n, shape.k) < 0 for shape in self.groups):
            raise GemmError(f"{self.groups} is no list of products; wanted is at least one, with sizes of 0 or more")
        if not self.flop:
            raise GemmError("no product of the launch has rows, columns and depth; there is nothing to time")

    @classmethod
    def dense(cls, m: int, n: int, k: int, dtype: str = "bf16", scaling: Scaling = Scaling.NONE) -> GemmProblem:
        """One product."""
        return cls((Shape(m, n, k),), dtype, scaling)

    @classmethod
    def grouped_rows(
        cls, rows: Sequence[int], n: int, k: int, dtype: str = "bf16", scaling: Scaling = Scaling.NONE
    ) -> GemmProblem:
        """Groups of rows, each times its own (k, n): forward, and gradient of the input."""
        return cls(tuple(Shape(m, n, k) for m in rows), dtype, scaling)

    @classmethod
    def grouped_sums(
        cls, m: int, n: int, depths: Sequence[int], dtype: str = "bf16", scaling: Scaling = Scaling.NONE
    ) -> GemmProblem:
        """One (m, n) for each group, summed over that group's rows: gradient of the weights."""
        return cls(tuple(Shape(m, n, k) for k in depths), dtype, scaling)

    @property
    def bits(self) -> int:
        return OPERAND_BITS[self.dtype]

    @property
    def flop(self) -> int:
        return sum(shape.flop for shape in self.groups)

    @property
    def minimum_bytes(self) -> float:
        """Operands once and result once."""
        inputs = sum((shape.m + shape.n) * shape.k for shape in self.groups) * self.bits / 8
        return inputs + sum(shape.m * shape.n for shape in self.groups) * self.out_bytes

    @property
    def promotions_per_element(self) -> float:
        """Vector operations on an accumulator element for each element of depth."""
        return 1 / _SCALE_BLOCK if self.exact_sums or self.scaling is Scaling.BLOCKWISE else 0.0

    def flop_per_clk(self, device: Device) -> float:
        """Matrix rate of a compute unit for the operand type.

        Raises:
            GemmError: if the device has no instruction for it.
        """
        matrix = device.matrix
        rates = {
            "bf16": matrix.f16,
            "f16": matrix.f16,
            "fp8": max(matrix.f8, matrix.f8f6f4_8bit or 0.0),
            "mxfp8": matrix.f8f6f4_8bit,
            "mxfp4": matrix.f8f6f4_small,
        }
        rate = rates[self.dtype]
        if not rate:
            known = ", ".join(name for name, value in rates.items() if value)
            raise GemmError(f"{device.title} multiplies no {self.dtype} operands; it does {known}")
        return rate
