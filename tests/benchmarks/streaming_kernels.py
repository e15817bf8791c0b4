"""Predicted and measured times of streaming kernels on real MI300A and MI300X, from counts written by hand.

    python tests/benchmarks/streaming_kernels.py --data DIR

DIR holds ``mi300a.csv`` and ``mi300a_120cu.csv`` of sarchlab/mgpusim (``gpu_perf_scripts/``), HIP kernels timed by
events, and ``mi300x_kernels.csv``, rows of its ``calibration/mi300x_ground_truth.csv``. The kernels here repeat the
memory instructions of their sources; nothing is executed. Data of an equal earlier launch is taken to be in the
memory-side cache, since the benchmarks repeat every launch.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wavecast.simulator.devices import load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.trace import RECORD
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel, Resources
from wavecast.simulator.timing import TimePrediction, predict_time
from wavecast.simulator.traffic import TrafficObserver, choose_workgroups

LANES = np.arange(64, dtype=np.uint64)
WAVES = 4
Address = Callable[[int, int], np.ndarray]


@dataclass(frozen=True)
class Hand:
    """A kernel by hand: instruction texts, and the addresses of the memory instructions among them."""

    texts: tuple[str, ...]
    addresses: dict[int, Address]
    workgroups: int
    lds_bytes: int = 0


def streaming(loads: int, vector: int, items: int, *, item_bytes: int, gap: int = 1 << 36) -> Hand:
    """``loads`` input streams and one output stream, one item a lane."""
    width = {4: "dword", 16: "dwordx4"}[item_bytes]
    head = ("s_load_dwordx4", "s_waitcnt lgkmcnt(0)", *["v_add_u32"] * vector)
    texts = (*head, *[f"global_load_{width}"] * loads, "s_waitcnt vmcnt(0)", f"global_store_{width}", "s_endpgm")

    def stream(number: int) -> Address:
        return lambda group, wave: gap * np.uint64(number + 1) + ((group * WAVES + wave) * 64 + LANES) * item_bytes

    addresses = {len(head) + number: stream(number) for number in range(loads)}
    addresses[len(texts) - 2] = stream(loads)
    return Hand(texts, addresses, max(1, items // (64 * WAVES)))


def transpose(size: int) -> Hand:
    """Tiles of 64 x 64 floats through 16 KiB of LDS, 16 bytes a lane, reads of the LDS eight lanes to a bank."""
    tiles = size // 64
    texts = ["s_load_dwordx4", "s_waitcnt lgkmcnt(0)", *["v_add_u32"] * 40]
    addresses: dict[int, Address] = {}

    def place(swap: bool, step: int, base: int) -> Address:
        def address(group: int, wave: int) -> np.ndarray:
            x, y = group % tiles, group // tiles
            x, y = (y, x) if swap else (x, y)
            row = y * 64 + wave * 16 + step * 4 + LANES // 16
            return base + (row * size + x * 64 + LANES % 16 * 4) * 4

        return address

    def add(text: str, address: Address) -> None:
        addresses[len(texts)] = address
        texts.append(text)

    for step in range(4):
        add("global_load_dwordx4", place(False, step, 1 << 36))
    texts.append("s_waitcnt vmcnt(0)")
    for _ in range(4):
        add("ds_write_b128", lambda group, wave: LANES * 16)
    texts.append("s_waitcnt lgkmcnt(0)")
    texts.append("s_barrier")
    for _ in range(4):
        add("ds_read_b128", lambda group, wave: LANES % 8 * 128 + LANES // 8 * 16)
    texts.append("s_waitcnt lgkmcnt(0)")
    for step in range(4):
        add("global_store_dwordx4", place(True, step, 1 << 37))
    texts.append("s_endpgm")
    return Hand(tuple(texts), addresses, tiles * tiles, lds_bytes=16384)


def predict(hand: Hand, device_name: str) -> TimePrediction:
    device = load_device(device_name)
    instructions = tuple(Instruction(index, text.split()[0], "", (), {}, text) for index, text in enumerate(hand.texts))
    resources = Resources(24, 24, 0, 24, 32, hand.lds_bytes, 0, 0, 0)
    kernel = Kernel("by_hand", device.arch, instructions, (0,), {}, (), 0, 64 * WAVES, resources)
    sample = choose_workgroups(hand.workgroups, device)
    observer = TrafficObserver(
        kernel, device, total_workgroups=hand.workgroups, executed_workgroups=len(sample.workgroups)
    )
    records = np.zeros(WAVES * len(hand.addresses), dtype=RECORD)
    records["exec"] = np.uint64(2**64 - 1)
    for group in sample.workgroups:
        records["workgroup"] = group
        order = ((wave, index) for wave in range(WAVES) for index in sorted(hand.addresses))
        for position, (wave, index) in enumerate(order):
            records["wave"][position], records["instruction"][position] = wave, index
            records["address"][position] = hand.addresses[index](int(group), wave)
        observer.consume(records)
    count = len(sample.workgroups)
    executed = np.full(len(instructions), count * WAVES, dtype=np.int64)
    work = np.full(count, len(instructions) * WAVES, dtype=np.int64)
    execution = Execution(kernel, (hand.workgroups, 1, 1), sample.workgroups, executed, work)
    return predict_time(kernel, execution, observer.result(execution), device, position="first", warm=True)


Row = tuple[str, str, str]


def measured(folder: Path) -> dict[Row, float]:
    """Microseconds by device, kernel and size; for MI300A the smaller of the two runs' minima."""
    best: dict[Row, float] = {}
    for name in ("mi300a.csv", "mi300a_120cu.csv"):
        with (folder / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = ("mi300a", row["kernel_name"], row["problem_size"])
                best[key] = min(best.get(key, float("inf")), 1000 * float(row["min_ms"]))
    with (folder / "mi300x_kernels.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "precision=float" in row["params"] or "transfer_type=d2d" in row["params"]:
                best["mi300x", row["benchmark"], row["value"]] = 1000 * float(row["kernel_ms"])
    return best


def by_hand(kernel: str, size: str) -> Hand | None:
    if kernel in ("vectoradd", "shoc_triad"):
        return streaming(2, 14, int(size), item_bytes=4)
    if kernel == "relu":
        return streaming(1, 9, int(size), item_bytes=4)
    if kernel in ("memcopy_d2d", "memory_bandwidth"):
        return streaming(1, 6, int(size.removesuffix("MB")) * 2**20 // 16, item_bytes=16)
    # At 49152 x 49152 an int overflows in the source of the benchmark.
    if kernel == "matrixtranspose" and not size.startswith("49152"):
        return transpose(int(size.split("x")[0]))
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the three CSV files")
    folder = parser.parse_args(arguments).data
    errors: dict[str, list[float]] = {}
    inside = 0
    columns = ("measured", "predicted", "low", "high", "error %")
    print(f"{'device':7} {'kernel':16} {'size':>12} " + " ".join(f"{name:>9}" for name in columns) + "  bound")
    for (device, kernel, size), wanted in measured(folder).items():
        hand = by_hand(kernel, size)
        if hand is None:
            continue
        found = predict(hand, device)
        error = 100 * (found.predicted_us / wanted - 1)
        errors.setdefault(f"{device} {kernel}", []).append(abs(error))
        inside += found.low_us <= wanted <= found.high_us
        times = f"{wanted:9.1f} {found.predicted_us:9.1f} {found.low_us:9.1f} {found.high_us:9.1f}"
        print(f"{device:7} {kernel:16} {size:>12} {times} {error:9.1f}  {found.bound}")
    for kernel, values in errors.items():
        median, p90 = np.median(values), np.percentile(values, 90)
        print(f"{kernel}: median {median:.1f} %, p90 {p90:.1f} %, worst {max(values):.1f} %")
    count = sum(len(values) for values in errors.values())
    print(f"{inside} of {count} measured times lie inside the interval")


if __name__ == "__main__":
    main()
