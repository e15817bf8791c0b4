"""A node of several virtual devices in one process: what users call."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import triton

from wavecast.simulator.checks.finding import Finding
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.toolchain import pinned_toolchain
from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.errors import DeadlockError, LaunchError
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.engine import workgroup_shape
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import parsed_kernel, shared_engine
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.virtual.arguments import LaunchArgument
from wavecast.simulator.virtual.device import Launch, VirtualDevice
from wavecast.simulator.virtual.driver import VirtualDriver
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.acquire import AcquireCheck, CheckedCode
from wavecast.simulator.virtual.node.occupancy import ComputeUnits, need_of
from wavecast.simulator.virtual.node.operations import (
    Barrier,
    Command,
    Copy,
    Event,
    HostCall,
    Meeting,
    Operation,
    SignalCommand,
    WaitSignal,
    WriteSignal,
)
from wavecast.simulator.virtual.node.policy import Policy, Seeded
from wavecast.simulator.virtual.node.ranks import RankPrograms
from wavecast.simulator.virtual.node.report import stuck_report
from wavecast.simulator.virtual.node.scheduler import Machine, Scheduler, Step
from wavecast.simulator.virtual.node.streams import NodeStream, Streams
from wavecast.simulator.virtual.node.workgroups import GlobalAccesses, KernelLaunch
from wavecast.simulator.virtual.tensor import HostTensor, Storage, storage_of

T = TypeVar("T")
StreamOperations = Literal["kernel", "command-processor"]
CopyEngine = Literal["copy-engine", "blit"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a node's runtime behaves, where runtimes differ.

    Attributes:
        stream_operations: Who writes and waits for signals, and meets at barriers, in stream order: a ``kernel`` that
            needs a compute unit, or the ``command-processor``, which does not. None for what the device's ``[link]``
            section says.
        blit_limit_bytes: Copies up to this size are done by a kernel; None for what the device says.
        hardware_queues: Queues that the streams of one priority share; None for what the device says.
        budget: Instructions a wave may execute.
        stall_instructions: Instructions that workgroups may execute without a start or end of anything.
        check: Look for reads of what other ranks or copies wrote, without an acquire: ``VirtualNode.findings``.
    """

    stream_operations: StreamOperations | None = None
    blit_limit_bytes: int | None = None
    hardware_queues: int | None = None
    budget: int = 1_000_000_000
    stall_instructions: int = 500_000_000
    check: bool = False


