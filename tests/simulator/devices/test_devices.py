"""Device files: complete, in range, cited, and in agreement with published peaks."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest

from wavecast.simulator.devices import (
    Device,
    DeviceFileError,
    Kind,
    architecture_of,
    device_names,
    load_device,
    parse_device,
)
from wavecast.simulator.errors import UnknownDeviceError


def read(stem: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("wavecast.simulator.devices") / f"{stem}.toml").read_text(encoding="utf-8"))


@pytest.fixture(params=device_names())
def device(request: pytest.FixtureRequest) -> Device:
    return load_device(request.param)


def test_names_and_architectures() -> None:
    assert device_names() == ("h200", "mi300a", "mi300x", "mi325x", "mi355x")
    assert [architecture_of(name) for name in device_names()] == ["sm_90", "gfx942", "gfx942", "gfx942", "gfx950"]
    assert load_device("MI300X") == load_device("mi300x")


def test_an_unknown_name_lists_the_possible_ones() -> None:
    with pytest.raises(UnknownDeviceError, match=r"'mi999'.*h200, mi300a, mi300x, mi325x, mi355x"):
        load_device("mi999")


def test_every_constant_is_positive_cited_and_inside_its_range(device: Device) -> None:
    for key, quantity in device.quantities.items():
        assert quantity.value > 0, key
        assert quantity.sources, key
        assert all(len(source) > 10 for source in quantity.sources), key
        if quantity.low is not None and quantity.high is not None:
            assert 0 <= quantity.low <= quantity.value <= quantity.high, key


def test_fractions_lie_in_zero_to_one(device: Device) -> None:
    for key, quantity in device.quantities.items():
        if quantity.unit == "fraction":
            assert 0 < quantity.value <= 1, key
            assert quantity.high is None or quantity.high <= 1, key


def test_what_is_derived_or_fitted_says_why(device: Device) -> None:
    for key, quantity in device.quantities.items():
        if quantity.kind in (Kind.DERIVED, Kind.FITTED):
            assert quantity.note, key


def test_every_source_is_used() -> None:
    used = {
        source
        for name in device_names()
        for section in read(name).values()
        if isinstance(section, dict)
        for table in section.values()
        for source in table["source"]
    }
    assert used == set(read("sources"))


def test_memory_levels_are_ordered(device: Device) -> None:
    latencies = [device.l1.latency_clk, device.l2.latency_clk, device.mall.latency_clk, device.hbm.latency_clk]
    assert latencies == sorted(latencies)
    rates = [device.l2.read_tb_s, *([device.mall.read_tb_s] if device.has_mall else []), device.hbm.read_tb_s]
    assert rates == sorted(rates, reverse=True)
    for rate in (device.hbm.read_tb_s, device.hbm.write_tb_s, device.hbm.mixed_tb_s):
        assert 0 < rate / device.hbm.peak_tb_s <= 1


def test_whole_compute_units_in_an_xcd(device: Device) -> None:
    assert device.compute.num_cu % device.compute.num_xcd == 0


@pytest.mark.parametrize(
    ("name", "field", "published_tflops"),
    [
        ("mi300x", "f16", 1307.4),
        ("mi300x", "f8", 2614.9),
        ("mi300x", "xf32", 653.7),
        ("mi300x", "f64", 163.4),
        ("mi325x", "f8", 2614.9),
        ("mi355x", "f16", 2516.6),
        ("mi355x", "f8f6f4_8bit", 5033.2),
        ("mi355x", "f8f6f4_small", 10066.3),
        ("mi355x", "f64", 78.6),
    ],
)
def test_matrix_rates_agree_with_published_peaks(name: str, field: str, published_tflops: float) -> None:
    device = load_device(name)
    tflops = getattr(device.matrix, field) * device.compute.num_cu * device.compute.clock_ghz * 1e-3
    assert tflops == pytest.approx(published_tflops, rel=1e-3)


@pytest.mark.parametrize(("name", "mib"), [("mi300x", 32), ("mi325x", 32), ("mi355x", 32), ("mi300a", 24)])
def test_l2_capacity_agrees_with_the_published_total(name: str, mib: int) -> None:
    device = load_device(name)
    assert device.l2.bytes_per_xcd * device.compute.num_xcd == mib * 2**20


def test_l2_channels_are_the_published_count() -> None:
    assert load_device("mi300x").l2_channels == 128
    assert load_device("mi300x").l2.bytes_per_xcd // load_device("mi300x").l2.channels_per_xcd == 256 * 1024


def test_a_device_without_a_memory_side_cache_has_one_that_holds_and_delays_nothing() -> None:
    device = load_device("h200")
    assert not device.has_mall and load_device("mi300x").has_mall
    assert (device.mall.bytes, device.mall.latency_clk) == (0, device.hbm.latency_clk)
    assert device.mall.read_tb_s == device.mall.write_tb_s == device.mall.mixed_tb_s == float("inf")
    assert not any(key.startswith("mall.") for key in device.quantities)


def test_dense_matrix_rates_of_h200_agree_with_its_datasheet() -> None:
    device = load_device("h200")
    # The datasheet's peaks (989 and 1,979 TFLOP/s) are given at a boost clock of 1.83 GHz, below the largest clock.
    for rate, tflops in ((device.matrix.f16, 989), (device.matrix.f8, 1979)):
        assert rate * device.compute.num_cu * 1.83e-3 == pytest.approx(tflops, rel=1e-3)


def test_digest_follows_numbers_and_ranges_only() -> None:
    device = load_device("mi300x")
    assert device.digest.startswith("mi300x-")
    assert device.digest == load_device("mi300x").digest
    assert len({load_device(name).digest for name in device_names()}) == len(device_names())
    assert device.with_value("hbm.read_tb_s", 4.0).digest != device.digest


def test_with_value_changes_one_constant() -> None:
    device = load_device("mi300x")
    changed = device.with_value("l2.write_request_clk", 2.0)
    assert changed.l2.write_request_clk == changed.quantities["l2.write_request_clk"].value == 2.0
    assert changed.l1 == device.l1
    assert device.l2.write_request_clk != 2.0
    with pytest.raises(KeyError):
        device.with_value("l2.colour", 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["hbm"].pop("read_tb_s"), "hbm.read_tb_s is missing"),
        (lambda d: d["hbm"].update(colour={}), "hbm.colour is not a constant"),
        (lambda d: d.update(colours={}), "unknown section 'colours'"),
        (lambda d: d["hbm"]["read_tb_s"].update(unit="GB/s"), "given in 'GB/s'.*'TB/s'"),
        (lambda d: d["hbm"]["read_tb_s"].update(source=["nowhere"]), "cites .'nowhere'"),
        (lambda d: d["hbm"]["read_tb_s"].update(source=[]), "cites nothing"),
        (lambda d: d["hbm"]["read_tb_s"].update(low=9.0, high=10.0), "outside its own range"),
        (lambda d: d["hbm"]["peak_tb_s"].update(low=1.0), "one end of a range"),
    ],
)
def test_a_bad_file_is_refused_by_name(change: Any, message: str) -> None:
    document = read("mi300x")
    change(document)
    with pytest.raises(DeviceFileError, match=message):
        parse_device(document, read("sources"))
