from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import MACHINE, FakeGpu

from wavecast.cli.app import run
from wavecast.cli.measuring import counting
from wavecast.cli.measuring.counting import aligned
from wavecast.cli.measuring.metrics import METRICS, NCU_METRICS, ROCPROF_PASSES, counters_of, summed
from wavecast.cli.measuring.profiler_output import Dispatch, ProfilerOutputError, parse_ncu, parse_rocprof
from wavecast.cli.records import read_records

ROWWISE = [
    "measure",
    "rowwise",
    "--shape",
    "tokens=64,n=128",
    "--seconds",
    "0",
    "--no-predict",
    "--counters",
    "--records",
]
HEAD = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)


def rocprof_line(dispatch: int, kernel: str, counter: str, value: float) -> str:
    where = f'{dispatch},{dispatch},"Agent 5",1,20,20,128,9,"{kernel}",128,2048,0,64,0,80'
    return f'{where},"{counter}",{value},1000,{2000 + dispatch}\n'


def rocprof_table(names: tuple[str, ...], kernels: tuple[str, ...]) -> str:
    """A table as rocprofv3 writes it, each counter counting ten times the number of its dispatch."""
    return HEAD + "".join(
        rocprof_line(number, kernel, name, 10 * number) for number, kernel in enumerate(kernels, 1) for name in names
    )


def test_rocprof_table_has_a_line_a_counter() -> None:
    text = rocprof_table(("SQ_INSTS_LDS", "SQ_LDS_BANK_CONFLICT"), ("hot.kd", "cold"))
    assert parse_rocprof(text) == [
        Dispatch("hot", {"SQ_INSTS_LDS": 10.0, "SQ_LDS_BANK_CONFLICT": 10.0, "duration_ns": 1001.0}),
        Dispatch("cold", {"SQ_INSTS_LDS": 20.0, "SQ_LDS_BANK_CONFLICT": 20.0, "duration_ns": 1002.0}),
    ]
    assert parse_rocprof("") == []
    with pytest.raises(ProfilerOutputError, match="no column 'Counter_Value'"):
        parse_rocprof('"Dispatch_Id","Kernel_Name","Counter_Name"\n1,"a","b"\n')
    with pytest.raises(ProfilerOutputError, match="cannot be read"):
        parse_rocprof(HEAD + rocprof_line(1, "a", "b", 1).replace("1.0,", "many,").replace(",1,1000", ",many,1000"))


def test_fabric_bytes_follow_the_sizes_of_requests() -> None:
    """Of 100 reads 60 are of 128 bytes, 10 of 32, the rest of 64; of 50 writes 20 are of 64 bytes, the rest of 32."""
    raw = {
        "TCC_EA0_RDREQ_sum": 100.0,
        "TCC_BUBBLE_sum": 60.0,
        "TCC_EA0_RDREQ_32B_sum": 10.0,
        "TCC_EA0_WRREQ_sum": 50.0,
        "TCC_EA0_WRREQ_64B_sum": 20.0,
        "TCC_HIT_sum": 30.0,
        "TCC_MISS_sum": 10.0,
        "SQ_INSTS_LDS": 0.0,
        "SQ_LDS_BANK_CONFLICT": 0.0,
    }
    found = counters_of(raw, tool="rocprofv3")
    assert found["memory.hbm_read_bytes"] == 60 * 128 + 10 * 32 + 30 * 64
    assert found["memory.hbm_write_bytes"] == 20 * 64 + 30 * 32
    assert found["memory.bytes_transferred_hbm"] == found["memory.hbm_read_bytes"] + found["memory.hbm_write_bytes"]
    assert found["memory.l2_hit_rate"] == 75.0
    assert "memory.lds_bank_conflicts" not in found  # a rate of nothing
    assert "memory.l2_read_requests" not in found  # was not counted