class NodeRank:
    """One device of a node, as the program of its rank sees it.

    Everything that it is asked to do is put on a stream and happens when the node is synchronized.

    Attributes:
        node: The node.
        index: Number of the rank.
        device: Launches go to the stream that is current; its ``memory`` is the rank's own address space.
    """

    def __init__(self, node: VirtualNode, index: int) -> None:
        self.node, self.index = node, index
        self.device = _RankDevice(node, index)
        self._current = ["compute"]

    def stream(self, name: str = "compute", priority: int = 0) -> NodeStream:
        """The stream of a name, made when it is first asked for."""
        return self.node._machine(self.index).streams.stream(name, priority)

    @property
    def current_stream(self) -> NodeStream:
        """Where launches go."""
        return self.stream(self._current[-1])

    @contextmanager
    def active(self, stream: NodeStream | None = None) -> Iterator[VirtualDevice]:
        """Let Triton compile for this device and launch on one of its streams.

        Args:
            stream: Where launches go; None for the current stream, at first ``compute``.
        """
        config = triton.runtime.driver
        before = config._active
        self._current.append((stream or self.current_stream).name)
        config.set_active(VirtualDriver(self.device))
        try:
            yield self.device
        finally:
            config.set_active(before)
            self._current.pop()

    def copy(
        self, target: Any, source: Any, stream: NodeStream | None = None, *, engine: CopyEngine | None = None
    ) -> None:
        """Copy bytes between tensors of the same size, each of this rank or shared by its own.

        Args:
            target: Where to; bytes in the order of its elements.
            source: Where from.
            stream: Of this rank; None for the current one.
            engine: Who copies; None for a kernel up to the node's limit, else a copy engine.

        Raises:
            LaunchError: The sizes differ, or a tensor is another rank's and not shared.
        """
        owners, spans = [], []
        for name, tensor in (("target", target), ("source", source)):
            storage, found = host_memory.spans_of(tensor, name)
            self.node._claim(self.index, storage, name)
            owners.append(storage.owner)
            spans.append(found)
            if name == "target":
                self.node._follow(storage)
        pieces = host_memory.matched(spans[0], spans[1])
        copy = Copy(self.index, stream or self.current_stream, "copy", owners=tuple(owners), pieces=pieces)
        if engine == "blit" or (engine is None and copy.nbytes <= self.node.blit_limit_bytes):
            copy.by_kernel(self.node.blit_workgroups)
        self._enqueue(copy)

    def write_signal(self, word: Any, value: Any, stream: NodeStream | None = None) -> None:
        """Write a 32-bit word when the stream comes to it.

        Args:
            word: A tensor of one 32-bit element, this rank's or shared.
            value: A number, or a tensor of one 32-bit element that is read then.
            stream: Of this rank; None for the current one.
        """
        self._enqueue_signal(WriteSignal, "write of {} to {}", word, value, stream)

    def wait_signal(self, word: Any, value: Any, stream: NodeStream | None = None) -> None:
        """Hold a stream until a 32-bit word has reached a value; arguments as for ``write_signal``.

        It has when the word less the value, modulo 2^32, is below 2^31.
        """
        self._enqueue_signal(WaitSignal, "wait for {} in {}", word, value, stream)

    def _enqueue_signal(
        self, command: type[SignalCommand], name: str, word: Any, value: Any, stream: NodeStream | None
    ) -> None:
        pointer, owners, number, indirect = self._signal(word, value)
        self._enqueue_command(
            command(
                self.index,
                stream or self.current_stream,
                name.format("a word" if indirect else number, self.node.name_of(pointer)),
                owners=owners,
                pointer=pointer,
                value=number,
                is_indirect=indirect,
            )
        )

    def _signal(self, word: Any, value: Any) -> tuple[int, tuple[Any, ...], int, bool]:
        """Address, owners, value and whether the value is an address."""
        pointer, owner = self._word(word, "word")
        if hasattr(value, "data_ptr"):
            number, other = self._word(value, "value")
            return pointer, (owner, other), number, True
        return pointer, (owner,), int(value) & 0xFFFFFFFF, False

    def _word(self, tensor: Any, name: str) -> tuple[int, Any]:
        storage, spans = host_memory.spans_of(tensor, name)
        if len(spans) != 1 or spans[0].nbytes != 4 or spans[0].pointer % 4:
            raise LaunchError(
                f"a signal's {name} of {sum(span.nbytes for span in spans)} bytes",
                hint="pass a tensor of one aligned 32-bit element",
            )
        self.node._claim(self.index, storage, name)
        return spans[0].pointer, storage.owner

    def barrier(self, stream: NodeStream | None = None) -> None:
        """Hold a stream until every rank's has come to the barrier; a rank's first meets the first of the others."""
        meeting = self.node._meeting(self.index)
        barrier = Barrier(self.index, stream or self.current_stream, "barrier", meeting=meeting)
        self._enqueue_command(barrier)

    def call(
        self, function: Callable[[], object], tensors: Sequence[Any], name: str, stream: NodeStream | None = None
    ) -> None:
        """Let the host do something when the stream comes to it, as what the device would do.

        Args:
            function: What.
            tensors: What it uses, which lives until then; of this rank, or shared.
            name: What messages call it.
            stream: Of this rank; None for the current one.
        """
        storages = [storage_of(tensor, name=name) for tensor in tensors]
        for storage in storages:
            self.node._claim(self.index, storage, name)
        owners = tuple(storage.owner for storage in storages)
        self._enqueue(HostCall(self.index, stream or self.current_stream, name, owners=owners, function=function))

    def is_done(self, stream: NodeStream) -> bool:
        """Whether a stream is empty."""
        return self._last(stream) is None

    def record(self, stream: NodeStream | None = None) -> Event:
        """Mark a place in a stream."""
        event = Event()
        stream = stream or self.current_stream
        self._enqueue(WriteSignal(self.index, stream, "event", owners=(event,), pointer=event.pointer, value=1))
        return event

    def wait_event(self, event: Event, stream: NodeStream | None = None) -> None:
        """Hold a stream until another has come to a mark."""
        stream = stream or self.current_stream
        self._enqueue(
            WaitSignal(self.index, stream, "wait for an event", owners=(event,), pointer=event.pointer, value=1)
        )

    def wait_stream(self, stream: NodeStream, other: NodeStream) -> None:
        """What is put on ``stream`` from now on begins after all that is on ``other`` so far."""
        self.wait_event(self.record(other), stream)

    def synchronize(self, stream: NodeStream | None = None) -> None:
        """Let the node run until a stream of this rank is empty; None for all its streams.

        Raises:
            DeadlockError: Nothing can happen any more.
        """
        streams = [stream] if stream is not None else self.node._machine(self.index).streams.all
        last = [operation for of in streams if (operation := self._last(of)) is not None]
        names = ", ".join(repr(of.name) for of in streams)
        self.node.wait(lambda: all(operation.is_over for operation in last), f"its streams {names}")

    def _last(self, stream: NodeStream) -> Operation | None:
        return next((item for item in reversed(stream.queue.operations) if item.stream is stream), None)

    def _enqueue_command(self, command: Command) -> None:
        if self.node.stream_operations == "kernel":
            command.by_kernel()
        self._enqueue(command)

    def _enqueue(self, operation: Operation) -> None:
        self.node._enqueue(operation)


