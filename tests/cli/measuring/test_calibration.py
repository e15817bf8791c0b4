from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import MACHINE, FakeGpu

from wavecast.cli import simulate
from wavecast.cli.app import run
from wavecast.cli.calibrate import calibrated_text
from wavecast.cli.device_spec import SpecFacts, spec_text
from wavecast.cli.measuring import probing
from wavecast.cli.measuring.calibration import Pinned, Probes, constants_of
from wavecast.cli.measuring.probing import Prober
from wavecast.simulator.devices import load_device
from wavecast.simulator.virtual import virtual_device

PLAIN = {"one, queued": 5.0, "nothing": 2.0, "one, idle": 7.0, "one of many": 1.5}
EMPTY = {"empty workgroup": 0.5, "empty workgroup of most waves": 4.0, "most waves": 16.0}


def probes(**points: dict[str, float]) -> Probes:
    """Points by probe, the clock at 2 GHz."""
    found = Probes(clock_mhz=[1900.0, 2000.0])
    for probe, places in points.items():
        for at, value in places.items():
            found.add(probe.replace("_", " "), at, value, "")
    return found


def pinned(spec: SpecFacts, **points: dict[str, float]) -> dict[str, Pinned]:
    return {item.key: item for item in constants_of(probes(**points), spec)}


def test_constants_of_bandwidth_are_those_of_large_buffers_for_memory_and_the_best_for_caches() -> None:
    spec = simulate.spec_facts("mi300x")
    found = pinned(
        spec,
        hbm_read={"64 MB": 2.0, "256 MB": 3.0, "1000 MB": 4.2, "4000 MB": 4.1},
        l2_read={"4 MB": 20.0, "8 MB": 22.0, "16 MB": 12.0},
        mall_copy={"64 MB": 9.0},
    )
    memory, cache, mixed = (found[key] for key in ("hbm.read_tb_s", "l2.read_tb_s", "mall.mixed_tb_s"))
    assert (memory.value, memory.low, memory.high) == (4.1, 3.0, 4.2)
    assert (cache.value, cache.high) == (22.0, 22.0)
    assert mixed.value == 9.0
    assert found["compute.clock_ghz"].value == 2.0
    assert "mall.read_tb_s" not in found
    # A device without a memory-side cache has no such constant to pin.
    assert "mall.mixed_tb_s" not in pinned(simulate.spec_facts("h200"), mall_copy={"64 MB": 9.0})


def test_launch_constants_count_device_cycles() -> None:
    """0.5 ns are a cycle of 2 GHz; 4 ns for 16 waves are 0.5 cycles a wave, on each of 8 XCDs 4."""
    found = pinned(simulate.spec_facts("mi300x"), launch={**PLAIN, **EMPTY})
    assert found["launch.alone_us"] == Pinned("launch.alone_us", 5.0, 2.0, 7.0, found["launch.alone_us"].note)
    assert found["launch.back_to_back_us"].value == 1.5
    assert found["launch.workgroup_clk"].value == pytest.approx(1.0)
    assert found["launch.wave_clk_per_xcd"].value == pytest.approx(4.0)
    # What lies before the work is another time there. Where nothing runs beside it, it is all of an empty launch.
    assert "launch.first_us" not in found
    assert pinned(simulate.spec_facts("h200"), launch={**PLAIN, **EMPTY})["launch.first_us"].value == 5.0


def test_fences_are_what_orderings_cost_beyond_a_relaxed_atomic() -> None:
    spec = simulate.spec_facts("h200")
    found = pinned(
        spec,
        atomic_chain={"relaxed gpu": 150.0, "acquire gpu": 200.0, "release gpu": 300.0},
        atomics={"one address": 1.75, "an address a lane": 0.0015},
        fence_after_stores={"relaxed": 100.0, "release": 600.0, "release less relaxed": 500.0},
    )
    assert found["atomics.latency_clk"].value == 300.0
    assert found["fences.invalidate_clk"].value == pytest.approx(100.0)
    fence = found["fences.writeback_clk"]
    assert (fence.value, fence.low, fence.high) == (pytest.approx(300.0), pytest.approx(300.0), pytest.approx(1000.0))
    assert found["atomics.same_line_clk"].value == pytest.approx(1.75 * 32 * 2)
    assert found["atomics.request_clk"].value == pytest.approx(0.0015 * 32 * 96 * 2)


