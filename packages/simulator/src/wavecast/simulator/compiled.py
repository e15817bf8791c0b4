"""Loops compiled by numba, and when a compiled one kept on disk is still good.

Numba's cache looks at the file a function stands in, but a compiled function also contains what it calls from other
files. In a checkout, where files change one by one, it would go on using old code. Here a change of any source of the
simulator makes all compiled loops stale.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function with numba on first use, without the GIL, and keep the result on disk."""
    return _kept(njit(nogil=True, cache=True, _nrt=True)(function))


def compiled_borrowing(function: Function) -> Function:
    """As ``compiled``, for loops that only look into arrays that their caller keeps alive.

    Otherwise every row or slice taken of an array counts a reference, atomically, which takes longer than what small
    loops do with it. Such a function cannot make arrays, nor take any from functions that do.
    """
    return _kept(njit(nogil=True, cache=True, _nrt=False)(function))


def compiled_inline(function: Function) -> Function:
    """As ``compiled``, for what is called in the innermost loops of others: it becomes part of its callers."""
    dispatcher = njit(nogil=True, forceinline=True)(function)
    return cast("Function", dispatcher)


def _kept(dispatcher: Any) -> Any:
    # Numba has no public way to say what a cached function depends on.
    dispatcher._cache._cache_file._source_stamp = sources_digest()
    return dispatcher


@functools.cache
def sources_digest() -> str:
    """Hash of all Python sources of the simulator."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
