"""Triton kernels to code objects, on a machine that needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.cubin import assembler_report
from wavecast.simulator.compile.machine_code import machine_code
from wavecast.simulator.compile.toolchain import pinned_toolchain, toolchain_name
from wavecast.simulator.errors import CompileError, UnknownDeviceError

AMD_ARCHITECTURES = ("gfx942", "gfx950")
NVIDIA_ARCHITECTURES = ("sm_90",)
WAVE_SIZE, WARP_SIZE = 64, 32
ARCHITECTURES = (*AMD_ARCHITECTURES, *NVIDIA_ARCHITECTURES)
# What Triton calls the text that is executed here, and how its cached file ends.
AMD_TEXT, NVIDIA_TEXT = "amdgcn", "ptx"


def compile_kernel(
    fn: Any,
    *,
    signature: Mapping[str, str],
    arch: str,
    constexprs: Mapping[str, Any] | None = None,
    attrs: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> CodeObject:
    """Compile a ``@triton.jit`` function for one architecture.

    Args:
        fn: The function.
        signature: Argument name to type in Triton's spelling (``*bf16``, ``i32``, ``fp32``), in any order; arguments
            that ``constexprs`` gives can be left out.
        arch: ``gfx942``, ``gfx950`` or ``sm_90``.
        constexprs: Values of ``tl.constexpr`` arguments, and of arguments specialised to a constant. Defaults of the
            function hold for those that are not given.
        attrs: What is known of an argument, in the letters of Triton's launcher: ``D``, a multiple of 16 (pointer:
            16-byte aligned); ``S``, a pointer whose buffer is smaller than 2 GiB; ``DS``, both.
        options: Compiler options, ``{"num_warps": 8, "num_stages": 2}``.

    Returns:
        The code object. A second call with the same content reads it from the compiler's cache.

    Raises:
        UnknownDeviceError: ``arch`` is not one of these.
        CompileError: The arguments do not fit the function, or Triton rejects it; the cause is chained.
    """
    if arch not in ARCHITECTURES:
        raise UnknownDeviceError(
            f"architecture {arch!r} is not known to the Triton compiler of this project",
            hint=f"use one of {', '.join(ARCHITECTURES)}",
        )
    import triton.compiler

    name = getattr(fn, "__name__", repr(fn))
    if not hasattr(fn, "arg_names"):
        raise CompileError(f"{name} is not a Triton kernel", hint="decorate the function with @triton.jit")
    values = _constants(fn, constexprs or {})
    types = _signature(fn, signature, values, arch)
    target = target_of_arch(arch)
    try:
        parse = triton.compiler.make_backend(target).parse_attr
        known = {(fn.arg_names.index(argument),): parse(letters) for argument, letters in (attrs or {}).items()}
        with pinned_toolchain():
            source = triton.compiler.ASTSource(fn, types, values, known)
            compiled = triton.compiler.compile(source, target=target, options=dict(options or {}))
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        raise CompileError(
            f"{name} does not compile for {arch} with {toolchain_name()}: {reason}",
            hint="the compiler's own error is chained as the cause; what its passes say goes to the standard error",
        ) from error
    return code_object(compiled)


def code_object(compiled: Any) -> CodeObject:
    """The code object in what ``triton.compile`` returns.

    Raises:
        CompileError: It holds no AMDGCN assembly and no PTX, so it was compiled for another backend or its text was not
            kept.
    """
    for text, binary in ((AMD_TEXT, None), (NVIDIA_TEXT, "cubin")):
        if text in compiled.asm:
            return code_object_of(compiled.metadata, compiled.asm[text], compiled.asm[binary] if binary else None)
    raise CompileError(
        f"{compiled.name} has no AMDGCN assembly and no PTX, only {', '.join(sorted(compiled.asm)) or 'nothing'}",
        hint=f"compile for one of {', '.join(ARCHITECTURES)}, with TRITON_STORE_BINARY_ONLY unset",
    )


def code_object_of(metadata: Any, assembly: str, binary: bytes | None = None) -> CodeObject:
    """The code object of a compiled kernel.

    Args:
        metadata: What Triton says of it.
        assembly: AMDGCN assembly or PTX.
        binary: Of PTX, what NVIDIA's assembler made of it, which knows registers, order and instructions.
    """
    report = None if binary is None else assembler_report(binary, metadata.name)
    return CodeObject(
        name=metadata.name,
        arch=arch_of_target(metadata.target),
        assembly=assembly,
        toolchain=toolchain_name(),
        num_warps=metadata.num_warps,
        lds_bytes=metadata.shared,
        registers=report.registers if report else 0,
        stack_bytes=report.stack_bytes if report else 0,
        machine=() if binary is None else machine_code(binary, metadata.name),
    )


def target_of_arch(arch: str) -> Any:
    """Triton's ``GPUTarget`` of an architecture."""
    from triton.backends.compiler import GPUTarget

    if arch in NVIDIA_ARCHITECTURES:
        return GPUTarget("cuda", int(arch.removeprefix("sm_")), WARP_SIZE)
    return GPUTarget("hip", arch, WAVE_SIZE)


def arch_of_target(target: Any) -> str:
    """The architecture of a ``GPUTarget``."""
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)


def _constants(fn: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Constexpr values by argument name: those given, and the defaults of the others."""
    unknown = [argument for argument in given if argument not in fn.arg_names]
    if unknown:
        raise CompileError(
            f"{fn.__name__} has no argument {', '.join(unknown)}", hint=f"it has {', '.join(fn.arg_names)}"
        )
    values = {
        parameter.name: parameter.default
        for parameter in fn.params
        if parameter.is_constexpr and parameter.has_default and parameter.name not in given
    }
    values.update(given)
    missing = [parameter.name for parameter in fn.params if parameter.is_constexpr and parameter.name not in values]
    if missing:
        raise CompileError(
            f"{fn.__name__} needs a value for its constexpr {', '.join(missing)}", hint="give it in constexprs"
        )
    return values


def _signature(fn: Any, given: Mapping[str, str], values: Mapping[str, Any], arch: str) -> dict[str, str]:
    """Types in the order of the arguments, constants marked as the compiler wants them."""
    missing = [argument for argument in fn.arg_names if argument not in given and argument not in values]
    unknown = [argument for argument in given if argument not in fn.arg_names]
    if missing or unknown:
        raise CompileError(
            f"{fn.__name__} for {arch}: "
            + "; ".join(
                f"{what} {', '.join(names)}"
                for what, names in (("no type for argument", missing), ("no such argument", unknown))
                if names
            ),
            hint=f"its arguments are {', '.join(fn.arg_names)}",
        )
    return {argument: "constexpr" if argument in values else given[argument] for argument in fn.arg_names}