def test_rates_do_not_add_up() -> None:
    one = {"memory.hbm_read_bytes": 5.0, "memory.l2_hit_rate": 50.0}
    assert summed([one, one]) == {"memory.hbm_read_bytes": 10.0}
    assert summed([one, {}]) == {}
    assert summed([]) == {}


def test_every_counter_is_asked_for() -> None:
    asked = {name for names in ROCPROF_PASSES for name in names}
    wanted = {name for metric in METRICS if metric.rocprof for name in metric.rocprof.raw} - {"duration_ns"}
    assert asked == wanted
    for names in ROCPROF_PASSES:
        for block, most in (("TCC_", 4), ("TCP_", 4), ("SQ_", 8)):
            assert sum(name.startswith(block) for name in names) <= most
    assert len(set(NCU_METRICS)) == len(NCU_METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_guide_names_every_counter(root: Path) -> None:
    guide = (root / "docs/guides/measure.md").read_text()
    assert [metric.name for metric in METRICS if f"`{metric.name}`" not in guide] == []


def launch(kernel: str, *, counted: bool, variant: str = "wavecast") -> dict[str, Any]:
    return {"case": 0, "variant": variant, "kernel": kernel, "counted": counted}


def test_launches_are_found_among_those_of_others() -> None:
    launches = [launch("a", counted=False), launch("b", counted=False), launch("a", counted=True)]
    dispatches = [Dispatch("fill", {}), Dispatch("a", {"x": 1.0}), Dispatch("b", {}), Dispatch("a", {"x": 2.0})]
    assert aligned(launches, dispatches, only_counted=False) == [((0, "wavecast"), dispatches[3])]
    assert aligned(launches, [Dispatch("a", {"x": 3.0})], only_counted=True) == [
        ((0, "wavecast"), Dispatch("a", {"x": 3.0}))
    ]
    # One that was ended early has what it has.
    assert aligned(launches, dispatches[:2], only_counted=False) == []
    with pytest.raises(ProfilerOutputError, match="launch 1 was b, and the profiler has a"):
        aligned(launches, [dispatches[1], dispatches[3]], only_counted=False)


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch, fake_gpu: FakeGpu) -> Callable[..., None]:
    """Set up a profiler on the path that writes what it is told to; the calls under it launch one kernel each."""

    def set_up(write: Callable[[list[str]], None], *, says: str = "", code: int = 0) -> None:
        def run_profiler(words: list[str], **_: object) -> SimpleNamespace:
            script = words.index("wavecast.cli.measuring.counted")
            cases = json.loads(Path(words[script + 1]).read_text())
            lines = [
                json.dumps({"case": 0, "variant": variant, "kernel": f"{variant}_kernel", "counted": counted})
                for variant in cases[0]["variants"]
                for counted in (False, True)
            ]
            Path(words[script + 2]).write_text("\n".join(lines))
            write(words)
            return SimpleNamespace(stdout="", stderr=says, returncode=code)

        monkeypatch.setattr(counting.shutil, "which", lambda name: f"/opt/rocm/bin/{name}")
        monkeypatch.setattr(counting.subprocess, "run", run_profiler)

    return set_up


RECORDING = Path(__file__).parent / "data" / "ncu-h200.csv"
KERNELS = (
    "separate-kernels_kernel",
    "at::native::fill",
    "separate-kernels_kernel",
    "wavecast_kernel",
    "wavecast_kernel",
)


def write_tables(words: list[str]) -> None:
    names = tuple(words[words.index("--pmc") + 1 : words.index("--output-format")])
    folder = Path(words[words.index("-d") + 1]) / "host"
    folder.mkdir(parents=True)
    (folder / "123_counter_collection.csv").write_text(rocprof_table(names, KERNELS))


