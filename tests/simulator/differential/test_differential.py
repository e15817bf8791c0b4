"""The engine against clang: one C function, compiled for the GPU and for this CPU, must write the same bytes.

Per-opcode tests compare an instruction with semantics that someone wrote down from the ISA text; whoever misreads the
text twice passes them. Here nobody writes semantics down. A seeded generator (``functions.py``, ``statements.py``,
``expressions.py``) makes C functions whose result is defined for every input: integers of 8 to 64 bits, half, single
and double precision and pairs of them, conversions, divisions and square roots (which both processors round
correctly), bit operations, loops and branches that lanes take differently, local arrays in registers, scratch or LDS,
LDS between barriers, atomics. The clang of the ``ziglang`` wheel compiles each for gfx942 or gfx950, without ROCm, and
for this CPU. The kernel's assembly text runs on the engine, the CPU's code is called through ``ctypes``, over the same
values: small numbers, any bits, and the edges of each type. Every array must be equal byte for byte afterwards; NaNs
are equal to each other, since their bits differ between processors.

What is not asked for, because C or the hardware leaves it open or clang itself changes it, is kept out by the helpers
in ``prelude.h``, which say so: which zero a minimum of -0 and +0 is, the sign of a zero product that becomes half
precision, and 0 - x as an operand. Contraction is off: a fused multiply-add is there only where the text has it.

``WAVECAST_DIFFERENTIAL_FUNCTIONS=2000 pytest tests/simulator/differential`` runs that many functions instead of
``DEFAULT_FUNCTIONS``. A failure names the seed; ``generate(seed).source`` is the C text. In thousands of functions one
or two fail because clang 22 is wrong: its control-flow structurizer gives a lane the value of a switch case that it did
not take (llvm/llvm-project pull request 183792 mends one form). Code of -O0 then agrees, and the message says so.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.errors import SimulatorError
from wavecast.simulator.execute.engine import Engine

from .comparison import Batch, build, compile_for_gpu, differences, on_cpu, on_engine
from .functions import Function, generate
from .toolchain import why_not

pytestmark = [pytest.mark.execute, pytest.mark.skipif(bool(why_not()), reason=why_not() or "compiles")]

DEFAULT_FUNCTIONS = 24
FUNCTIONS = int(os.environ.get("WAVECAST_DIFFERENTIAL_FUNCTIONS", DEFAULT_FUNCTIONS))
BATCH = 8
ARCHITECTURES = ("gfx942", "gfx950")
LEVELS = ("1", "2", "3", "s")
# Distinct opcodes that the default functions execute; there are about 340.
EXPECTED_OPCODES = 300

_batches: dict[int, Batch] = {}
_executed: set[str] = set()


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differential")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("first", range(0, FUNCTIONS, BATCH))
def test_engine_and_cpu_write_the_same_bytes(engine: Engine, directory: Path, first: int, arch: str) -> None:
    batch = _batches.get(first)
    if batch is None:
        batch = _batches[first] = build(
            map(generate, range(first, min(first + BATCH, FUNCTIONS))), directory / str(first)
        )
    level = LEVELS[(first // BATCH + ARCHITECTURES.index(arch)) % len(LEVELS)]
    text = compile_for_gpu(batch, arch, level)
    problems = []
    for function in batch.functions:
        try:
            actual, executed = on_engine(engine, function, text)
        except SimulatorError as error:
            problems.append(f"seed {function.seed}: {type(error).__name__}: {error}")
            continue
        _executed.update(executed)
        found = differences(function, on_cpu(batch, function), actual)
        problems += [f"seed {function.seed}: {line}" for line in found]
        if found and not differences(
            function, on_cpu(batch, function), _without_optimisation(engine, batch, function, arch)
        ):
            problems.append(f"seed {function.seed}: code of -O0 agrees with the CPU: look at clang's optimiser first")
    assert not problems, f"{arch}, -O{level}:\n" + "\n".join(problems)


def _without_optimisation(engine: Engine, batch: Batch, function: Function, arch: str) -> list[np.ndarray]:
    return on_engine(engine, function, compile_for_gpu(batch, arch, "0"))[0]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_code_that_is_not_optimised(engine: Engine, directory: Path, arch: str) -> None:
    """Variables live in scratch and are reached by flat addresses; scalar registers are spilled to lanes."""
    first = 200_000
    batch = _batches.get(first) or build(map(generate, range(first, first + 2)), directory / str(first))
    _batches[first] = batch
    text = compile_for_gpu(batch, arch, "0")
    for function in batch.functions:
        actual, executed = on_engine(engine, function, text)
        assert not differences(function, on_cpu(batch, function), actual), f"seed {function.seed}"
        assert "flat_store_dword" in executed


def test_the_functions_execute_many_opcodes() -> None:
    """A generator that lost its variety would still pass; runs after the functions, whose opcodes it counts."""
    if FUNCTIONS < DEFAULT_FUNCTIONS or set(range(0, DEFAULT_FUNCTIONS, BATCH)) - _batches.keys():
        pytest.skip("not all of the default functions ran in this process")
    assert len(_executed) > EXPECTED_OPCODES


def test_a_seed_gives_the_same_function() -> None:
    assert generate(5) == generate(5)
    assert generate(5).source != generate(6).source


def test_a_changed_result_is_noticed(engine: Engine, directory: Path) -> None:
    """The comparison can fail: one flipped bit of one number names its array."""
    batch = build([generate(100_000)], directory / "changed")
    function = batch.functions[0]
    expected, actual = on_cpu(batch, function), on_cpu(batch, function)
    assert not differences(function, expected, actual)
    changed = 0
    for array in actual:
        numbers = np.flatnonzero(~np.isnan(array))
        if numbers.size:
            array.view(f"u{array.dtype.itemsize}")[numbers[-1]] ^= 1
            changed += 1
    assert changed and len(differences(function, expected, actual)) == changed
