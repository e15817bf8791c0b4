"""Predictions: what bounds them, how they move, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.runs import RUN
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing import Bound, TimePrediction, combine_us, predict_time
from wavecast.simulator.traffic import Traffic

LARGE = 1 << 20


@pytest.fixture
def predict(
    device: Device,
    copy_kernel: Kernel,
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> Callable[..., TimePrediction]:
    """Predict the copy kernel with some of its traffic changed."""

    def build(
        workgroups: int = LARGE,
        *,
        position: str = "back-to-back",
        warm: bool = False,
        on: Device = device,
        **changes: object,
    ):
        execution = execution_of(copy_kernel, workgroups)
        traffic = traffic_of(copy_kernel, device, workgroups, **changes)
        return predict_time(copy_kernel, execution, traffic, on, position=position, warm=warm)

    return build


def test_the_interval_holds_the_point(predict: Callable[..., TimePrediction]) -> None:
    for workgroups in (1, 100, 10_000, LARGE):
        found = predict(workgroups)
        assert 0 < found.low_us < found.predicted_us < found.high_us


def test_the_terms_of_a_launch_are_all_of_its_time(predict: Callable[..., TimePrediction], device: Device) -> None:
    """What compares two launches by exchanging their terms relies on it."""
    for workgroups in (1, 10_000, LARGE):
        for changes in ({}, {"release_fences": 1 << 20}, {"channel_imbalance": 3.0}):
            found = predict(workgroups, **changes)
            assert combine_us(found.terms, device) == found.predicted_us


def test_a_tiny_launch_is_bound_by_the_launch(predict: Callable[..., TimePrediction], device: Device) -> None:
    found = predict(1)
    assert found.bound is Bound.LAUNCH
    assert found.predicted_us == pytest.approx(device.launch.back_to_back_us + 0.6, abs=0.3)
    assert "launch itself" in found.cause
    working_us = found.predicted_us - found.terms[Bound.LAUNCH]
    without = device.with_value("launch.alone_us", 0.0)
    for position, before_us in (("first", device.launch.first_us), ("queued", device.launch.queued_us)):
        assert predict(1, position=position, on=without).predicted_us == pytest.approx(before_us + working_us)


def test_a_launch_alone_takes_no_less_than_the_host_needs_for_it(
    predict: Callable[..., TimePrediction], device: Device
) -> None:
    """Whatever short kernels do; a longer one takes its time and what lies before it."""
    assert predict(1, position="first").predicted_us == pytest.approx(device.launch.alone_us)
    large = predict(LARGE, position="first")
    assert large.terms[Bound.LAUNCH] == device.launch.first_us


@pytest.mark.parametrize(("workgroups", "hidden"), [(1, True), (256, True), (LARGE, False)])
def test_a_chain_is_no_faster_than_launches_are_submitted(
    predict: Callable[..., TimePrediction], device: Device, workgroups: int, hidden: bool
) -> None:
    slow = device.with_value("launch.submit_us", 8.0)
    found = predict(workgroups, on=slow)
    working_us = found.predicted_us - found.terms[Bound.LAUNCH]
    assert (working_us + device.launch.back_to_back_us < 8) == hidden
    assert found.predicted_us == pytest.approx(8 if hidden else working_us + device.launch.back_to_back_us)
    alone = [predict(workgroups, on=changed, position="first") for changed in (slow, device)]
    assert alone[0].predicted_us == alone[1].predicted_us


def test_one_dword_a_lane_is_bound_by_the_workgroup_launch(predict: Callable[..., TimePrediction]) -> None:
    """A million workgroups of four waves: 0.476 ns each on MI300X is 499 µs, 2 GB at 4.11 TB/s is 522 µs."""
    found = predict()
    assert found.terms[Bound.WORKGROUP_LAUNCH] == pytest.approx(499, rel=0.01)
    assert found.terms[Bound.HBM] == pytest.approx(522, rel=0.01)
    assert found.bound is Bound.HBM
    assert "HBM moves 1,073.7 MB in and 1,073.7 MB out, 1.00 times" in found.cause
    pushing = predict(hbm_write_bytes=1_200_000_000)
    assert "1,200.0 MB out, of which others had left 126.3 MB or more in the cache before it" in pushing.cause


def test_large_workgroups_start_by_the_wave(
    device: Device,
    kernel_of: Callable[..., Kernel],
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> None:
    """2,097,152 empty workgroups of 1,024 threads take 2,122 µs on a real MI300X, of 256 threads 1,012 µs."""
    for size, measured_us in ((1024, 2122.2), (256, 1011.7)):
        kernel = kernel_of(["s_endpgm"], workgroup_size=size)
        count = 2_097_152
        nothing = dict.fromkeys(("l2_read_bytes", "fabric_read_bytes", "fabric_write_bytes", "l2_write_requests"), 0)
        traffic = traffic_of(kernel, device, count, hbm_read_bytes=0, hbm_write_bytes=0, **nothing)
        found = predict_time(kernel, execution_of(kernel, count), traffic, device)
        assert found.bound is Bound.WORKGROUP_LAUNCH
        assert found.terms[Bound.WORKGROUP_LAUNCH] == pytest.approx(measured_us, rel=0.02)


@pytest.mark.parametrize(
    "name",
    [
        "hbm_read_bytes",
        "hbm_write_bytes",
        "fabric_read_bytes",
        "l2_read_bytes",
        "channel_imbalance",
        "atomic_requests",
        "hot_line_atomics",
        "release_fences",
    ],
)
def test_more_of_anything_is_never_faster(predict: Callable[..., TimePrediction], name: str) -> None:
    times = [predict(**{name: amount}).predicted_us for amount in (1, 10**6, 10**8, 10**10)]
    assert times == sorted(times)
    assert times[-1] > times[0]


def test_more_partial_writes_are_never_faster(predict: Callable[..., TimePrediction]) -> None:
    amounts = (10**7, 10**8, 10**9)
    times = [predict(l2_write_requests=count, l2_partial_write_requests=count).predicted_us for count in amounts]
    assert times == sorted(times)
    assert times[-1] > times[0]


def test_scattered_stores_are_bound_by_l2(predict: Callable[..., TimePrediction]) -> None:
    requests = 64 * 4 * LARGE
    near = predict()
    far = predict(l2_write_requests=requests, l2_partial_write_requests=requests, channel_imbalance=4.0)
    assert far.predicted_us > near.predicted_us
    assert far.bound is Bound.L2
    assert "268,435,456 write requests reach the L2, 100 % of them for less than 64 bytes" in far.cause
    assert "global_store_dword at kernel.py:15" in far.cause
    assert "4.0 times the mean at one channel" in far.cause
    constants = [entry.constant for entry in far.sensitivity]
    assert set(constants[:2]) == {"l2.in_step", "l2.write_request_clk"}
    assert far.high_us / far.predicted_us > near.high_us / near.predicted_us


def test_executed_fences_cost(
    device: Device,
    kernel_of: Callable[..., Kernel],
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> None:
    plain = ["global_atomic_add_f32 v0, v1, s[0:1]", "s_waitcnt vmcnt(0)", "s_endpgm"]
    fenced = ["buffer_wbl2 sc1", "s_waitcnt vmcnt(0) lgkmcnt(0)", *plain[:2], "buffer_inv sc1", "s_endpgm"]
    times = []
    for texts in (plain, fenced):
        kernel = kernel_of(texts)
        traffic = traffic_of(kernel, device, 4096, release_fences=4 * 4096 * ("buffer_wbl2 sc1" in texts))
        times.append(predict_time(kernel, execution_of(kernel, 4096), traffic, device))
    assert times[1].predicted_us > 1.5 * times[0].predicted_us
    assert times[1].bound is Bound.FENCES
    assert times[1].cause == "16,384 waves write back their L2 with buffer_wbl2"
    assert any(entry.constant.startswith("fences.") for entry in times[1].sensitivity)


def test_a_dependent_load_makes_latency_the_bound(
    device: Device,
    kernel_of: Callable[..., Kernel],
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> None:
    kernel = kernel_of(["global_load_dword v1, v0, s[0:1]", "s_waitcnt vmcnt(0)", "s_endpgm"], workgroup_size=64)
    execution = execution_of(kernel, 304)
    runs = np.array([(0, 0, 0, 2, 999), (0, 0, 0, 3, 1)], dtype=RUN)
    loop = replace(execution, executed=np.array([304_000, 304_000, 304]), runs=runs)
    rows = tuple(replace(row, executed=304_000) for row in traffic_of(kernel, device, 304_000).instructions)
    traffic = traffic_of(kernel, device, 304, instructions=rows)
    found = predict_time(kernel, loop, traffic, device)
    assert found.bound is Bound.LATENCY
    assert "global_load_dword at kernel.py:10" in found.cause
    assert "8 waves a SIMD (wave slots)" in found.cause
    # A thousand loads one after another, each from HBM at 869 cycles and a few of issue.
    assert found.compute_unit_us == pytest.approx(1000 * 881 / 2100, rel=0.02)
    load, wait, end = found.instruction_clk
    assert (load.executed, wait.executed, end.executed) == (1000, 1000, 1)
    assert load.caused_clk == wait.wait_clk == pytest.approx(1000 * 873, rel=0.02)


def test_phases_that_do_not_overlap_are_a_term(
    device: Device,
    kernel_of: Callable[..., Kernel],
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> None:
    """Loading and computing take about as long each; with one workgroup on a compute unit their times add up."""
    texts = ["global_load_dwordx4 v1, v0", "s_waitcnt vmcnt(0)", "s_barrier", *["v_exp_f32"] * 60, "s_endpgm"]
    lost = {}
    for vgpr in (512, 32):
        kernel = kernel_of(texts, vgpr=vgpr)
        traffic = traffic_of(kernel, device, 65_536)
        busy = {"fabric_read_bytes": 4 * traffic.fabric_read_bytes, "hbm_read_bytes": 4 * traffic.hbm_read_bytes}
        found = predict_time(kernel, execution_of(kernel, 65_536), replace(traffic, **busy), device)
        slowest = max(found.compute_unit_us, found.terms[Bound.HBM])
        lost[vgpr] = found.terms[Bound.OVERLAP] / slowest
    assert lost[512] > 0.15
    assert lost[32] < lost[512] / 2


def test_instruction_cycles_add_up_to_the_life_of_a_wave(predict: Callable[..., TimePrediction]) -> None:
    found = predict(1)
    assert [entry.index for entry in found.instruction_clk] == list(range(7))
    life = sum(entry.clk for entry in found.instruction_clk)
    # One wave on each SIMD: 200 cycles of start, then these; the store comes after the end.
    assert life == pytest.approx(200 + 4 * 7 + 900, rel=0.3)
    assert max(found.instruction_clk, key=lambda entry: entry.wait_clk).index == 4


def test_jagged_groups_take_longer(
    device: Device, copy_kernel: Kernel, execution_of: Callable[..., Execution], traffic_of: Callable[..., Traffic]
) -> None:
    traffic = traffic_of(copy_kernel, device, 9728)
    even = predict_time(copy_kernel, execution_of(copy_kernel, 9728), traffic, device)
    work = np.full(9728, 10)
    work[-1] = 10_000
    skewed = predict_time(copy_kernel, execution_of(copy_kernel, 9728, work=work), traffic, device)
    assert skewed.compute_unit_us > 10 * even.compute_unit_us


def test_data_in_the_memory_side_cache_is_faster(predict: Callable[..., TimePrediction]) -> None:
    cold, warm = predict(65_536), predict(65_536, warm=True)
    assert warm.predicted_us < cold.predicted_us
    assert warm.terms[Bound.HBM] == 0.0


def test_sampling_widens_the_interval(predict: Callable[..., TimePrediction]) -> None:
    exact, sampled = predict(), predict(sampling_error=0.2)
    assert sampled.predicted_us == exact.predicted_us
    assert sampled.high_us > exact.high_us
    assert sampled.low_us < exact.low_us
    assert any(entry.constant == "sampling" for entry in sampled.sensitivity)
    unknown = predict(sampling_error=float("inf"))
    assert sampled.high_us < unknown.high_us < 4 * unknown.predicted_us


def test_terms_cover_every_bound_and_the_compute_units_add_up(predict: Callable[..., TimePrediction]) -> None:
    found = predict()
    assert set(found.terms) == set(Bound)
    parts = sum(found.terms[name] for name in (Bound.ISSUE, Bound.LATENCY, Bound.LDS, Bound.L1))
    assert parts == pytest.approx(found.compute_unit_us)
    assert found.waves_per_simd == 8
    assert found.device == load_device("mi300x").digest


def test_sensitivity_is_ordered_and_matters(predict: Callable[..., TimePrediction]) -> None:
    spreads = [entry.spread_us for entry in predict().sensitivity]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] > 0


def test_a_bandwidth_that_is_higher_is_not_slower(
    device: Device, copy_kernel: Kernel, execution_of: Callable[..., Execution], traffic_of: Callable[..., Traffic]
) -> None:
    traffic, execution = traffic_of(copy_kernel, device, LARGE), execution_of(copy_kernel, LARGE)
    for key in ("hbm.mixed_tb_s", "mall.mixed_tb_s", "l2.read_tb_s", "compute.clock_ghz"):
        faster = device.with_value(key, 2 * device.quantities[key].value)
        before = predict_time(copy_kernel, execution, traffic, device).predicted_us
        assert predict_time(copy_kernel, execution, traffic, faster).predicted_us <= before


def test_an_unknown_position_is_refused(predict: Callable[..., TimePrediction]) -> None:
    with pytest.raises(ValueError, match="middle"):
        predict(position="middle")


def test_foreign_traffic_is_refused(
    device: Device, copy_kernel: Kernel, execution_of: Callable[..., Execution], traffic_of: Callable[..., Traffic]
) -> None:
    traffic = replace(traffic_of(copy_kernel, device, 4), kernel="other")
    with pytest.raises(ValueError, match="'other' given for 'by_hand'"):
        predict_time(copy_kernel, execution_of(copy_kernel, 4), traffic, device)


@pytest.mark.parametrize("kinds", ["the long ones first", "the long ones last", "in turn"])
def test_where_in_the_grid_the_recorded_workgroups_of_each_kind_lie_does_not_matter(
    kinds: str,
    device: Device,
    kernel_of: Callable[..., Kernel],
    execution_of: Callable[..., Execution],
    traffic_of: Callable[..., Traffic],
) -> None:
    """Three of eight workgroups work twenty times as long: a unit that holds two is busy with all of that."""
    kernel = kernel_of(["v_add_u32_e32 v0, 1, v0"] * 100 + ["s_endpgm"], vgpr=256)
    recorded, long, waves = 32, 12, 4
    place = np.arange(recorded)
    first = {"the long ones first": place, "the long ones last": recorded - 1 - place, "in turn": place * 13 % recorded}
    is_long = first[kinds] < long
    workgroups = 64 * device.compute.num_cu
    rounds = np.where(np.resize(is_long, workgroups), 20, 1)
    runs = np.zeros((recorded, waves), dtype=RUN)
    runs["position"], runs["wave"] = np.arange(recorded)[:, None], np.arange(waves)
    runs["end"], runs["repeats"] = 100, np.where(is_long, 20, 1)[:, None]
    execution = execution_of(kernel, workgroups, work=rounds * 100 * waves)
    executed = np.append(np.full(100, waves * rounds.sum()), 0)
    execution = replace(execution, runs=runs.ravel(), executed=executed)
    found = predict_time(kernel, execution, traffic_of(kernel, device, workgroups), device)
    # A wave of each workgroup on each SIMD: their instructions keep its vector pipe for four cycles each.
    busy_us = 64 * rounds.mean() * 100 * 4 / device.clk_per_us
    assert found.working_us == pytest.approx(busy_us, rel=0.05)