def test_stores_latency_and_partial_writes() -> None:
    spec = simulate.spec_facts("h200")
    found = pinned(
        spec,
        l2_write_by_programs={"1": 0.064, "2": 0.127, "66": 4.0},
        l2_store_width={"1": 3.0, "4": 4.5},
        scattered_bytes={"in L2": 80.0},
        l2_latency={"15 MB": 140.0},
    )
    assert found["l1.store_bytes_per_clk"].value == pytest.approx(32.0)
    assert found["l1.store_bytes_per_clk"].low == pytest.approx(31.75)
    assert found["l1.store_quad_clk"].value == pytest.approx(4 * 132 * 2e9 / 3e12)
    assert found["l2.write_request_clk"].value == pytest.approx(96 * 2 / 80)
    assert found["l2.latency_clk"].value == pytest.approx(280.0)


@pytest.mark.parametrize("name", simulate.device_names())
def test_a_device_file_says_what_it_was_made_from(name: str, tmp_path: Path) -> None:
    path = tmp_path / "same.toml"
    path.write_text(spec_text(simulate.spec_facts(name), {}))
    before, after = load_device(name), load_device(str(path))
    assert after.digest == before.digest
    assert dict(after.quantities) == dict(before.quantities)
    assert after.has_mall == before.has_mall


def test_a_calibrated_device_can_be_predicted_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = simulate.spec_facts("mi300x")
    path = tmp_path / "mine.toml"
    half = [Pinned("hbm.read_tb_s", 2.0, 1.9, 2.1, 'a "note"'), Pinned("launch.workgroup_clk", 2.5, None, None, "slow")]
    path.write_text(calibrated_text(spec, half, MACHINE))
    device = load_device(str(path))
    assert (device.name, device.hbm.read_tb_s, device.launch.workgroup_clk) == ("mi300x", 2.0, 2.5)
    changed = device.quantities["hbm.read_tb_s"]
    assert (str(changed.kind), changed.note, changed.low) == ("measured", 'a "note"', 1.9)
    assert changed.sources[0].startswith("wavecast measure --calibrate, ") and "MI300X" in changed.sources[0]
    assert not device.quantities["launch.workgroup_clk"].is_uncertain
    arguments = ["predict", "tensorwise", "--shape", "tokens=64,n=512", "--json", "--jobs", "1", "--device", str(path)]
    assert run(arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["device"], row["spec"]) == ("mi300x", device.digest)
    assert run(["devices", str(path)]) == 0
    assert "measured" in capsys.readouterr().out


def test_device_files_that_are_not_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "rowwise", "--device", str(tmp_path / "nothing.toml")]) == 2
    assert "there is no device file" in capsys.readouterr().err
    for text, told in (("name = ", "cannot be read"), ('name = "x"\ntitle = "x"\narch = "gfx942"', "is missing")):
        path = tmp_path / f"{len(text)}.toml"
        path.write_text(text)
        assert run(["predict", "rowwise", "--device", str(path)]) == 1
        assert told in capsys.readouterr().err


