"""Compiled loops are stale as soon as any source of the simulator changes."""

from __future__ import annotations

from wavecast.simulator import compiled
from wavecast.simulator.execute import driver


@compiled.compiled
def doubled(value: int) -> int:
    return 2 * value


def test_a_compiled_function_computes_the_same() -> None:
    assert doubled(21) == doubled.py_func(21) == 42


def test_the_cache_depends_on_all_sources() -> None:
    digest = compiled.sources_digest()
    assert len(digest) == 64
    for function in (doubled, driver.run):
        # What numba compares with the stamp in its index before it loads anything.
        assert function._cache._cache_file._source_stamp == digest