class _RankDevice(VirtualDevice):
    """A virtual device whose launches are put on a stream."""

    def __init__(self, node: VirtualNode, rank: int) -> None:
        super().__init__(node.spec, simulate=self._enqueue, record=lambda _: None)
        self._node, self._rank = node, rank
        self._owners: tuple[Any, ...] = ()

    def launch(self, code: CodeObject, *, grid: Sequence[int], arguments: Sequence[LaunchArgument]) -> Launch | None:
        """Put a launch on the current stream; what its tensors lie in lives until it has ended."""
        storages = [_storage_of(argument) for argument in arguments]
        for argument, storage in zip(arguments, storages, strict=True):
            if storage is not None:
                self._node._claim(self._rank, storage, argument.name)
        self._owners = tuple(storage.owner for storage in storages if storage is not None)
        return super().launch(code, grid=grid, arguments=arguments)

    def launch_packed(
        self, code: CodeObject, *, grid: Sequence[int], block: Sequence[int], packed: bytes, tensors: Sequence[Any] = ()
    ) -> Launch | None:
        """Put a launch on the current stream; what ``tensors`` lie in lives until it has ended."""
        storages = [storage_of(tensor, name="tensor") for tensor in tensors]
        for storage in storages:
            self._node._claim(self._rank, storage, "tensor")
        self._owners = tuple(storage.owner for storage in storages)
        return super().launch_packed(code, grid=grid, block=block, packed=packed, tensors=tensors)

    def _enqueue(
        self, code: CodeObject, *, grid: Grid, arguments: Sequence[ArgumentValue], block: Grid | None = None, **_: Any
    ) -> None:
        kernel = parsed_kernel(code)
        shape = workgroup_shape(kernel, block)
        self._node._enqueue(
            KernelLaunch(
                self._rank,
                self._node.rank(self._rank).current_stream,
                code.name,
                count=grid[0] * grid[1] * grid[2],
                need=need_of(kernel, self.spec, shape[0] * shape[1] * shape[2]),
                owners=self._owners,
                kernel=kernel,
                grid=grid,
                block=shape,
                arguments=arguments,
                accesses=GlobalAccesses(kernel),
                code=self._node.checked_code(kernel),
            )
        )


def _storage_of(argument: LaunchArgument) -> Storage | None:
    value = argument.value
    if not argument.type.startswith("*") or value is None or isinstance(value, int):
        return None
    tensor = value if hasattr(value, "untyped_storage") or not hasattr(value, "base") else value.base
    return storage_of(tensor, name=argument.name)