class SlowClock:
    """Runs calls, each in 10 µs more than the one before."""

    def __init__(self) -> None:
        self.calls = 0

    def synchronize(self) -> None:
        pass

    def enqueue(self, call: Callable[[], Any], **_: object) -> Callable[[], float]:
        call()
        self.calls += 1
        return lambda: 10.0 * self.calls


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> SpecFacts:
    """An MI300X of two compute units with caches of some KB, and probes of few steps."""
    spec = simulate.spec_facts("mi300x")
    small = {"compute.num_cu": 2, "compute.num_xcd": 1, "l2.bytes_per_xcd": 2**19, "mall.bytes": 2**20}
    monkeypatch.setattr(probing, "LARGE_BYTES", (65536, 131072))
    monkeypatch.setattr(probing, "MB", 1024)
    monkeypatch.setattr(probing, "EMPTY_GROUPS", 32)
    for name, few in {"ROUNDS": 1, "CHASE_STEPS": 64, "CHAIN_STEPS": 10, "FENCE_STEPS": 2, "EXCHANGES": 2}.items():
        monkeypatch.setattr(probing, name, few)
    monkeypatch.setattr(probing, "CACHE_REPEATS", 1)
    monkeypatch.setattr(probing, "WIDTHS", (1, 16))
    monkeypatch.setattr(probing, "STRIDES", (1, 8))
    return SpecFacts(spec.name, spec.title, spec.arch, {**spec.values, **small}, 4, spec.constants)


@pytest.mark.execute
def test_every_probe_runs_on_a_virtual_device(tiny: SpecFacts) -> None:
    """What it measures means nothing there; that all of it is launched, and nothing strays, does."""
    gpu = FakeGpu()
    gpu.clock = SlowClock()  # type: ignore[assignment]
    prober = Prober(gpu, tiny, memory_bytes=2**20, device="cpu")
    done: list[str] = []
    with virtual_device("mi300x", workgroups="all"):
        found = prober.run(done.append)
    assert prober.failures == {}
    assert done == [name for name, _ in prober.steps()]
    keys = {item.key for item in constants_of(found, tiny)}
    assert {"hbm.read_tb_s", "mall.write_tb_s", "l2.latency_clk", "atomics.same_line_clk", "l1.store_quad_clk"} <= keys
    assert {sample.probe for sample in found.samples} >= {"lds", "hbm load stride", "l2 read by programs"}
    assert all(sample.value > 0 for sample in found.samples if "less" not in sample.at and sample.at != "one of many")


@pytest.mark.execute
def test_a_chain_leads_through_every_line_once_and_back(tiny: SpecFacts) -> None:
    chain = Prober(FakeGpu(), tiny, memory_bytes=2**20, device="cpu")._chain(4096)
    place, seen = 0, []
    for _ in range(4096 // 128):
        seen.append(place)
        place = int(chain[place])
    assert place == 0 and sorted(seen) == [32 * line for line in range(32)]


def test_calibrate_writes_a_device_file_and_what_was_measured(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(self: Prober) -> list[tuple[str, Callable[[], None]]]:
        def measured() -> None:
            self.probes.add("hbm read", "4000 MB", 4.5, "TB/s")

        def broken() -> None:
            raise RuntimeError("HIP error: invalid configuration\nmore")

        return [("hbm", measured), ("lds", broken)]

    monkeypatch.setattr(Prober, "steps", steps)
    monkeypatch.setattr("wavecast.cli.calibrate.find_machine", lambda: MACHINE)
    monkeypatch.setattr("wavecast.cli.calibrate.GpuBench", lambda index: fake_gpu)
    target = tmp_path / "mine.toml"
    assert run(["measure", "--calibrate", str(target)]) == 1
    out, err = capsys.readouterr()
    assert "hbm.read_tb_s" in out
    assert "some probes failed: lds: failed: RuntimeError: HIP error: invalid configuration" in err
    device = load_device(str(target))
    assert (device.hbm.read_tb_s, device.compute.clock_ghz) == (4.5, 2.1)
    document = json.loads(target.with_suffix(".json").read_text())
    assert document["schema"] == "wavecast.calibration/1"
    assert document["samples"] == [{"probe": "hbm read", "at": "4000 MB", "value": 4.5, "unit": "TB/s"}]
    fake_gpu.lost = True
    assert run(["measure", "--calibrate", str(tmp_path / "other.toml")]) == 1
    assert "does not answer any more" in capsys.readouterr().err
    assert not (tmp_path / "other.toml").exists()


def test_calibrate_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure", "rowwise", "--calibrate", str(tmp_path / "mine.toml")]) == 2
    assert run(["measure", "--calibrate", str(tmp_path / "mine.json")]) == 2
    assert "mine.toml" in capsys.readouterr().err
