"""The FP8 formats against torch, ml_dtypes and each other; which device gets which."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from wavecast.kernels import device
from wavecast.kernels.device import Path, active_arch, arch_of, last_path, native_format, route
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, FORMATS, Fp8Format, format_named, format_of
from wavecast.kernels.reference_ops import EPS, inverse_of, quantize, scale_from_amax
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

EVERY_FORMAT = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
ML_DTYPES = {
    E4M3FN: ml_dtypes.float8_e4m3fn,
    E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    E5M2: ml_dtypes.float8_e5m2,
    E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}
ALL_BYTES = torch.arange(256, dtype=torch.int32).to(torch.uint8)


def all_bf16() -> torch.Tensor:
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


@EVERY_FORMAT
def test_description_agrees_with_every_byte(fmt: Fp8Format) -> None:
    values = ALL_BYTES.view(fmt.dtype).float()
    assert values.isnan().nonzero().flatten().tolist() == sorted(fmt.nan_bytes)
    assert bool(values.isinf().any()) is fmt.has_inf
    finite = values[values.isfinite()]
    assert finite.max() == fmt.max
    assert finite[finite > 0].min() == fmt.min_subnormal
    negative_zero = bool(values[0x80] == 0)
    assert negative_zero is fmt.has_negative_zero
    assert fmt.exponent_bits + fmt.mantissa_bits == 7
    assert values[1 << fmt.mantissa_bits] == fmt.min_normal


@EVERY_FORMAT
def test_torch_and_ml_dtypes_decode_alike(fmt: Fp8Format) -> None:
    wanted = ALL_BYTES.numpy().view(ML_DTYPES[fmt]).astype(np.float32)
    np.testing.assert_array_equal(ALL_BYTES.view(fmt.dtype).float().numpy(), wanted)


@EVERY_FORMAT
def test_quantize_agrees_with_ml_dtypes_on_every_bf16_value(fmt: Fp8Format) -> None:
    x = all_bf16()
    ours = quantize(x, torch.ones(1), fmt).view(torch.uint8).numpy()
    clipped = np.clip(x.float().numpy(), -fmt.max, fmt.max)  # keeps NaN
    with np.errstate(invalid="ignore"):
        theirs = clipped.astype(ML_DTYPES[fmt]).view(np.uint8)
    nan = x.isnan().numpy()
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])
    assert set(ours[nan].tolist()) <= set(fmt.nan_bytes)


def test_a5_negative_zero_and_tiny_negatives_are_zero_in_fnuz() -> None:
    codes = quantize(torch.tensor([-0.0, -1e-5, -1e-7]), torch.ones(1), E4M3FNUZ).view(torch.uint8)
    assert codes.tolist() == [0, 0, 0]


@EVERY_FORMAT
def test_a7_infinity_saturates_and_nan_stays(fmt: Fp8Format) -> None:
    q = quantize(torch.tensor([float("inf"), float("-inf"), float("nan")]), torch.ones(1), fmt).float()
    assert q[0] == fmt.max
    assert q[1] == -fmt.max
    assert q[2].isnan()


@EVERY_FORMAT
@pytest.mark.parametrize("power_of_two", [False, True])
def test_scale_is_finite_for_every_finite_amax(fmt: Fp8Format, power_of_two: bool) -> None:
    x = all_bf16().float()
    amax = x[x.isfinite() & (x >= 0)]
    scale = scale_from_amax(amax, fmt, power_of_two=power_of_two)
    assert scale.isfinite().all()
    assert (scale > 0).all()
    assert inverse_of(scale).isfinite().all()
    exact = fmt.max / np.maximum(amax.double().numpy(), np.float64(np.float32(EPS)))
    rounded = exact.astype(np.float32)  # one rounding: the fp64 quotient of two fp32 numbers rounds innocuously
    if power_of_two:
        rounded = np.exp2(np.floor(np.log2(rounded.astype(np.float64)))).astype(np.float32)
    np.testing.assert_array_equal(scale.numpy(), rounded)


def test_power_of_two_scale_keeps_an_exact_power() -> None:
    amax = torch.tensor([E4M3FNUZ.max / 2.0**k for k in range(-20, 21)])
    wanted = torch.tensor([2.0**k for k in range(-20, 21)])
    assert torch.equal(scale_from_amax(amax, E4M3FNUZ, power_of_two=True), wanted)


@EVERY_FORMAT
def test_lookup_by_dtype_and_name(fmt: Fp8Format) -> None:
    assert format_of(fmt.dtype) is fmt
    assert format_named(fmt.name) is fmt
    assert fmt.triton_dtype.primitive_bitwidth == 8
    assert fmt.triton_dtype.exponent_bias == fmt.exponent_bias
    assert fmt.triton_dtype.fp_mantissa_width == fmt.mantissa_bits


def test_lookup_names_what_is_possible() -> None:
    with pytest.raises(ValueError, match=r"float16 is not an FP8 dtype; use one of .*float8_e4m3fnuz"):
        format_of(torch.float16)
    with pytest.raises(ValueError, match="'fp8' is not known; use one of e4m3fn, e4m3fnuz"):
        format_named("fp8")


def test_a8_240_by_default_and_224_on_request() -> None:
    """With 224 no byte is 7F or FF, which e4m3fn reads as NaN: every other code means twice as much there."""
    assert E4M3FNUZ.max == 240
    limited = E4M3FNUZ.limited_to(224)
    assert (limited.name, limited.max, limited.dtype) == ("e4m3fnuz-max224", 224.0, E4M3FNUZ.dtype)
    assert limited.is_native_on("gfx942")
    x = torch.cat([torch.linspace(-1, 1, 1025), torch.tensor([float("inf"), float("-inf")])])
    values, scale, _ = quantize_rowwise_reference(x[None].to(torch.bfloat16), limited, power_of_two=False)
    assert scale == 224
    assert values.float().abs().max() == 224
    assert torch.equal(values.view(E4M3FN.dtype).float(), 2 * values.float())


def test_a_limited_format_is_found_by_its_name() -> None:
    limited = E4M3FN.limited_to(416)
    assert format_named(limited.name) == limited
    assert format_named("e4m3fnuz-max0.0009765625").max == E4M3FNUZ.min_subnormal
    assert limited.limited_to(384) == E4M3FN.limited_to(384)
    assert E4M3FN.limited_to(448) is E4M3FN
    for unknown in ("e4m3fn-max", "e4m3fn-maximum", "fp8-max224"):
        with pytest.raises(ValueError, match="is not known; use one of e4m3fn"):
            format_named(unknown)


@pytest.mark.parametrize("maximum", [0, -224, 225, 448, float("inf"), float("nan")])
def test_a_limit_is_a_value_of_the_format(maximum: float) -> None:
    with pytest.raises(ValueError, match=r"is no value of e4m3fnuz; wanted is one that it encodes exactly, .* to 240"):
        E4M3FNUZ.limited_to(maximum)


@pytest.mark.parametrize(
    ("target", "arch", "fmt"),
    [
        (GPUTarget("hip", "gfx942", 64), "gfx942", E4M3FNUZ),
        (GPUTarget("hip", "gfx942:sramecc+:xnack-", 64), "gfx942", E4M3FNUZ),
        (GPUTarget("hip", "gfx950", 64), "gfx950", E4M3FN),
        (GPUTarget("cuda", 89, 32), "sm_89", E4M3FN),
        (GPUTarget("cuda", 90, 32), "sm_90", E4M3FN),
        (GPUTarget("cuda", 120, 32), "sm_120", E4M3FN),
    ],
)
def test_a2_native_format_follows_the_device(target: GPUTarget, arch: str, fmt: Fp8Format) -> None:
    assert arch_of(target) == arch
    assert native_format(arch) is fmt
    assert fmt.is_native_on(arch)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100", "sm_80"])
def test_a2_other_architectures_are_refused_with_the_possible_ones(arch: str) -> None:
    with pytest.raises(ValueError, match=rf"'{arch}'.*gfx942 \(e4m3fnuz\).*gfx950.*sm_89"):
        native_format(arch)


class FakeDriver:
    """Stands for an active driver: the two things that the kernels ask of one."""

    def __init__(self, target: GPUTarget, *, is_virtual: bool) -> None:
        self.target = target
        self.is_virtual = is_virtual

    def get_current_target(self) -> GPUTarget:
        return self.target


def activate(monkeypatch: pytest.MonkeyPatch, arch: str, *, is_virtual: bool) -> None:
    monkeypatch.setattr(driver, "_active", FakeDriver(GPUTarget("hip", arch, 64), is_virtual=is_virtual))


def test_virtual_driver_takes_cpu_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, "gfx942", is_virtual=True)
    chosen = route(torch.zeros(2))
    assert active_arch() == "gfx942"
    assert (chosen.path, chosen.arch, chosen.format) == (Path.TRITON, "gfx942", E4M3FNUZ)
    assert last_path() is Path.TRITON
    assert route(torch.zeros(2), format=E4M3FN).format is E4M3FN


def test_cpu_tensors_are_an_error_while_a_real_gpu_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, "gfx950", is_virtual=False)
    with pytest.raises(ValueError, match=r"CPU tensors while a real gfx950 is active; move them to the GPU"):
        route(torch.zeros(2))


def test_device_tensors_are_an_error_while_a_virtual_device_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, "gfx942", is_virtual=True)
    with pytest.raises(ValueError, match=r"GPU tensors while a virtual gfx942 is active"):
        route(torch.zeros(2, device="meta"))


def test_without_a_driver_the_reference_path_is_visible(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device, "_active_driver", lambda: None)
    with caplog.at_level(logging.INFO, logger="wavecast.kernels.device"):
        chosen = route(torch.zeros(2), format=E4M3FNUZ)
    assert chosen.path is Path.REFERENCE
    assert chosen.arch is None
    assert last_path() is Path.REFERENCE
    assert "path reference" in caplog.text
    with pytest.raises(ValueError, match="no format given and no active device"):
        route(torch.zeros(2))
    with pytest.raises(ValueError, match="Triton has no active driver"):
        route(torch.zeros(2, device="meta"), format=E4M3FN)


def test_a_dtype_is_no_format() -> None:
    with pytest.raises(
        ValueError, match=r"format is torch.float8_e4m3fn; wanted is an Fp8Format .* format_of\(dtype\)"
    ):
        route(torch.zeros(2), format=torch.float8_e4m3fn)


def test_a_format_that_triton_cannot_convert_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_active", FakeDriver(GPUTarget("cuda", 90, 32), is_virtual=True))
    with pytest.raises(ValueError, match="e4m3fnuz cannot be produced on sm_90; possible there: e4m3fn, e5m2"):
        route(torch.zeros(2), format=E4M3FNUZ)


def test_tensors_on_two_devices_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tensors are on \['cpu', 'meta'\]"):
        route(torch.zeros(2), torch.zeros(2, device="meta"), format=E4M3FN)


def test_other_backends_are_refused() -> None:
    with pytest.raises(ValueError, match="backend 'xpu' is not supported"):
        arch_of(SimpleNamespace(backend="xpu", arch="pvc"))