class VirtualNode:
    """Several virtual devices that reach each other's shared memory.

    Memory is sequentially consistent: a write is seen by everybody as soon as it is made, so that a missing fence or a
    wrong scope shows nothing here. Whatever else a real node leaves open is drawn from the seed: the order and delay of
    copies, how fast each rank is, and where workgroups are preempted, which is after any memory access.

    Args:
        device: Specification of every device, or its name.
        ranks: How many there are.
        seed: The same seed gives the same interleaving; a ``Policy`` instead decides itself, as ``every_order`` has.
        options: How the runtime behaves.

    Attributes:
        spec: Specification of every device.
        policy: What the seed stands for.
    """

    def __init__(
        self, device: Device | str, ranks: int, seed: int | Policy = 0, *, options: NodeOptions | None = None
    ) -> None:
        if ranks < 1:
            raise LaunchError(f"a node of {ranks} ranks", hint="give at least 1")
        self._programs: RankPrograms[Any] | None = None
        self.spec = load_device(device) if isinstance(device, str) else device
        options = options or NodeOptions()
        policy = self.policy = Seeded(seed) if isinstance(seed, int) else seed
        link = self.spec.link
        if link is None:
            raise LaunchError(
                f"the specification of {self.spec.name} has no [link] section, which a node needs",
                hint="take mi300x, mi325x or mi355x",
            )
        if options.check and self.spec.arch.startswith("sm_"):
            raise LaunchError(
                f"the check of acquires on {self.spec.name}, and it knows the fences of gfx942 and gfx950",
                hint="check the program on mi300x, mi325x or mi355x",
            )
        self.blit_limit_bytes = _first(options.blit_limit_bytes, link.blit_limit_bytes, 0)
        self.blit_workgroups = link.blit_workgroups or 1
        self.stream_operations = options.stream_operations or (
            "kernel" if link.signal_workgroups else "command-processor"
        )
        queues = _first(options.hardware_queues, link.hardware_queues, 1)
        self._names: list[tuple[int, int, str, int]] = []
        self._owners: dict[tuple[int, int], tuple[int, bool, weakref.ref[Any]]] = {}
        self._check = AcquireCheck() if options.check else None
        self._meetings: list[Meeting] = []
        self._met = [0] * ranks
        self._pending = [Counter[int]() for _ in range(ranks)]
        self._ranks = [NodeRank(self, index) for index in range(ranks)]
        machines = [
            Machine(
                rank.device.memory,
                ComputeUnits(self.spec, policy.first_engines(self.spec.compute.num_xcd, link.shader_engines_per_xcd)),
                Streams(rank.index, queues),
            )
            for rank in self._ranks
        ]
        self._scheduler = Scheduler(
            self.spec,
            machines,
            shared_engine(),
            policy,
            budget=options.budget,
            stall_instructions=options.stall_instructions,
            describe=lambda scheduler: stuck_report(scheduler, self.name_of),
            check=self._check,
        )

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self._ranks)

    def rank(self, index: int) -> NodeRank:
        """One of them."""
        return self._ranks[index]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the check found, if the node's options asked for it."""
        return () if self._check is None else self._check.findings

    @property
    def history(self) -> list[Step]:
        """Starts and ends of operations so far."""
        return self._scheduler.history

    def symmetric(self, nbytes: int, name: str) -> list[HostTensor]:
        """Memory of so many zero bytes on each rank, which every rank reaches.

        Args:
            nbytes: Bytes on each rank.
            name: What messages call it.
        """
        found = [HostTensor(np.zeros(nbytes, dtype=np.uint8)) for _ in range(self.ranks)]
        for rank, tensor in enumerate(found):
            self.share(rank, tensor, name)
        return found

    def share(self, rank: int, tensor: Any, name: str, *, element_bytes: int = 4) -> None:
        """Let every rank reach the memory under a tensor of one.

        Args:
            rank: Whose it is.
            tensor: Any tensor over it.
            name: What messages call it.
            element_bytes: How messages count in it.
        """
        storage = storage_of(tensor, name=name)
        self._owners[storage.pointer, storage.nbytes] = rank, True, weakref.ref(storage.owner)
        self._names.append((storage.pointer, storage.nbytes, f"{name} of rank {rank}", element_bytes))
        self._follow(storage)

    def _follow(self, storage: Storage) -> None:
        """Let the check know of memory that others than the kernels of its rank write."""
        if self._check is not None:
            self._check.follow(storage.pointer, storage.nbytes)

    def checked_code(self, kernel: Kernel) -> CheckedCode | None:
        """What a kernel's instructions mean for the check; None without one."""
        return None if self._check is None else CheckedCode(kernel)

    def name_of(self, pointer: int, memory: AddressSpace | None = None) -> str:
        """What to call a host address: its place in shared memory, else in what an address space maps."""
        for start, nbytes, name, element in self._names:
            if start <= pointer < start + nbytes:
                return f"{name}, element {(pointer - start) // element}"
        if memory is not None:
            try:
                return memory.describe(memory.device_pointer(pointer))
            except LaunchError:
                pass
        return "a word"

    def synchronize(self) -> None:
        """Run until every stream is empty.

        Raises:
            DeadlockError: Nothing can happen any more; says who waits for what.
            ExecutionError: A kernel did something wrong, or executes without end.
        """
        self.run_until(lambda: self._scheduler.is_idle)

    def run_until(self, is_reached: Callable[[], bool]) -> None:
        """Run until a condition holds that only what is on the streams can bring about.

        Raises:
            DeadlockError: As for ``synchronize``.
        """
        while not is_reached():
            if not self._scheduler.step():
                raise self.deadlock()

    def run_ranks(
        self, function: Callable[[int], T], *, switched: Callable[[int, bool], None] | None = None
    ) -> list[T]:
        """Call ``function(rank)`` for every rank, as the programs of so many processes would.

        One program runs at a time, until it waits (``NodeRank.synchronize``, ``wait``); who goes on is drawn from the
        seed. Triton's active driver is always that of the running program's rank. All streams are empty at the end.

        Args:
            function: The program.
            switched: Called with a rank and whether its program goes on now, or stops running.

        Returns:
            What it returned, by rank.

        Raises:
            DeadlockError: Programs and devices wait for each other.
            Exception: What a program raised first; the others are ended.
        """
        programs = self._programs = RankPrograms[T](self, switched or (lambda rank, runs: None))
        try:
            return programs.run(function)
        finally:
            self._programs = None

    def wait(self, is_reached: Callable[[], bool], reason: str) -> None:
        """Let devices, and the programs of other ranks, run until a condition holds.

        Args:
            is_reached: The condition.
            reason: What it is, for messages.
        """
        if self._programs is not None and self._programs.current_rank is not None:
            self._programs.wait(is_reached, reason)
        else:
            self.run_until(is_reached)

    @property
    def current_rank(self) -> int | None:
        """Rank whose program calls this; None outside ``run_ranks``."""
        return None if self._programs is None else self._programs.current_rank

    def deadlock(self, programs: Sequence[str] = ()) -> DeadlockError:
        """What to raise when nothing can happen any more.

        Args:
            programs: What the programs of ranks do, a line each.
        """
        lines = [f"  {line}" for line in programs]
        report = self._scheduler.describe(self._scheduler)
        return DeadlockError(
            "\n".join(["nothing can happen any more", *lines, *([report] if report else [])]),
            hint="each line names who waits, for what, and who could help",
        )

    def step(self) -> bool:
        """Let one thing happen; False if nothing can."""
        return self._scheduler.step()

    def _machine(self, rank: int) -> Machine:
        return self._scheduler.machines[rank]

    def _enqueue(self, operation: Operation) -> None:
        stream = operation.stream
        if stream.rank != operation.rank:
            raise LaunchError(
                f"stream {stream.name!r} is rank {stream.rank}'s, and rank {operation.rank} uses it",
                hint="take a stream of the same rank",
            )
        stream.queue.operations.append(operation)
        pending = self._pending[operation.rank]
        pending.update(map(id, operation.owners))
        operation.when_over = lambda: _count_down(pending, operation.owners)

    def is_pending(self, rank: int, owner: Any) -> bool:
        """Whether an operation on a stream of a rank has not ended that uses the memory of an owner."""
        return self._pending[rank][id(owner)] > 0

    def _claim(self, rank: int, storage: Storage, name: str) -> None:
        """Let a rank use memory: its own, shared memory, or such that nobody has used yet, which becomes its own.

        Raises:
            LaunchError: It is another rank's, and not shared.
        """
        key = storage.pointer, storage.nbytes
        known = self._owners.get(key)
        if known is not None and known[2]() is storage.owner:
            if known[0] != rank and not known[1]:
                raise LaunchError(
                    f"rank {rank} uses {name}, which is memory of rank {known[0]} that no other rank reaches",
                    hint="put what ranks exchange into symmetric memory",
                )
            return
        self._owners[key] = rank, False, weakref.ref(storage.owner)

    def _meeting(self, rank: int) -> Meeting:
        number = self._met[rank]
        self._met[rank] += 1
        while len(self._meetings) <= number:
            self._meetings.append(Meeting(ranks=self.ranks))
        return self._meetings[number]


def _count_down(pending: Counter[int], owners: Sequence[Any]) -> None:
    for key in map(id, owners):
        pending[key] -= 1
        if not pending[key]:
            del pending[key]


def _first(given: int | None, known: int | None, default: int) -> int:
    return given if given is not None else known if known is not None else default


@contextmanager
def virtual_node(
    device: Device | str, ranks: int, seed: int | Policy = 0, *, options: NodeOptions | None = None
) -> Iterator[VirtualNode]:
    """A node whose devices Triton can compile for inside the block; arguments as for ``VirtualNode``."""
    with pinned_toolchain():
        yield VirtualNode(device, ranks, seed, options=options)