def test_counters_go_to_the_record(
    profiler: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiler(write_tables)
    assert run([*ROWWISE, str(tmp_path)]) == 0
    (record,) = read_records(tmp_path).values()
    assert record.measurement is not None
    baseline, ours = record.measurement.rows
    # The counted ones are the third and the fifth dispatch.
    assert [kernel.kernel for kernel in ours.kernels] == ["wavecast_kernel"]
    assert baseline.kernels[0].counters["memory.l2_read_requests"] == 30.0
    assert ours.kernels[0].counters["memory.l2_read_requests"] == 50.0
    assert ours.kernels[0].counters["duration_us"] == pytest.approx(1.005)
    assert record.rows[1].counters is not None
    assert record.rows[1].counters["memory.bytes_transferred_l2"] == 50.0 * 128
    assert record.rows[1].measured_us == pytest.approx(100.0)
    out = capsys.readouterr().out
    assert "rowwise wavecast  tokens=64 n=128: counters" in out and "memory.l2_read_requests" in out


@pytest.mark.parametrize(
    ("says", "code", "told"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", 3, "may not read counters here"),
        ("Error: no such counter TCC_BUBBLE_sum", 1, "counted nothing: Error: no such counter TCC_BUBBLE_sum"),
    ],
)
def test_counters_that_cannot_be_had_leave_the_times(
    profiler: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    says: str,
    code: int,
    told: str,
) -> None:
    profiler(lambda words: None, says=says)
    assert run([*ROWWISE, str(tmp_path)]) == code
    err = capsys.readouterr().err
    assert told in err and "the times have been measured and are kept" in err
    (record,) = read_records(tmp_path).values()
    assert [row.measured_us for row in record.rows] == [pytest.approx(400.0), pytest.approx(100.0)]


def test_unreadable_counters_leave_the_times(
    profiler: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(words: list[str]) -> None:
        folder = Path(words[words.index("-d") + 1])
        folder.mkdir(parents=True)
        (folder / "1_counter_collection.csv").write_text("Dispatch_Id,Kernel_Name\n1,wavecast_kernel\n")

    profiler(write)
    assert run([*ROWWISE, str(tmp_path)]) == 1
    assert "the counters of rocprofv3 cannot be read: " in capsys.readouterr().err
    assert len(read_records(tmp_path)) == 1


def test_a_missing_profiler_is_named(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting.shutil, "which", lambda name: None)
    assert run([*ROWWISE, str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert "counters need rocprofv3, and it is not on the path" in err and "rocprofiler-sdk" in err
    assert len(read_records(tmp_path)) == 1
    assert counting.tool_of(MACHINE).name == "rocprofv3"


def test_a_profiler_that_hangs_is_ended(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(words: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(counting.shutil, "which", lambda name: name)
    monkeypatch.setattr(counting.subprocess, "run", hang)
    assert run([*ROWWISE, str(tmp_path), "--watchdog", "7"]) == 1
    assert "rocprofv3 has taken more than 14 s" in capsys.readouterr().err


def test_what_is_profiled_needs_no_more_than_measuring() -> None:
    code = "import sys; sys.modules['typer'] = None; sys.modules['rich'] = None; sys.modules['numba'] = None; "
    code += "import wavecast.cli.measuring.counted"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_measuring_asks_for_a_virtual_device_without_the_simulator() -> None:
    code = "import sys; sys.modules['platformdirs'] = None; sys.modules['numba'] = None; "
    code += "from wavecast.cli.simulate import has_virtual_device; assert not has_virtual_device()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ncu_says_other_things_before_its_table() -> None:
    assert parse_ncu("==PROF== Connected to process 1\n==ERROR== nothing\n", wanted=NCU_METRICS) == []


def test_a_recording_of_ncu_on_an_h200() -> None:
    """`ncu` 2025.3.1: row-wise quantization of 4096 x 2048 bf16 by four kernels and by one, and others."""
    dispatches = parse_ncu(RECORDING.read_text(), wanted=NCU_METRICS)
    assert [item.kernel for item in dispatches] == [
        *("row_amax_kernel", "scale_kernel", "multiply_kernel", "saturating_cast_kernel"),
        *("rowwise_resident_kernel", "two_pass_kernel", "fill_kernel", "tile_scale_kernel", "tile_cast_kernel"),
    ]
    # It was asked for the same metrics but for three, of hits and of sectors as they come to the L1s.
    assert all(len(set(NCU_METRICS) - set(item.raw)) == 3 for item in dispatches)
    amax, _, _, cast, fused, bytewise, *_ = (counters_of(item.raw, tool="ncu") for item in dispatches)
    values = 4096 * 2048
    # Each value of 2 bytes is read once, in whole sectors; rows are of 2,048 values, 8 a lane.
    assert amax["memory.load_sectors"] == values * 2 / 32
    assert amax["memory.load_requests"] == values / (32 * 8)
    assert amax["memory.hbm_read_bytes"] == pytest.approx(values * 2, rel=0.001)
    assert amax["duration_us"] == 8.352
    # fp32 in, one byte out.
    assert cast["memory.l2_write_sectors"] == values / 32
    # Values and two fp32 for each row, which share sectors with those of other rows, written by other programs.
    assert fused["memory.store_sectors"] == values / 32 + 4096
    assert fused["memory.lds_conflict_clk"] == 343 + 498
    # Two passes over the values. 32 bytes of one column lie in a sector of the output: its lanes are 32 rows of it.
    assert bytewise["memory.load_sectors"] == pytest.approx(2 * values, rel=0.001)
    assert bytewise["memory.store_requests"] == pytest.approx(values / 32, rel=0.001)


def test_what_multiprocessors_ask_for_at_once_is_read_by_each() -> None:
    """Products of 4096 x 4096 x 7168 over four groups, bf16 and fp8, and one of 4096 each way in fp8; a quantizer."""
    text, at_l2 = (RECORDING.parent / "ncu-h200-products.csv").read_text(), "lts__t_sectors_srcunit_tex_op_read.sum"
    dispatches = parse_ncu(text, wanted={*NCU_METRICS, at_l2})
    found = [counters_of(item.raw, tool="ncu") for item in dispatches]
    for counters, depth in zip(found[:3], (7168 * 2, 7168, 4096), strict=True):
        # Tiles of 128 x 256 read the whole depth of as many rows and columns.
        read = 32 * 16 * (128 + 256) * depth
        assert counters["memory.l2_read_sectors"] * 32 == pytest.approx(read, rel=0.001)
        assert counters["memory.bytes_transferred_l2"] == pytest.approx(read + 4096**2 * 2, rel=0.001)
    # At the L2 itself about half of them are left, and of what nobody shares all.
    ratios = [
        item.raw[at_l2] / counters["memory.l2_read_sectors"] for item, counters in zip(dispatches, found, strict=True)
    ]
    assert ratios == pytest.approx([0.558, 0.551, 0.597, 1.0], abs=0.001)


def test_what_ncu_prints_in_other_units_or_not_at_all() -> None:
    heading = '"ID","Kernel Name","a__bytes.sum","a__time.sum","a__rate.pct"\n'
    table = heading + '"","","Mbyte","us","%"\n"0","k","1,5.5","2","n/a"\n'
    (one,) = parse_ncu(table, wanted=("a__bytes.sum", "a__time.sum", "a__rate.pct"))
    assert one == Dispatch("k", {"a__bytes.sum": 15.5e6, "a__time.sum": 2000.0})
    for text, told in (("many", "a__time.sum as 'many' us"), ("2", "a__time.sum as '2' furlong")):
        broken = table.replace('"us"', f'"{told.split()[-1]}"').replace('"2"', f'"{text}"')
        with pytest.raises(ProfilerOutputError, match=told):
            parse_ncu(broken, wanted=("a__time.sum",))
    with pytest.raises(ProfilerOutputError, match="no column 'Kernel Name'"):
        parse_ncu('"ID","Name"\n"",""\n', wanted=())
    with pytest.raises(ProfilerOutputError, match="no line with units"):
        parse_ncu('"ID","Kernel Name"\n"0","k"\n', wanted=())
