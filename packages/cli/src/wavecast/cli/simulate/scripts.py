"""Programs that know nothing of the virtual device or node that they run on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from wavecast.cli.errors import misuse
from wavecast.cli.findings import CheckFinding
from wavecast.cli.rows import KernelRow
from wavecast.cli.simulate.findings import check_finding
from wavecast.cli.simulate.kernel_rows import kernel_row
from wavecast.cli.simulate.prediction import Prediction
from wavecast.cli.simulate.specs import device_names
from wavecast.cli.simulate.times import stream_times

if TYPE_CHECKING:
    from wavecast.simulator.devices import Device
    from wavecast.simulator.virtual import Launch, VirtualDevice
    from wavecast.simulator.virtual.node import VirtualNode


class ScriptLaunches:
    """The launches of a program, summed while they come: it may have very many.

    Args:
        spec: The device's specification.

    Attributes:
        device: Where they are launched, once it is active.
    """

    def __init__(self, spec: Device) -> None:
        self._spec = spec
        self._rows: dict[tuple[str, tuple[int, ...]], KernelRow] = {}
        self._codes: dict[int, tuple[object, str]] = {}
        self.device: VirtualDevice | None = None

    def add(self, launch: Launch) -> None:
        """Take the next launch; the first of all pays for waking an idle queue.

        The interval is that of the first launch of its kind, in proportion: it takes a hundred times as long as a time.
        """
        # By identity, as hashing the text of a code object takes longer than its launch; it is kept for that.
        code = launch.code_object
        if id(code) not in self._codes:
            self._codes[id(code)] = code, code.digest
        key = (self._codes[id(code)][1], launch.grid)
        known = self._rows.get(key)
        if known is not None:
            self._rows[key] = _with_launch(known, launch)
            return
        time = launch.result.time if self._rows else stream_times([launch], self._spec)[0]
        self._rows[key] = kernel_row([(launch, time)])

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """What checks found in them."""
        return () if self.device is None else tuple(map(check_finding, self.device.findings))

    def prediction(self) -> Prediction:
        """All of them, in one stream."""
        from wavecast.simulator.compile.toolchain import toolchain_name

        rows = tuple(self._rows.values())
        return Prediction(
            arch=self._spec.arch,
            spec=self._spec.digest,
            triton=toolchain_name().removeprefix("triton "),
            kernels=rows,
            time_us=sum(row.predicted_us or 0.0 for row in rows),
            low_us=sum(row.predicted_low_us or 0.0 for row in rows),
            high_us=sum(row.predicted_high_us or 0.0 for row in rows),
        )


def _with_launch(row: KernelRow, launch: Launch) -> KernelRow:
    traffic = launch.result.traffic
    before = row.predicted_us or 0.0
    time_us = before + launch.result.predicted_us
    grown = time_us / before if before else 1.0
    return replace(
        row,
        launches=row.launches + 1,
        predicted_us=time_us,
        predicted_low_us=(row.predicted_low_us or 0.0) * grown,
        predicted_high_us=(row.predicted_high_us or 0.0) * grown,
        hbm_read_bytes=(row.hbm_read_bytes or 0.0) + traffic.hbm_read_bytes,
        hbm_write_bytes=(row.hbm_write_bytes or 0.0) + traffic.hbm_write_bytes,
        fence_release=(row.fence_release or 0.0) + traffic.release_fences,
        fence_acquire=(row.fence_acquire or 0.0) + traffic.acquire_fences,
    )


class TakesLaunches(Protocol):
    """What is told of every launch of a program.

    Attributes:
        device: Where they are launched, once it is active.
    """

    device: VirtualDevice | None

    def add(self, launch: Launch) -> None:
        """Take the next launch."""


Launches = TypeVar("Launches", bound=TakesLaunches)


@contextmanager
def script_device(
    device: str,
    launches_on: Callable[[Device], Launches],
    *,
    torch_has_it: bool,
    sample: bool = False,
    check: bool = False,
) -> Iterator[Launches]:
    """A virtual device for a program that knows nothing of it.

    Args:
        device: Name of the device.
        launches_on: Makes of the device's specification what is told of the launches.
        torch_has_it: torch is there, and gets the device as its GPU.
        sample: ``do_bench`` executes a sample of each grid.
        check: Look for faults in every launch; what is told of the launches finds them on its ``device``.
    """
    from wavecast.simulator.checks import CheckWarning
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.virtual import virtual_device

    launches = launches_on(load_device(device))
    with virtual_device(device, record=launches.add, check=check) as virtual, ExitStack() as stack:
        launches.device = virtual
        virtual.benchmarked_workgroups = "sample" if sample else None
        if torch_has_it:
            from wavecast.cli.virtual_torch.patch import torch_on

            stack.enter_context(torch_on(virtual))
        if check:
            # They come in a list of their own.
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", CheckWarning)
        if check and torch_has_it:
            from wavecast.cli.virtual_torch.memory import marked_allocations

            stack.enter_context(marked_allocations())
        yield launches


class ScriptNode:
    """A virtual node for a program of several ranks that knows nothing of it.

    Args:
        node: The node.

    Attributes:
        arch: Architecture of its devices.
    """

    def __init__(self, node: VirtualNode) -> None:
        self._node = node
        self.arch = node.spec.arch

    def run(self, program: Callable[[int], None]) -> None:
        """Call ``program(rank)`` for every rank, under a torch whose GPUs are the node's.

        Raises:
            SimulatorError: Programs and devices wait for each other, or a kernel did something wrong.
            Exception: What a program raised first.
        """
        from wavecast.cli.virtual_torch.ranks import RankTorch, run_program

        run_program(RankTorch(self._node), self._node, program)

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """What the check found."""
        return tuple(map(check_finding, self._node.findings))

    def activities(self) -> list[tuple[str, str, int, int, int]]:
        """Kind, name, ranks, count and bytes of what streams executed, in the order of their first end."""
        found: dict[tuple[str, str], list[Any]] = {}
        for step in self._node.history:
            if step.is_end:
                name = step.operation if step.kind == "kernel" else step.kind
                entry = found.setdefault((step.kind, name), [set(), 0, 0])
                entry[0].add(step.rank)
                entry[1] += 1
                entry[2] += step.nbytes
        return [(kind, name, len(ranks), count, size) for (kind, name), (ranks, count, size) in found.items()]


@contextmanager
def script_node(device: str, ranks: int, seed: int, *, check: bool = False) -> Iterator[ScriptNode]:
    """A virtual node for a program of several ranks.

    Args:
        device: Name of every device.
        ranks: How many there are.
        seed: Draws the interleaving.
        check: Look for reads without an acquire.

    Raises:
        CliError: Of the device it is not known how several are joined.
    """
    from wavecast.simulator.devices import load_device
    from wavecast.simulator.virtual.node import NodeOptions, virtual_node

    if load_device(device).link is None:
        known = ", ".join(name for name in device_names() if load_device(name).link is not None)
        raise misuse(f"nothing is known of how several {device} are joined", hint=f"take one of {known}")
    with virtual_node(device, ranks, seed, options=NodeOptions(check=check)) as node:
        yield ScriptNode(node)
