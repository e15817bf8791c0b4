"""How long compilations took, kept beside what they made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FILE = "wavecast.compile_seconds"


@contextmanager
def noted_compile_times() -> Iterator[None]:
    """Note the time of every compilation inside the context in Triton's cache; a listener that is there still hears."""
    from triton import knobs

    before = knobs.compilation.listener

    def listener(**event: Any) -> None:
        if before is not None:
            before(**event)
        if not event["cache_hit"]:
            _cache(event["metadata"]["hash"]).put(f"{event['times'].total / 1e6}", _FILE, binary=False)

    knobs.compilation.listener = listener
    try:
        yield
    finally:
        knobs.compilation.listener = before


def compile_seconds(kernel_hash: str) -> float | None:
    """Seconds that compiling a kernel took when it was compiled, on the machine that did it; None if not noted.

    Args:
        kernel_hash: ``hash`` of what ``triton.compile`` returned.
    """
    path = _cache(kernel_hash).get_file(_FILE)
    return float(Path(path).read_text(encoding="utf-8")) if path else None


def _cache(kernel_hash: str) -> Any:
    from triton.runtime.cache import get_cache_manager

    return get_cache_manager(kernel_hash)
