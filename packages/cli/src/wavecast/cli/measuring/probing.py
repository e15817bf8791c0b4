"""The probes of a calibration, run on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from wavecast.cli.device_spec import SpecFacts
from wavecast.cli.measuring import kernels, timing
from wavecast.cli.measuring.calibration import (
    EMPTY_GROUPS,
    FEW_PROGRAMS,
    LARGE_BYTES,
    MB,
    STRIDES,
    WIDTHS,
    Probes,
)
from wavecast.cli.measuring.gpu import Bench, reported
from wavecast.cli.measuring.timing import Call

ROUNDS = 8
CACHE_REPEATS = 16
CHASE_STEPS = 4096
CHAIN_STEPS = 1000
FENCE_STEPS = 100
EXCHANGES = 2000
WARPS = 8
LINE_BYTES = 128
DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int32}
"""Element type by bytes a lane; 16 bytes are four elements."""

SEMANTICS = ("relaxed gpu", "acquire gpu", "release gpu", "acq_rel gpu", "relaxed sys", "acq_rel sys")


class Prober:
    """Probes of one GPU.

    Args:
        bench: The GPU.
        spec: Its specification, or that of one like it: sizes of caches and counts of units.
        memory_bytes: Memory of the GPU.
        device: Where tensors are made.
    """

    def __init__(self, bench: Bench, spec: SpecFacts, *, memory_bytes: int, device: str = "cuda") -> None:
        self._bench = bench
        self._spec = spec
        self._device = device
        self._largest = memory_bytes // 8
        self._cus = int(spec.values["compute.num_cu"])
        self._lanes = int(spec.values["compute.wave_lanes"])
        waves = int(spec.values["compute.waves_per_simd"] * spec.values["compute.simd_per_cu"])
        self._programs = self._cus * max(1, waves // WARPS)
        self._l2_bytes = int(spec.values["l2.bytes_per_xcd"] * spec.values["compute.num_xcd"])
        self._launch_us = 0.0
        self.probes = Probes()
        self.failures: dict[str, str] = {}

    def run(self, done: Callable[[str], None]) -> Probes:
        """Run all probes; one that fails is noted, and the others go on.

        Args:
            done: Called with the name of each.
        """
        with self._bench.current():
            for name, probe in self.steps():
                with reported(self._bench) as told:
                    probe()
                    clock_mhz = self._bench.clock_mhz()
                    if clock_mhz is not None:
                        self.probes.clock_mhz.append(clock_mhz)
                if told:
                    self.failures[name] = told[0]
                done(name)
        return self.probes

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """The probes by name, in the order in which they run."""
        return [
            ("launch", self._launch),
            ("hbm", self._hbm),
            ("caches", self._caches),
            ("compute units", self._by_programs),
            ("widths", self._widths),
            ("strides", self._strides),
            ("scattered bytes", self._scattered),
            ("latency", self._latency),
            ("atomics", self._atomics),
            ("fences", self._fences),
            ("lds", self._lds),
        ]

    def _us(self, call: Call, *, warm: bool = True, idle: bool = False) -> float:
        """Median time of a call, after one that compiles it."""
        call()
        samples = timing.interleaved(self._bench.clock, {"": call}, seconds=0, fewest=ROUNDS, warm=warm, idle=idle)
        return samples[""].median_us

    def _net_us(self, call: Call, *, warm: bool = True) -> float:
        return max(self._us(call, warm=warm) - self._launch_us, 1e-3)

    def _launch(self) -> None:
        def empty() -> None:
            kernels.empty_kernel[(1,)](num_warps=1)

        def many() -> None:
            for _ in range(100):
                empty()

        def wide(waves: int) -> Call:
            return lambda: kernels.empty_kernel[(EMPTY_GROUPS,)](num_warps=waves)

        self._launch_us = self._us(empty)
        most = 1024 // self._lanes
        points = {
            "nothing": self._us(lambda: None),
            "one, queued": self._launch_us,
            "one, idle": self._us(empty, idle=True),
            "one of many": (self._us(many) - self._launch_us) / 99,
        }
        for at, us in points.items():
            self.probes.add("launch", at, us, "us")
        self.probes.add("launch", "empty workgroup", 1e3 * self._net_us(wide(1)) / EMPTY_GROUPS, "ns")
        self.probes.add("launch", "empty workgroup of most waves", 1e3 * self._net_us(wide(most)) / EMPTY_GROUPS, "ns")
        self.probes.add("launch", "most waves", most, "waves")

    @contextmanager
    def _buffers(self, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Two buffers of bytes, and one for what programs sum up."""
        yield (
            torch.zeros(size, dtype=torch.int8, device=self._device),
            torch.zeros(size, dtype=torch.int8, device=self._device),
            torch.zeros(max(self._programs, 4096), dtype=torch.int32, device=self._device),
        )

    def _stream(
        self, way: str, buffers: tuple[torch.Tensor, ...], size: int, *,
        repeats: int = 1, programs: int | None = None, width: int = 16, warps: int = WARPS,
    ) -> tuple[Call, int]:  # fmt: skip
        """A call that moves about ``size`` bytes, half of them each way if it copies, and how many it moves."""
        source, target, out = buffers
        dtype = DTYPES[width]
        elements = self._lanes * warps * max(1, width // dtype.itemsize)
        unroll = 8 if width < 16 else 4
        blocks = (size // (2 if way == "copy" else 1)) // (elements * dtype.itemsize)
        grid = (min(programs or self._programs, max(1, blocks // unroll)),)
        blocks -= blocks % unroll
        words = {"BLOCK": elements, "UNROLL": unroll, "num_warps": warps}
        source, target = source.view(dtype), target.view(dtype)
        calls: dict[str, Call] = {
            "read": lambda: kernels.read_kernel[grid](source, out, blocks, repeats, **words),
            "write": lambda: kernels.write_kernel[grid](target, blocks, repeats, 1, **words),
            "copy": lambda: kernels.copy_kernel[grid](source, target, blocks, repeats, **words),
        }
        moved = blocks * elements * dtype.itemsize * repeats * (2 if way == "copy" else 1)
        return calls[way], moved

    def _hbm(self) -> None:
        sizes = [size for size in LARGE_BYTES if size <= self._largest]
        with self._buffers(max(sizes)) as buffers:
            for way in ("read", "write", "copy"):
                for size in sizes:
                    call, moved = self._stream(way, buffers, size)
                    self._rate(f"hbm {way}", f"{size // MB} MB", moved, call, warm=False)

    def _caches(self) -> None:
        sets = {"l2": [self._l2_bytes // share for share in (8, 4, 2)]}
        if self._spec.values.get("mall.bytes"):
            mall = int(self._spec.values["mall.bytes"])
            sets["mall"] = [mall // 4, 3 * mall // 8, mall // 2]
        for level, sizes in sets.items():
            with self._buffers(max(sizes)) as buffers:
                for way in ("read", "write", "copy"):
                    for size in sizes:
                        call, moved = self._stream(way, buffers, size, repeats=CACHE_REPEATS)
                        self._rate(f"{level} {way}", f"{size / MB:.1f} MB", moved, call)

    def _by_programs(self) -> None:
        counts = [1, 2, 4, FEW_PROGRAMS, 16, 32, *(max(1, self._cus * share // 4) for share in (1, 2, 3, 4))]
        with self._buffers(self._l2_bytes // 8) as buffers:
            for way in ("read", "write"):
                for programs in sorted(set(counts)):
                    call, moved = self._stream(
                        way,
                        buffers,
                        self._l2_bytes // 8,
                        repeats=1 if programs < 16 else 8,
                        programs=programs,
                        warps=16,
                    )
                    self._rate(f"l2 {way} by programs", str(programs), moved, call)
        size = LARGE_BYTES[1]
        with self._buffers(size) as buffers:
            for way in ("read", "write"):
                for programs in sorted(set(counts)):
                    if programs >= 16:
                        call, moved = self._stream(way, buffers, size, programs=programs, warps=16)
                        self._rate(f"hbm {way} by programs", str(programs), moved, call, warm=False)

    def _widths(self) -> None:
        with self._buffers(max(LARGE_BYTES[1], self._l2_bytes // 4)) as buffers:
            for width in WIDTHS:
                for way, name in (("read", "load"), ("write", "store")):
                    call, moved = self._stream(way, buffers, LARGE_BYTES[1], width=width)
                    self._rate(f"hbm {name} width", str(width), moved, call, warm=False)
                    call, moved = self._stream(way, buffers, self._l2_bytes // 4, width=width, repeats=4)
                    self._rate(f"l2 {name} width", str(width), moved, call)

    def _strides(self) -> None:
        size = LARGE_BYTES[1]
        block = self._lanes * WARPS
        with self._buffers(size) as (source, _, out):
            words = source.view(torch.int32)
            for stride in STRIDES:
                blocks = words.numel() // (block * stride)
                grid = (min(self._programs, blocks),)

                def call(blocks: int = blocks, stride: int = stride, grid: tuple[int] = grid) -> None:
                    kernels.strided_read_kernel[grid](words, out, blocks, stride, BLOCK=block, num_warps=WARPS)

                self._rate("hbm load stride", str(stride), blocks * block * 4, call, warm=False)

    def _scattered(self) -> None:
        row_bytes, rows_each, columns = 256, 256, 32
        rows = self._l2_bytes // 4 // row_bytes // rows_each * rows_each
        target = torch.zeros(rows * row_bytes, dtype=torch.int8, device=self._device)

        def call() -> None:
            kernels.scattered_write_kernel[(rows // rows_each,)](
                target, row_bytes, ROWS=rows_each, COLUMNS=columns, num_warps=rows_each // self._lanes
            )

        self.probes.add("scattered bytes", "in L2", rows * columns / (1e3 * self._net_us(call)), "G/s")

    def _latency(self) -> None:
        l2 = int(self._spec.values["l2.bytes_per_xcd"])
        # Level, bytes of the chain, steps, whether the caches hold what an equal call left there.
        chains = [("l1", 8192, CHASE_STEPS, True), ("l2", l2 // 4, 4 * CHASE_STEPS, True)]
        if self._spec.values.get("mall.bytes"):
            chains.append(("mall", int(self._spec.values["mall.bytes"]) // 4, 4 * l2 // LINE_BYTES, True))
        chains.append(("hbm", 512 * MB, CHASE_STEPS, False))
        for level, size, steps, warm in chains:
            chain = self._chain(size)
            start = torch.zeros(self._lanes, dtype=torch.int32, device=self._device)
            out = torch.empty_like(start)

            def call(chain: torch.Tensor = chain, start: Any = start, out: Any = out, steps: int = steps) -> None:
                kernels.chase_kernel[(1,)](chain, start, out, steps, LANES=self._lanes, num_warps=1)

            ns = 1e3 * self._net_us(call, warm=warm) / steps
            self.probes.add(f"{level} latency", f"{size / MB:.3g} MB", ns, "ns")

    def _chain(self, size: int) -> torch.Tensor:
        """Indices that lead through one line after another, in random order and back to the first."""
        lines = size // LINE_BYTES
        order = torch.randperm(lines, device=self._device)
        order = torch.roll(order, -int((order == 0).nonzero().item()))  # the chase begins at line 0
        chain = torch.zeros(lines * (LINE_BYTES // 4), dtype=torch.int32, device=self._device)
        chain[order * (LINE_BYTES // 4)] = (torch.roll(order, -1) * (LINE_BYTES // 4)).to(torch.int32)
        return chain

    def _atomics(self) -> None:
        counter = torch.zeros(self._lanes, dtype=torch.int32, device=self._device)
        out = torch.zeros_like(counter)
        steps = CHAIN_STEPS
        for at in SEMANTICS:
            sem, scope = at.split()

            def chain(sem: str = sem, scope: str = scope) -> None:
                words = {"SEM": sem, "SCOPE": scope, "LANES": self._lanes, "num_warps": 1}
                kernels.atomic_chain_kernel[(1,)](counter, out, steps, **words)

            self.probes.add("atomic chain", at, 1e3 * self._net_us(chain) / steps, "ns")
        target = torch.zeros(1 << 20, dtype=torch.float32, device=self._device)
        block = self._lanes * WARPS
        for at, addresses, repeats in (("one address", 1, 2), ("an address a lane", 1 << 20, 16)):
            grid = (self._programs,)

            def add(addresses: int = addresses, repeats: int = repeats, grid: tuple[int] = grid) -> None:
                kernels.atomic_spread_kernel[grid](target, addresses, repeats, BLOCK=block, num_warps=WARPS)

            operations = self._programs * block * repeats
            self.probes.add("atomics", at, 1e3 * self._net_us(add) / operations, "ns")

    def _fences(self) -> None:
        block, steps = self._lanes * WARPS, FENCE_STEPS
        target = torch.zeros(self._cus * block, dtype=torch.int32, device=self._device)
        counters = torch.zeros(self._cus * block, dtype=torch.int32, device=self._device)
        found = {}
        for sem in ("relaxed", "release", "acq_rel"):

            def call(sem: str = sem) -> None:
                kernels.fence_after_store_kernel[(self._cus,)](
                    target, counters, steps, BLOCK=block, SEM=sem, num_warps=WARPS
                )

            found[sem] = 1e3 * self._net_us(call) / steps
            self.probes.add("fence after stores", sem, found[sem], "ns")
        self.probes.add("fence after stores", "release less relaxed", found["release"] - found["relaxed"], "ns")

    def _lds(self) -> None:
        side, repeats = 64, EXCHANGES
        source = torch.zeros(side * side, dtype=torch.float32, device=self._device)
        out = torch.zeros(self._cus * side * side, dtype=torch.float32, device=self._device)

        def call() -> None:
            kernels.exchange_kernel[(self._cus,)](source, out, repeats, SIDE=side, num_warps=4)

        ns = 1e3 * self._net_us(call) / repeats
        self.probes.add("lds", "transposing a 64 x 64 fp32 tile", 2 * 4 * side * side / ns, "B/ns a compute unit")

    def _rate(self, probe: str, at: str, moved: int, call: Call, *, warm: bool = True) -> None:
        self.probes.add(probe, at, moved / self._net_us(call, warm=warm) / 1e6, "TB/s")
