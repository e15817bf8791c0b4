"""Devices without FP8 hardware: the plain torch path, right and visible. `test_formats.py` has the other routes."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch
from quantizers import assert_same_results, put_specials, skewed_values
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from wavecast.kernels import device
from wavecast.kernels.device import Path, default_format_name, last_path, route
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.token_padding import pad_token_groups, unpad_token_groups
from wavecast.kernels.transposed_copy import copy_transposed

WITHOUT_FP8 = [GPUTarget("cuda", 80, 32), GPUTarget("hip", "gfx90a", 64)]


def activate(monkeypatch: pytest.MonkeyPatch, target: GPUTarget) -> None:
    """A virtual device of a target; its launches would fail, as there is nothing behind it."""
    monkeypatch.setattr(driver, "_active", SimpleNamespace(get_current_target=lambda: target, is_virtual=True))
    device._warn_emulated.cache_clear()


@pytest.mark.parametrize("target", WITHOUT_FP8, ids=lambda target: str(target.arch))
def test_without_fp8_hardware_the_reference_runs_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, target: GPUTarget
) -> None:
    activate(monkeypatch, target)
    x = put_specials(skewed_values(9, 40))
    with caplog.at_level(logging.WARNING, logger="wavecast.kernels.device"):
        results = [quantize_rowwise(x) for _ in range(2)]
    assert last_path() is Path.EMULATED
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{device.arch_of(target)} has no FP8 hardware" in caplog.text
    for result in results:
        assert_same_results("emulated", result, quantize_rowwise_reference(x, E4M3FN, power_of_two=False))


def test_what_converts_nothing_says_which_path_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is launched where the path is plain torch."""
    activate(monkeypatch, WITHOUT_FP8[0])
    x, offs = skewed_values(9, 40), torch.tensor([2, 9], dtype=torch.int32)
    padded = pad_token_groups(x, offs, 4)
    assert last_path() is Path.EMULATED
    assert torch.equal(unpad_token_groups(padded.tokens, offs, padded.offs, 9), x)
    assert torch.equal(copy_transposed(x), x.t())


def test_any_format_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, WITHOUT_FP8[0])
    chosen = route(torch.zeros(2), format=E4M3FNUZ)
    assert (chosen.path, chosen.arch, chosen.format) == (Path.EMULATED, "sm_80", E4M3FNUZ)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (None, "e4m3fn"),
        (WITHOUT_FP8[0], "e4m3fn"),
        (GPUTarget("cuda", 90, 32), "e4m3fn"),
        (GPUTarget("hip", "gfx942", 64), "e4m3fnuz"),
        (GPUTarget("hip", "gfx950", 64), "e4m3fn"),
    ],
    ids=lambda value: str(getattr(value, "arch", value)),
)
def test_default_format(monkeypatch: pytest.MonkeyPatch, target: GPUTarget | None, name: str) -> None:
    if target is not None:
        activate(monkeypatch, target)
    else:
        monkeypatch.setattr(device, "_active_driver", lambda: None)
    assert default_format_name() == name


def test_paths_that_launch_nothing() -> None:
    assert {path for path in Path if path.is_plain_torch} == {Path.REFERENCE, Path.EMULATED}
