"""Executes launches and keeps what they executed and moved: the slow half, done once for a code object and geometry."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from fills import make_array
from programs import Array, Launch, Source

import wavecast.simulator
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import simulate_launch
from wavecast.simulator.traffic import Traffic

# Sections of a device that decide what a launch moves; their constants without a range do, the others price it.
_MOVING_SECTIONS = ("compute", "lds", "l1", "l2", "mall")
# Stages that execute and count. A change of the timing keeps what was observed, and code has a hash of its own.
_STAGES = ("execute", "program", "traffic")


@dataclass(frozen=True, slots=True)
class Observation:
    """What a launch executed and moved.

    Attributes:
        key: Hash of everything it depends on.
        execution: Executed counts; holds the kernel.
        traffic: Its traffic.
    """

    key: str
    execution: Execution
    traffic: Traffic


class Store:
    """Observations on disk, a file each.

    Args:
        folder: Where; made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, key: str) -> bool:
        return self._path(key).is_file()

    def load(self, key: str) -> Observation:
        return pickle.loads(self._path(key).read_bytes())

    def save(self, observation: Observation) -> None:
        """Write at once, so that another process never reads half a file."""
        handle, name = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(handle, "wb") as file:
            pickle.dump(observation, file)
        Path(name).rename(self._path(observation.key))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.pickle"


def key_of(launch: Launch, device: Device) -> str:
    """Hash of code, geometry, arguments, the device's caches, and the code that executes and counts."""
    caches = [
        f"{name}={quantity.value!r}"
        for name, quantity in sorted(device.quantities.items())
        if name.split(".")[0] in _MOVING_SECTIONS and not quantity.is_uncertain
    ]
    parts = [code_object(launch.source, device.arch).digest, launch.description, *caches, _stages_digest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


@functools.cache
def _stages_digest() -> str:
    digest = hashlib.sha256()
    root = Path(wavecast.simulator.__path__[0])
    stages = sorted(path for stage in _STAGES for path in (root / stage).rglob("*.py"))
    for path in (*stages, root / "launch.py", Path(__file__).with_name("fills.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def code_object(source: Source, arch: str) -> CodeObject:
    """Compile a kernel.

    Raises:
        ValueError: The file has no such kernel.
    """
    for code in _code_objects(source.path, source.definitions, arch):
        # A kernel without C linkage carries the length of its name and the types of its parameters.
        if code.name == source.kernel or code.name.startswith(f"_Z{len(source.kernel)}{source.kernel}"):
            return code
    raise ValueError(f"{source.path} has no kernel {source.kernel!r}")


@functools.cache
def _code_objects(path: Path, definitions: tuple[str, ...], arch: str) -> tuple[CodeObject, ...]:
    options = [f"-D{definition}" for definition in definitions]
    return compile_hip(device_code(path.read_text()), arch=arch, options=options)


def device_code(text: str) -> str:
    """A benchmark's file without its host code and includes, line numbers kept."""
    lines = text.partition("\nint main(")[0].splitlines()
    return "\n".join("" if line.startswith("#include") else line for line in lines) + "\n"


def execute(launch: Launch, device: Device) -> Observation:
    """Execute enough of the launch to know what the whole of it executes and moves."""
    memory = AddressSpace()
    addresses = {array: memory.map_array(make_array(array), array.name) for array in launch.arrays}
    result = simulate_launch(
        code_object(launch.source, device.arch),
        grid=launch.grid,
        block=launch.block,
        lds_bytes=launch.lds_bytes,
        arguments=[addresses[entry] if isinstance(entry, Array) else entry for entry in launch.arguments],
        memory=memory,
        device=device,
        workgroups="sample",
    )
    return Observation(key_of(launch, device), result.execution, result.traffic)


def observe(
    launches: Iterable[tuple[Launch, str]],
    store: Store,
    *,
    jobs: int = 1,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> dict[tuple[Launch, str], str]:
    """Have launches executed on devices, as far as the store does not have them.

    Args:
        launches: Launches, each with the name of its device.
        store: Where observations are kept.
        jobs: Processes that execute.
        progress: Called with how many of the missing ones are done, how many there are, and the last one's kernel.

    Returns:
        The store's key for each.
    """
    wanted = {pair: key_of(pair[0], load_device(pair[1])) for pair in dict.fromkeys(launches)}
    missing = {key: pair for pair, key in wanted.items() if key not in store}
    _execute_all(list(missing.values()), store, jobs, progress)
    return wanted


def _execute_on(launch: Launch, name: str) -> Observation:
    return execute(launch, load_device(name))


def _execute_all(
    pairs: Sequence[tuple[Launch, str]], store: Store, jobs: int, progress: Callable[[int, int, str], None]
) -> None:
    if jobs == 1 or len(pairs) < 2:
        for done, (launch, name) in enumerate(pairs):
            progress(done, len(pairs), launch.source.kernel)
            store.save(execute(launch, load_device(name)))
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(_execute_on, launch, name): launch for launch, name in pairs}
        for done, future in enumerate(as_completed(running)):
            store.save(future.result())
            progress(done + 1, len(pairs), running[future].source.kernel)
