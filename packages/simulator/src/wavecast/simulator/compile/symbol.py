"""What a mangled symbol says of a kernel: its name in the source, and the types of its arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def source_name(symbol: str) -> str:
    """Name in the source, ``math::scale``, without template arguments; the symbol itself where it is not mangled."""
    function = _demangled(symbol)
    if function is None:
        return symbol
    name = function.name
    parts = [node.value for node in (name.value if name.kind == "qual_name" else (name,)) if node.kind == "name"]
    return "::".join(parts) or symbol


def argument_types(symbol: str) -> tuple[str, ...] | None:
    """C++ types of the arguments, ``("float const*", "int")``; None where the symbol is not mangled."""
    function = _demangled(symbol)
    if function is None:
        return None
    types = tuple(str(kind) for kind in function.arg_tys)
    return () if types == ("void",) else types


@lru_cache(maxsize=256)
def _demangled(symbol: str) -> Any:
    from itanium_demangler import parse

    try:
        function = parse(symbol)
    except Exception:
        # Types that the demangler does not know, such as _Float16, raise whatever its tables raise.
        return None
    return function if getattr(function, "kind", None) == "func" else None
