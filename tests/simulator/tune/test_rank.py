"""Configurations are ranked by predicted time, and ruled out by what their compiled code needs."""

from __future__ import annotations

import pytest
import triton
from tuned_kernels import COUNT, blocks, increment_kernel, normalize_kernel, scale_kernel, transpose_kernel

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.tune import Constraint, Limits, Ranking, rank
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]


def config(block: int, *, warps: int = 4, stages: int = 2, **others: int) -> triton.Config:
    return triton.Config({"BLOCK": block, **others}, num_warps=warps, num_stages=stages)


SCALES = [config(64, warps=1), config(1024), config(1024, stages=3)]


def rank_scales(**options: object) -> Ranking:
    source, target = torch.ones(COUNT), torch.zeros(COUNT)
    return rank(scale_kernel, SCALES, grid=blocks, args=(source, target, COUNT, 2.0), **options)


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    return rank_scales(device="mi300x")


def test_the_order_and_the_times_are_those_of_launches(ranking: Ranking) -> None:
    source, target = torch.ones(COUNT), torch.zeros(COUNT)
    launched = {}
    for item in SCALES:
        with virtual_device("mi300x", workgroups="sample") as device:
            scale_kernel[blocks](source, target, COUNT, 2.0, **item.all_kwargs())
        launched[item] = device.launches[0].result.time.predicted_us
    assert {item.config: item.time and item.time.predicted_us for item in ranking.timed} == pytest.approx(launched)
    assert [item.config for item in ranking.timed] == sorted(SCALES, key=lambda item: launched[item])


def test_configurations_that_are_one_program_do_not_differ_and_keep_their_order(ranking: Ranking) -> None:
    two, three = (next(item for item in ranking.timed if item.config == wanted) for wanted in SCALES[1:])
    assert two.code_object == three.code_object
    assert ranking.programs == 2
    assert ranking.timed.index(two) < ranking.timed.index(three)
    assert two.time is three.time or two.time == three.time
    assert ranking.slower(two).ratio == ranking.slower(three).ratio
    assert (two in ranking.alike) == (three in ranking.alike)
    assert ranking.best in ranking.alike
    same = ranking.slower(ranking.best)
    assert (same.low, same.ratio, same.high) == (1, 1, 1)


def test_an_active_virtual_device_is_taken_if_none_is_named_and_stays_active() -> None:
    with virtual_device("mi355x") as device:
        found = rank_scales()
        scale_kernel[(1,)](torch.ones(64), torch.zeros(64), 64, 2.0, BLOCK=64)
    assert found.device.name == "mi355x"
    assert [launch.kernel for launch in device.launches] == ["scale_kernel"]


def test_without_a_device_the_error_says_how_to_name_one() -> None:
    with pytest.raises(LaunchError) as caught:
        rank_scales()
    assert "device=" in caught.value.hint


def test_a_launch_without_configurations_is_refused() -> None:
    with pytest.raises(LaunchError, match="no configurations of scale_kernel"):
        rank(scale_kernel, grid=(1,), args=(), device="mi300x")


def test_an_autotuned_kernel_brings_its_configurations() -> None:
    tuned = triton.autotune(configs=SCALES[:2], key=["count"])(scale_kernel)
    found = rank(tuned, grid=blocks, args=(torch.ones(COUNT), torch.zeros(COUNT), COUNT, 2.0), device="mi300x")
    assert {item.config for item in found.timed} == set(SCALES[:2])


def test_tensors_hold_what_they_held_before_unless_that_is_waived() -> None:
    values = torch.zeros(COUNT)
    for keep in (True, False):
        rank(increment_kernel, SCALES[1:2], grid=blocks, args=(values, COUNT), device="mi300x", keep_tensors=keep)
        assert bool((values == 0).all()) == keep


