"""``run``: a script that asks torch for a GPU, its results, the table and what happens when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from .forks import Forks

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]

KERNEL = """
import sys
import torch
import triton
import triton.language as tl

@triton.jit
def scale_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + index, tl.load(source + index, mask=index < count) * factor, mask=index < count)

def scale(x):
    assert x.is_cuda
    result = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    scale_kernel[grid](x, result, x.numel(), 2.0, BLOCK=256)
    return result
"""


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, forks: Forks) -> Run:
    """``run`` in a process of its own: it changes what torch and Triton are."""

    def run_script(script: str, *words: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "script.py"
        file.write_text(KERNEL + textwrap.dedent(script))
        split = words.index("--") if "--" in words else len(words)
        return forks.run(["run", *words[:split], str(file), *words[split:]])

    return run_script


def test_a_script_for_a_gpu_runs_unchanged_and_its_kernels_are_listed(run: Run) -> None:
    script = """
    host = torch.randn(1000)
    x = host.to("cuda")
    x += 1
    assert x.device == triton.runtime.driver.active.get_active_torch_device() and str(x.device) == "cuda:0"
    assert torch.equal(scale(x).cpu(), (host + 1) * 2) and host.device.type == "cpu"
    scale(torch.zeros(1000, device="cuda"))
    scale(torch.zeros(5000, device="cuda"))
    print(sys.argv[1:], __name__, torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0])
    """
    done = run(script, "--device", "mi355x", "--", "--size", "7")
    assert done.returncode == 0, done.stderr
    first, _, table = done.stdout.partition("\n")
    assert first == "['--size', '7'] __main__ gfx950"
    assert "mi355x (gfx950)" in table
    rows = [line.split() for line in table.splitlines() if line.startswith("scale_kernel")]
    assert sorted((row[1], row[2]) for row in rows) == [("20", "1"), ("4", "2")]
    assert "3 launches" in table


def test_a_script_for_an_nvidia_gpu_finds_one_and_its_ptx_is_executed(run: Run) -> None:
    script = """
    x = torch.arange(1000., device="cuda")
    assert torch.equal(scale(x).cpu(), torch.arange(1000.) * 2)
    assert torch.version.hip is None and torch.version.cuda and torch.cuda.get_device_capability() == (9, 0)
    print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).warp_size)
    """
    done = run(script, "--device", "h200")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NVIDIA H200 (virtual) 32\n")
    assert "h200 (sm_90)" in done.stdout


def test_kernels_follow_addresses_that_the_script_stored(run: Run) -> None:
    script = """
    @triton.jit
    def gather_kernel(addresses, target, BLOCK: tl.constexpr):
        source = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
        index = tl.arange(0, BLOCK)
        tl.store(target + tl.program_id(0) * BLOCK + index, tl.load(source + index))

    parts = [torch.randn(100, device="cuda")[i:i + 64] for i in (0, 4, 36)]
    addresses = torch.tensor([part.data_ptr() for part in parts], device="cuda")
    target = torch.zeros(3, 64, device="cuda")
    gather_kernel[(3,)](addresses, target, BLOCK=64)
    assert torch.equal(target, torch.stack(parts))
    """
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_json_holds_the_kernels_and_nothing_that_the_script_prints(run: Run) -> None:
    done = run("print('from the script')\nscale(torch.ones(1000, device='cuda'))", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["device"], document["failure"]) == ("wavecast.run/1", "mi300x", None)
    [kernel] = document["kernels"]
    assert (kernel["name"], kernel["launches"], kernel["grid"]) == ("scale_kernel", 1, [4, 1, 1])
    assert kernel["hbm_read_bytes"] >= 4000
    assert document["predicted_us"] == kernel["predicted_us"] > 0
    assert "from the script" in done.stderr


@pytest.mark.parametrize(
    ("script", "said", "trace"),
    [
        ("sys.exit(3)", "script.py ended with exit code 3", None),
        ("sys.exit('no input')", "script.py ended: no input", None),
        ("raise ValueError('wrong size')", "script.py failed: ValueError: wrong size", "ValueError: wrong size"),
        ("torch.zeros(1, device='cuda:1')", "GPU 1, and there is one", "CliError"),
        ("torch.cuda.max_memory_allocated()", "a part of torch.cuda that a virtual device does not have", "CliError"),
    ],
)
def test_a_script_that_fails_says_why_after_the_table_of_what_ran(
    run: Run, script: str, said: str, trace: str | None
) -> None:
    done = run(f"scale(torch.ones(1000, device='cuda'))\n{script}")
    assert done.returncode == 1
    assert said in done.stderr
    assert ("Traceback" in done.stderr) == (trace is not None)
    assert trace is None or trace in done.stderr
    assert "runpy" not in done.stderr
    assert "scale_kernel" in done.stdout


def test_a_module_is_run_as_python_does() -> None:
    # A process as the shell starts it: the others have imported torch before.
    command = [sys.executable, "-m", "wavecast.cli", "run", "-m", "this"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0
    assert "Beautiful is better than ugly." in done.stdout
    assert "launched no kernel" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.py"], "absent.py is no file"),
        (["-m", "absent_module"], "no module"),
        (["x.py", "--device", "mi9"], "mi9"),
    ],
)
def test_misuse_is_said_before_anything_runs(words: list[str], said: str, forks: Forks) -> None:
    done = forks.run(["run", *words])
    assert done.returncode == 2
    assert said in done.stderr


def test_check_finds_what_torch_left_unwritten_and_fails(run: Run) -> None:
    script = """
    x = torch.empty(1000, device="cuda")
    x[:900] = 1
    scale(x)
    """
    done = run(script, "--check", "--json")
    assert done.returncode == 1, done.stderr
    [finding] = json.loads(done.stdout)["findings"]
    assert (finding["check"], finding["severity"], finding["offset"]) == ("never-written", "error", 3600)
    assert finding["count"] == 100
    assert Path(finding["site"]["file"]).name in done.stderr
    assert "checks found 1 errors" in done.stderr
    done = run(script.replace("empty", "zeros"), "--check")
    assert done.returncode == 0, done.stderr
    assert "checks: clean" in done.stderr
