"""Prints the budgets of the project as figures; asserts nothing about time.

``hatch run bench`` runs everything, ``hatch run bench help execution load driver check predict`` only what is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from workloads import WORKLOADS, Workload

ARCHITECTURE = "gfx942"
REPEATS = 5
RATE_BUDGETS = {"reduction": 50, "cast": 30, "matrix product": 15}


@dataclass(frozen=True)
class Figure:
    """One measured budget: ``better`` says on which side of the budget the figure should be."""

    name: str
    value: float
    unit: str
    better: str
    budget: float


class CountingObserver:
    """The cheapest observer: tracing is on, and nobody looks at the addresses."""

    def __init__(self) -> None:
        self.records = 0

    def consume(self, records: np.ndarray) -> None:
        self.records += len(records)


def seconds(
    function: Callable[[], Any], *, repeats: int = REPEATS, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Shortest of several runs: what the code costs without what else the machine does."""
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def command(*words: str, environment: dict[str, str] | None = None) -> None:
    """Run the command line in a process of its own, its output thrown away."""
    run = subprocess.run(
        [sys.executable, "-m", "wavecast.cli", *words],
        stdout=subprocess.DEVNULL,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if run.returncode:
        raise SystemExit(f"wavecast {' '.join(words)} exited with {run.returncode}")


def measure_help() -> Iterator[Figure]:
    """Time to the help text."""
    yield Figure("--help", seconds(lambda: command("--help")), "s", "<=", 0.3)
    yield Figure("predict --help", seconds(lambda: command("predict", "--help")), "s", "<=", 0.3)


def measure_predict() -> Iterator[Figure]:
    """The default set with empty caches, and again."""
    with tempfile.TemporaryDirectory() as directory:
        caches = {"XDG_CACHE_HOME": directory, "NUMBA_CACHE_DIR": directory}
        yield Figure(
            "predict, nothing cached", seconds(lambda: command("predict", environment=caches), repeats=1), "s", "<=", 60
        )
        yield Figure(
            "predict, cached", seconds(lambda: command("predict", environment=caches), repeats=1), "s", "<=", 10
        )


def compiled(workload: Workload) -> Any:
    """The workload's kernel, parsed."""
    from wavecast.simulator.compile.triton import compile_kernel
    from wavecast.simulator.program.assembly import parse_assembly

    code = compile_kernel(
        workload.kernel,
        signature=workload.signature,
        arch=ARCHITECTURE,
        constexprs=workload.constexprs,
        attrs=dict.fromkeys(workload.aligned, "D"),
    )
    return code, parse_assembly(code.assembly, name=code.name, lds_bytes=code.lds_bytes)


def measure_execution() -> Iterator[Figure]:
    """Wave instructions a second of processor time on one core, with the address trace on."""
    from wavecast.simulator.execute.engine import Engine
    from wavecast.simulator.execute.memory import AddressSpace

    engine = Engine()
    for workload in WORKLOADS:
        _, kernel = compiled(workload)
        memory = AddressSpace()
        arguments = workload.arguments(lambda array, memory=memory: memory.map_array(array, "buffer"))
        # Triton adds pointers to scratch that these kernels do not use; how many depends on its version.
        explicit = sum(not argument.is_hidden for argument in kernel.arguments)
        arguments += [0] * (explicit - len(arguments))

        def execute(workload=workload, kernel=kernel, memory=memory, arguments=arguments, **options):
            options.setdefault("observer", CountingObserver())
            return engine.execute(kernel, grid=workload.grid, arguments=arguments, memory=memory, **options)

        count = int(execute().executed.sum())
        rate = count / seconds(execute, clock=time.process_time) / 1e6
        yield Figure(f"execution, {workload.name}", rate, "M wave instructions/s", ">=", RATE_BUDGETS[workload.name])


def measure_load() -> Iterator[Figure]:
    """Processor time of parsing and translating a kernel whose helpers are compiled, an instruction."""
    from wavecast.simulator.execute.engine import Engine
    from wavecast.simulator.program.assembly import parse_assembly

    engine = Engine()
    for workload in WORKLOADS:
        code, kernel = compiled(workload)
        engine.program(kernel)

        def load(code=code):
            engine.program(parse_assembly(code.assembly, name=code.name, lds_bytes=code.lds_bytes))

        per_instruction = seconds(load, clock=time.process_time) / len(kernel.instructions) * 1e6
        yield Figure(f"load, {workload.name}", per_instruction, "µs an instruction", "<=", 50)


def measure_driver() -> Iterator[Figure]:
    """Processor time of a launch of a small kernel beyond its execution: by the driver, and with traffic and time."""
    import torch
    from small_kernel import scale_kernel

    from wavecast.simulator.execute.engine import Engine
    from wavecast.simulator.virtual import virtual_device

    source, target = torch.zeros(1024), torch.zeros(1024)

    def launch():
        scale_kernel[(4,)](source, target, 1024, BLOCK=256)

    def per_launch_ms(function):
        function()
        return seconds(function, repeats=30, clock=time.process_time) * 1e3

    with virtual_device("mi300x", simulate=lambda *_, **__: None):
        yield Figure("launch, driver alone", per_launch_ms(launch), "ms", "<=", 1)
    with virtual_device("mi300x") as device:
        whole = per_launch_ms(launch)
        kernel, engine = device.launches[-1].result.kernel, Engine()
        explicit = sum(not argument.is_hidden for argument in kernel.arguments)
        values = [device.memory.device_pointer(tensor.data_ptr()) for tensor in (source, target)]
        arguments = [*values, 1024, 0, 0, 0][:explicit]

        def execute():
            engine.execute(
                kernel, grid=(4, 1, 1), arguments=arguments, memory=device.memory, observer=CountingObserver()
            )

        yield Figure("launch, with its traffic", whole - per_launch_ms(execute), "ms", "<=", 1)
        result = device.launches[-1].result
        yield Figure("its time", per_launch_ms(lambda: type(result).predicted_us.func(result)), "ms", "<=", 1)
        yield Figure("its interval and cause", per_launch_ms(lambda: type(result).time.func(result)), "ms", "<=", 1000)


def measure_check() -> Iterator[Figure]:
    """Processor time of a launch that is checked over that of one that is not, traffic included in both."""
    from wavecast.simulator.devices import load_device
    from wavecast.simulator.execute.memory import AddressSpace
    from wavecast.simulator.launch import simulate_launch

    device = load_device("mi300x")
    for workload in WORKLOADS:
        code, kernel = compiled(workload)
        memory = AddressSpace()
        arguments = workload.arguments(lambda array, memory=memory: memory.map_array(array, "buffer"))
        explicit = sum(not argument.is_hidden for argument in kernel.arguments)
        arguments += [0] * (explicit - len(arguments))

        def launch_s(check, workload=workload, code=code, memory=memory, arguments=arguments):
            def launch():
                simulate_launch(
                    code, grid=workload.grid, arguments=arguments, memory=memory, device=device, check=check
                )

            launch()
            return seconds(launch, repeats=2, clock=time.process_time)

        yield Figure(f"checked, {workload.name}", launch_s(True) / launch_s(False), "times unchecked", "<=", 10)


SECTIONS: dict[str, Callable[[], Iterator[Figure]]] = {
    "help": measure_help,
    "execution": measure_execution,
    "load": measure_load,
    "driver": measure_driver,
    "check": measure_check,
    "predict": measure_predict,
}


def main(names: list[str]) -> None:
    """Print one line a figure as soon as it is known."""
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise SystemExit(f"error: no section {unknown[0]!r}\n\nhint: possible: {', '.join(SECTIONS)}")
    print(f"{'what':28} {'figure':>9}  {'budget':>9}  unit")
    for name in names or SECTIONS:
        for figure in SECTIONS[name]():
            budget = f"{figure.better} {figure.budget:g}"
            print(f"{figure.name:28} {figure.value:9.3g}  {budget:>9}  {figure.unit}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
