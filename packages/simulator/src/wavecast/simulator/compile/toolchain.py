"""The state of Triton's compiler that a code object depends on, held fixed while the simulator compiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import platformdirs

from wavecast.simulator.compile.compile_time import noted_compile_times

FUSION_VARIABLE = "TRITON_DEFAULT_FP_FUSION"
CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TRITON_HOME")


@lru_cache(maxsize=1)
def toolchain_name() -> str:
    """Compiler and version that new code objects carry, ``triton 3.7.1``."""
    import triton

    return f"triton {triton.__version__}"


def triton_cache_directory() -> Path | None:
    """Where compiled kernels are kept: the user's cache directory, or None if the environment already says where.

    Triton's own cache is used, because its key covers what a code object depends on: the compiler's files, source,
    globals, types, options and target. A kernel found there costs about a millisecond.
    """
    if any(os.environ.get(name) for name in CACHE_VARIABLES):
        return None
    return Path(platformdirs.user_cache_dir("wavecast", appauthor=False)) / "triton"


@contextmanager
def pinned_toolchain() -> Iterator[None]:
    """Hold the compiler's cache directory and its default for fused multiply-add inside the context.

    What compilations take is noted there too (``compile_seconds``).

    ``TRITON_DEFAULT_FP_FUSION`` is on where the user does not set it: Triton 3.6 to 3.9 have that default, newer ones
    warn that it will change, and a code object must not depend on it silently. A value that the user sets is kept.
    """
    from triton import knobs

    directory = triton_cache_directory()
    with knobs.cache.scope(), knobs.language.scope(), noted_compile_times():
        if directory is not None:
            knobs.cache.dir = str(directory)
        if os.environ.get(FUSION_VARIABLE) is None:
            knobs.language.default_fp_fusion = True
        yield