def test_what_rules_configurations_out_is_said_with_numbers() -> None:
    refused = {
        Constraint.WAVEFRONT: (config(64, warps=32), "32 waves of 64 lanes are 2,048 work-items"),
        Constraint.COMPILER: (config(64, warps=3), "power of 2"),
    }
    tensors = torch.zeros(64, 64), torch.zeros(64, 64)
    found = rank(
        transpose_kernel,
        [item for item, _ in refused.values()],
        grid=(1, 1),
        args=(*tensors, 64, 64),
        device="mi300x",
    )
    assert found.best is None
    told = {item.config: item.ruled_out for item in found.ruled_out}
    for constraint, (item, words) in refused.items():
        rule = told[item]
        assert rule is not None and rule.constraint is constraint and words in rule.reason
        assert f"{constraint}: " in str(found)


def test_what_does_not_fit_one_device_fits_another() -> None:
    # A transpose through the LDS, all of it at once from Triton 3.7 on: 128 KiB, more than an MI300X has.
    tensors = torch.zeros(128, 128, dtype=torch.float64), torch.zeros(128, 128, dtype=torch.float64)
    small, large = (
        rank(transpose_kernel, [config(128, warps=8)], grid=(1, 1), args=(*tensors, 128, 128), device=name)
        for name in ("mi300x", "mi355x")
    )
    assert not large.ruled_out
    needed = large.best.usage.lds_bytes
    if triton.__version__ >= "3.7":
        assert needed == 128 << 10
    reasons = [(item.ruled_out.constraint, item.ruled_out.reason) for item in small.ruled_out]
    too_much = (Constraint.LDS, f"{needed:,} bytes a workgroup of the 65,536 that there are")
    assert reasons == ([too_much] if needed > 64 << 10 else [])


def test_spills_rule_a_configuration_out_unless_they_are_allowed() -> None:
    values = torch.ones(1 << 14)
    spilling, fitting = config(1 << 13, warps=1, waves_per_eu=8), config(1 << 10, warps=4)
    launch = {"grid": lambda meta: ((1 << 14) // meta["BLOCK"],), "args": (values,), "device": "mi300x"}
    strict = rank(normalize_kernel, [spilling, fitting], **launch)
    [refused] = strict.ruled_out
    assert refused.config == spilling and refused.ruled_out.constraint is Constraint.SPILLS
    assert refused.usage.spill_bytes > 0 and refused.time is None
    generous = rank(normalize_kernel, [spilling, fitting], limits=Limits(spill_bytes=None), **launch)
    assert not generous.ruled_out
    assert generous.best.config == fitting


def test_an_occupancy_that_the_user_wants_rules_out_what_does_not_reach_it() -> None:
    tensors = torch.zeros(128, 128), torch.zeros(128, 128)
    found = rank(
        transpose_kernel,
        [config(128, warps=4), config(32, warps=4)],
        grid=(1, 1),
        args=(*tensors, 128, 128),
        device="mi300x",
        limits=Limits(waves_per_simd=2),
    )
    # 128 × 128 values of 4 bytes are the whole LDS of a CU: one workgroup of four waves, one for each SIMD.
    [refused] = found.ruled_out
    assert refused.config.kwargs["BLOCK"] == 128
    assert refused.ruled_out.constraint is Constraint.OCCUPANCY
    assert refused.ruled_out.reason == "1 waves a SIMD (LDS), and 2 wanted"


def test_limits_that_make_no_sense_are_refused() -> None:
    for wrong in ({"spill_bytes": -1}, {"waves_per_simd": 0}):
        with pytest.raises(LaunchError):
            Limits(**wrong)


def test_the_table_has_every_configuration_and_says_which_are_alike(ranking: Ranking) -> None:
    text = str(ranking)
    assert all(item.name in text for item in ranking.candidates)
    assert text.splitlines()[0].startswith("scale_kernel on mi300x: 3 configurations, 2 programs")
    assert text.count("\n= ") == len(ranking.alike)


def test_compile_time_is_that_of_the_compilation_also_when_the_cache_has_the_code(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    seconds = []
    for _ in range(2):
        scale_kernel.device_caches.clear()
        seconds.append(rank_scales(device="mi300x").compile_s)
    scale_kernel.device_caches.clear()
    assert seconds[0] == seconds[1] > 0
