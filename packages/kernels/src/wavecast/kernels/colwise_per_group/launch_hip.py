"""The column-wise quantizer per group in HIP: what it takes, and its launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.hip.compiler import HIP_ARCHITECTURES
from wavecast.kernels.hip.kernel import FLOAT, INT32, POINTER, HipKernel
from wavecast.kernels.reference_ops import EPS

SOURCE = Path(__file__).with_name("colwise_per_group.hip")
THREADS, COLUMNS, PIECE_ROWS = 512, 64, 512
"""Work-items of a workgroup, its columns, and the rows that it loads at once, as in the source."""

CHUNK = 8
"""Rows that a lane stores, and columns that it loads, at once."""

ALIGNMENT_BYTES = 16
NAMES = {torch.bfloat16: "colwise_per_group_bf16", torch.float16: "colwise_per_group_f16"}
PARAMETERS = (
    *((name, POINTER) for name in ("x", "offs", "out", "scale", "inverse")),
    *((name, INT32) for name in ("tokens", "columns", "row_bytes", "groups")),
    *((name, FLOAT) for name in ("largest", "eps")),
    ("power_of_two", INT32),
)


def hip_obstacle(x: torch.Tensor, fmt: Fp8Format, arch: str | None) -> str | None:
    """What the kernel in HIP cannot do of a call, with the way out; None if it can do it."""
    tokens, columns = x.shape
    stride = x.stride(0)
    obstacles: tuple[tuple[bool, Callable[[], str]], ...] = (
        (arch not in HIP_ARCHITECTURES, lambda: f"it is for {' and '.join(HIP_ARCHITECTURES)}, got {arch}"),
        (x.dtype not in NAMES, lambda: f"x is {x.dtype}; it takes bfloat16 and float16"),
        (
            arch is not None and not fmt.is_native_on(arch),
            lambda: f"format {fmt.name} is not converted to by {arch}",
        ),
        ("e4m3" not in fmt.name, lambda: f"format {fmt.name} is not what it converts to; take E4M3"),
        (tokens % CHUNK != 0, lambda: f"x has {tokens} rows; it takes multiples of {CHUNK}"),
        (columns % CHUNK != 0, lambda: f"x has {columns} columns; it takes multiples of {CHUNK}"),
        (stride % CHUNK != 0, lambda: f"rows of x are {stride} elements apart; wanted is a multiple of {CHUNK}"),
        (
            x.data_ptr() % ALIGNMENT_BYTES != 0,
            lambda: f"x begins at no multiple of {ALIGNMENT_BYTES} bytes; call .clone()",
        ),
        (
            PIECE_ROWS * stride * x.element_size() > INT32_MAX,
            lambda: f"{PIECE_ROWS} rows have more than {INT32_MAX} bytes",
        ),
    )
    return next((message() for found, message in obstacles if found), None)


def launch_colwise_hip(
    x: torch.Tensor,
    offs: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    arch: str | None,
) -> None:
    """Launch the kernel into outputs that the caller has allocated; arguments are those of ``launch_colwise``.

    Raises:
        ValueError: the kernel cannot do it.
    """
    tokens, columns = x.shape
    obstacle = hip_obstacle(x, fmt, arch)
    if obstacle is not None:
        raise ValueError(f"the quantizer in HIP cannot do it: {obstacle}; or use colwise_per_group")
    if columns == 0:
        return
    HipKernel(SOURCE, NAMES[x.dtype], PARAMETERS, THREADS).launch(
        (-(-columns // COLUMNS), offs.numel(), 1),
        {
            "x": x,
            "offs": offs,
            "out": values,
            "scale": scale,
            "inverse": inverse,
            "tokens": tokens,
            "columns": columns,
            "row_bytes": x.stride(0) * x.element_size(),
            "groups": offs.numel(),
            "largest": fmt.max,
            "eps": EPS,
            "power_of_two": power_of_two,
        },
    )
