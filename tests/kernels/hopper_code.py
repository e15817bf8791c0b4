"""What the tests share that compile kernels for sm_90 and its tensor memory accelerator, without a GPU."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def tensor_descriptor(dtype: str, bits: int, rows: int, columns: int) -> str:
    """Type of a descriptor of blocks of so many rows and columns."""
    from triton.experimental.gluon.language import NVMMASharedLayout

    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=bits, rank=2)
    return f"tensordesc<{dtype}[{rows}, {columns}],{layout!r}>"


def compiled_for_hopper(
    kernel: Any, constants: dict[str, Any], types: dict[str, str], *, divisible: Collection[str] = ()
) -> Any:
    """A Gluon kernel, compiled for sm_90 with 4 warps.

    Args:
        kernel: the kernel.
        constants: values of constexprs.
        types: of arguments other than int32.
        divisible: arguments of which a launch would find that they are multiples of 16.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    source = GluonASTSource(kernel, signature, {(names.index(k),): v for k, v in constants.items()}, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
