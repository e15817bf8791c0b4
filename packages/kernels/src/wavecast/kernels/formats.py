"""The FP8 formats: one frozen description of each, so that no other module writes a maximum or a NaN byte.

Sources: OCP "8-bit Floating Point Specification (OFP8)" rev. 1.0 for E4M3FN and E5M2; Graphcore, AMD and Qualcomm's
"FNUZ" encodings as documented in the AMD Instinct MI300 (CDNA3) ISA guide and LLVM's ``APFloat`` semantics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import torch


@dataclass(frozen=True)
class Fp8Format:
    """One 8-bit floating point encoding.

    Attributes:
        name: the name that messages and records use, e.g. ``"e4m3fnuz"``.
        dtype: the torch dtype.
        triton_name: attribute of ``triton.language`` that holds the Triton dtype.
        max: largest finite value; in a format made by `limited_to`, the largest that is used.
        nan_bytes: every byte that is a NaN.
        has_inf: whether an infinity can be encoded.
        has_negative_zero: whether byte 0x80 is -0 (otherwise it is the NaN).
        exponent_bits, mantissa_bits, exponent_bias: the layout of the byte.
        native_gfx: AMD architectures whose conversion instructions and matrix cores use this encoding.
        native_from_sm: NVIDIA compute capability (digits, 89 is 8.9) from which it is native; None if on none.
    """

    name: str
    dtype: torch.dtype
    triton_name: str
    max: float
    nan_bytes: tuple[int, ...]
    has_inf: bool
    has_negative_zero: bool
    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int
    native_gfx: tuple[str, ...]
    native_from_sm: int | None

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value."""
        return 2.0 ** (1 - self.exponent_bias)

    @property
    def min_subnormal(self) -> float:
        """Smallest positive value."""
        return 2.0 ** (1 - self.exponent_bias - self.mantissa_bits)

    @property
    def triton_dtype(self) -> Any:
        """The ``triton.language`` dtype; Triton is imported on first use only."""
        import triton.language as tl

        return getattr(tl, self.triton_name)

    def limited_to(self, maximum: float) -> Fp8Format:
        """This encoding, of which scales and clamps use values up to ``maximum`` only.

        For codes that others read in another encoding: with 224 instead of 240, no value of e4m3fnuz has the byte 7F,
        which is NaN in e4m3fn. The name says the limit, so that messages and records do: ``e4m3fnuz-max224``.

        Args:
            maximum: a value of the format, positive and at most its largest.

        Raises:
            ValueError: ``maximum`` is none.
        """
        limit = torch.tensor(float(maximum))
        if not 0 < maximum <= self.max or limit.to(self.dtype).float() != limit:
            raise ValueError(
                f"maximum {maximum!r} is no value of {self.name}; wanted is one that it encodes exactly, from "
                f"{self.min_subnormal:g} to {self.max:g}"
            )
        if maximum == self.max:
            return self
        return replace(self, name=f"{self.name.split(_LIMIT)[0]}{_LIMIT}{maximum:.17g}", max=float(maximum))

    def is_native_on(self, arch: str) -> bool:
        """Whether ``arch`` (for example ``"gfx942"``) converts to and multiplies this format in hardware."""
        if arch.startswith("sm_"):
            return self.native_from_sm is not None and int(arch.removeprefix("sm_")) >= self.native_from_sm
        return arch in self.native_gfx


_LIMIT = "-max"
"""Stands between the name of an encoding and its limit."""

_ADA = 89
"""First NVIDIA compute capability with FP8 conversions: 8.9 (PTX ISA, ``cvt.rn.satfinite.e4m3x2``)."""

E4M3FN = Fp8Format(
    name="e4m3fn",
    dtype=torch.float8_e4m3fn,
    triton_name="float8e4nv",
    max=448.0,
    nan_bytes=(0x7F, 0xFF),
    has_inf=False,
    has_negative_zero=True,
    exponent_bits=4,
    mantissa_bits=3,
    exponent_bias=7,
    native_gfx=("gfx950",),
    native_from_sm=_ADA,
)

E4M3FNUZ = Fp8Format(
    name="e4m3fnuz",
    dtype=torch.float8_e4m3fnuz,
    triton_name="float8e4b8",
    max=240.0,
    nan_bytes=(0x80,),
    has_inf=False,
    has_negative_zero=False,
    exponent_bits=4,
    mantissa_bits=3,
    exponent_bias=8,
    native_gfx=("gfx942",),
    native_from_sm=None,
)

E5M2 = Fp8Format(
    name="e5m2",
    dtype=torch.float8_e5m2,
    triton_name="float8e5",
    max=57344.0,
    nan_bytes=(0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF),
    has_inf=True,
    has_negative_zero=True,
    exponent_bits=5,
    mantissa_bits=2,
    exponent_bias=15,
    native_gfx=("gfx950",),
    native_from_sm=_ADA,
)

E5M2FNUZ = Fp8Format(
    name="e5m2fnuz",
    dtype=torch.float8_e5m2fnuz,
    triton_name="float8e5b16",
    max=57344.0,
    nan_bytes=(0x80,),
    has_inf=False,
    has_negative_zero=False,
    exponent_bits=5,
    mantissa_bits=2,
    exponent_bias=16,
    native_gfx=("gfx942",),
    native_from_sm=None,
)

FORMATS: tuple[Fp8Format, ...] = (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ)


def format_of(dtype: torch.dtype) -> Fp8Format:
    """The format that a torch dtype encodes.

    Raises:
        ValueError: ``dtype`` is not one of the four FP8 dtypes.
    """
    for fmt in FORMATS:
        if fmt.dtype == dtype:
            return fmt
    known = ", ".join(str(fmt.dtype) for fmt in FORMATS)
    raise ValueError(f"dtype {dtype} is not an FP8 dtype; use one of {known}")


def format_named(name: str) -> Fp8Format:
    """The format called ``name`` (``"e4m3fn"``, ``"e4m3fnuz"``, ``"e5m2"``, ``"e5m2fnuz"``).

    With a limit, as `Fp8Format.limited_to` names it (``"e4m3fnuz-max224"``), the format so limited.

    Raises:
        ValueError: no format has this name.
    """
    encoding, limited, limit = name.partition(_LIMIT)
    for fmt in FORMATS:
        if fmt.name == encoding and not limited:
            return fmt
        if fmt.name == encoding and re.fullmatch(r"\d+(\.\d+)?", limit):
            return fmt.limited_to(float(limit))
    known = ", ".join(fmt.name for fmt in FORMATS)
    raise ValueError(f"FP8 format {name!r} is not known; use one of {known}")
