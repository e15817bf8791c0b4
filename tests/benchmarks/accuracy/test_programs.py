from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mi300a
import mi300x
from fills import make_array
from observe import Store, code_object, device_code, execute, key_of, observe
from price import Pricer, Variant
from programs import Array, HostCopy, Launch, Launches, Program, Source

from wavecast.simulator.devices import load_device
from wavecast.simulator.timing import Bound, Position

DEVICE = load_device("mi300a")


def write_times(folder: Path, rows: str, *, second: str | None = None) -> None:
    head = "kernel_name,problem_size,iterations,avg_ms,min_ms,max_ms\n"
    (folder / "mi300a_120cu.csv").write_text(head + rows)
    (folder / "mi300a.csv").write_text(head + (rows if second is None else second))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The folder of a checkout as far as the loader looks: files of the listed benchmarks, and one that is not."""
    scripts = tmp_path / "checkout" / "gpu_perf_scripts"
    scripts.mkdir(parents=True)
    for name in (*mi300a.LISTED.values(), "other.cpp"):
        if name:
            (scripts / name).write_text("")
    return tmp_path / "checkout"


def test_the_shorter_of_two_runs_counts_and_above_a_gigabyte_the_second_alone(tmp_path: Path, checkout: Path) -> None:
    large = 1 << 27  # three arrays of 0.5 GiB
    rows = f"vectoradd,1024,5,0.01,0.0050,0.01\nvectoradd,{large},5,0.6,0.5000,0.6\n"
    second = f"vectoradd,1024,51,0.01,0.0040,0.01\nvectoradd,{large},51,0.6,0.3000,0.6\n"
    write_times(tmp_path, rows, second=second)
    small, huge = mi300a.read_programs(tmp_path, checkout)
    assert small.measured_us == pytest.approx(4) and huge.measured_us == pytest.approx(500)
    assert huge.footprint_bytes == 3 * 4 * large


def test_only_listed_benchmarks_are_opened(tmp_path: Path, checkout: Path) -> None:
    write_times(tmp_path, "other,1024,5,0.01,0.005,0.01\n")
    with pytest.raises(ValueError, match="'other' is not listed"):
        mi300a.read_programs(tmp_path, checkout)
    with pytest.raises(ValueError, match="'other' is not listed, so its source is not opened; listed: atax"):
        mi300a.listed_source(checkout, "other", "kernel")


def test_a_checkout_without_the_source(tmp_path: Path) -> None:
    write_times(tmp_path, "relu,1024,5,0.01,0.005,0.01\n")
    with pytest.raises(FileNotFoundError, match="--mgpusim wants the folder of a checkout of sarchlab/mgpusim"):
        mi300a.read_programs(tmp_path, tmp_path)


def test_sorting_launches_once_for_each_pass(tmp_path: Path, checkout: Path) -> None:
    write_times(tmp_path, "bitonicsort,1024,5,0.2,0.15,0.2\n")
    (program,) = mi300a.read_programs(tmp_path, checkout)
    assert isinstance(program.steps[0], HostCopy) and program.steps[0].nbytes == 4096
    launches = list(program.launches)
    # Ten stages of one to ten passes; the shortest distance comes in each of them.
    assert sum(step.times for step in launches) == 55
    assert launches[0].times == 10 and launches[0].launch.arguments[1:3] == (9, 9)
    assert launches[-1].times == 1 and launches[-1].launch.arguments[1:3] == (9, 0)


def test_host_copies_are_staged_up_to_a_megabyte() -> None:
    assert HostCopy(1 << 20).time_us == pytest.approx(18 + (1 << 20) / 5.1e3)
    assert HostCopy(2 << 20).time_us == pytest.approx(18 + (2 << 20) / 38.9e3)
    assert HostCopy(4096, follows=True).time_us == pytest.approx(6 + 4096 / 5.1e3)


def test_rows_of_other_benchmarks_are_left_out(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "mi300x_kernels.csv").write_text(
        "benchmark,scaling_param,value,params,kernel_ms\n"
        "rodinia_pathfinder,cols,1000,block_size=256;rows=100,0.282695\n"
        "graph_pr,vertices,1024,degree=16;pr_iterations=5,0.087145\n"
    )
    (program,) = mi300x.read_programs(tmp_path, checkout)
    assert program.label == "1000 rows=100" and program.measured_us == pytest.approx(282.695)
    assert [step.times for step in program.launches] == [99]


def test_elimination_launches_two_kernels_a_pivot(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "mi300x_kernels.csv").write_text(
        "benchmark,scaling_param,value,params,kernel_ms\nrodinia_gaussian,size,64,block_size=256;verify=false,0.757631\n"
    )
    (program,) = mi300x.read_programs(tmp_path, checkout)
    assert sum(step.times for step in program.launches) == 2 * 63


def test_a_band_matrix_and_a_cycle() -> None:
    columns = make_array(Array("cols", 4 * 6, ("band", 3, 2))).view(np.int32)
    assert columns.tolist() == [0, 1, 1, 2, 2, 0]
    cycle = make_array(Array("nodes", 64 * 8, ("cycle", 64))).view(np.int32)
    seen, node = [], 0
    for _ in range(8):
        seen.append(node)
        node = int(cycle[node])
    assert node == 0 and sorted(seen) == list(range(0, 128, 16))


def test_distances_after_all_passes_are_shortest() -> None:
    start, end = (
        make_array(Array("d", 4 * 12 * 12, ("distances", 12, passes))).view(np.uint32).reshape(12, 12)
        for passes in (0, 12)
    )
    shortest = start.astype(np.int64)
    for node in range(12):
        for row in range(12):
            for column in range(12):
                shortest[row, column] = min(shortest[row, column], shortest[row, node] + shortest[node, column])
    assert (end == shortest).all() and (end < start).any()


def test_device_code_keeps_line_numbers() -> None:
    text = '#include "bench_common.h"\n__global__ void k() {}\n\nint main(int argc, char** argv) { return 0; }\n'
    assert device_code(text) == "\n__global__ void k() {}\n"


def own_kernels() -> list[Source]:
    files = Path(mi300a.OWN_KERNELS).glob("*.hip")
    found = [Source(path, name) for path in files for name in re.findall(r"__global__ void (\w+)\(", path.read_text())]
    assert len(found) > 10
    return found


@pytest.mark.compile
@pytest.mark.parametrize("source", own_kernels(), ids=lambda source: source.kernel)
def test_own_kernels_compile(source: Source) -> None:
    assert code_object(source, "gfx942").name == source.kernel


def copy_program(nbytes: int) -> Program:
    return Program("mi300a", "copy", str(nbytes), 4.0, mi300a.device_copy(nbytes, 228))


@pytest.mark.execute
def test_an_observation_is_executed_once_and_priced_again(tmp_path: Path) -> None:
    store, program = Store(tmp_path), copy_program(1 << 20)
    (step,) = program.launches
    asked: list[int] = []
    pairs = [(step.launch, "mi300a")]
    first = observe(pairs, store, progress=lambda done, total, what: asked.append(total))
    again = observe(pairs, store, progress=lambda done, total, what: asked.append(total))
    assert asked == [1]
    key = key_of(step.launch, DEVICE)
    assert first == again == {pairs[0]: key} and key in store
    assert store.load(key).traffic.minimum_bytes == 2 << 20
    slow = Variant("mi300a", (("launch.first_us", DEVICE.launch.first_us + 1),))
    # A constant with a range prices, and changes nothing of what was executed.
    assert key_of(step.launch, slow.build()) == key
    pricer = Pricer(again, store)
    (before,), (after,) = pricer.price([program], Variant), pricer.price([program], lambda name: slow)
    assert after.point.predicted_us - before.point.predicted_us == pytest.approx(1)


@pytest.mark.execute
def test_prices_are_kept_for_the_same_constants_and_model(tmp_path: Path) -> None:
    store, programs = Store(tmp_path), [copy_program(nbytes << 20) for nbytes in range(1, 21)]
    keys = observe([(step.launch, "mi300a") for program in programs for step in program.launches], store, jobs=2)
    counts: list[int] = []
    rounds = [
        Pricer(keys, store).price(programs, Variant, jobs=jobs, progress=lambda done, total: counts.append(total))
        for jobs in (2, 1)
    ]
    assert counts == [20] * 20 and rounds[0] == rounds[1]


@pytest.mark.execute
def test_a_chain_pays_for_an_empty_queue_once_unless_each_launch_is_timed_alone(tmp_path: Path) -> None:
    (step,) = copy_program(1 << 20).launches
    chain = Program("mi300a", "copy", "chain", 4.0, (HostCopy(1 << 20), Launches(step.launch, 3)))
    alone = Program("mi300a", "copy", "alone", 4.0, (Launches(step.launch, 3),), each=Position.FIRST)
    store = Store(tmp_path)
    pricer = Pricer(observe([(step.launch, "mi300a")], store), store)
    single, three, priced = pricer.price([copy_program(1 << 20), alone, chain], Variant)
    assert three.point.predicted_us == pytest.approx(3 * single.point.predicted_us)
    assert priced.host_us == HostCopy(1 << 20).time_us
    saved = DEVICE.launch.first_us - DEVICE.launch.back_to_back_us
    assert priced.point.predicted_us == pytest.approx(
        priced.host_us + 3 * single.point.predicted_us - 2 * saved, rel=0.02
    )
    _, high = priced.ends["launch.back_to_back_us"]
    quantity = DEVICE.quantities["launch.back_to_back_us"]
    assert quantity.high is not None
    assert high - priced.point.predicted_us == pytest.approx(2 * (quantity.high - quantity.value), rel=1e-3)


@pytest.mark.execute
def test_the_copy_kernel_moves_each_byte_once() -> None:
    (step,) = copy_program(1 << 20).launches
    traffic = execute(step.launch, DEVICE).traffic
    assert (traffic.minimum_read_bytes, traffic.minimum_write_bytes) == (1 << 20, 1 << 20)
    assert traffic.coalescing_efficiency == 1.0


def test_a_launch_that_differs_in_an_argument_is_another_one() -> None:
    source = Source(mi300a.OWN_KERNELS / "runtime.hip", "fill_words")
    array = Array("destination", 4096)
    first, other = (Launch(source, (4, 1, 1), (256, 1, 1), (array, value, 1024)) for value in (0, 1))
    assert first.description != other.description and first.arrays == (array,)


@pytest.mark.execute
def test_a_launch_finds_what_others_just_wrote_in_no_l2(tmp_path: Path) -> None:
    (step,) = copy_program(4 << 20).launches
    programs = [
        Program("mi300a", "copy", str(fresh), 4.0, (Launches(step.launch, 1, reads_fresh=fresh),))
        for fresh in (False, True)
    ]
    store = Store(tmp_path)
    pricer = Pricer(observe([(step.launch, "mi300a")], store), store)
    kept, fresh = pricer.price(programs, Variant)
    assert kept.point.predicted_us < fresh.point.predicted_us
    assert kept.terms[Bound.WRITE_BACK] == 0 < fresh.terms[Bound.WRITE_BACK]
