from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import gpu_page
from gpu_operators import Entry, Measured, Target, compare, lines_of, main, measure
from host_clock import HostClock

from wavecast.cli.measuring.timing import interleaved

PAGE, EVIDENCE = gpu_page.PAGE, gpu_page.EVIDENCE


def test_tried_out_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # main would set it for good
    file = tmp_path / "figures.json"
    arguments = ["--try-out", "--no-compile", "--json", str(file)]
    returned = main([*arguments, "--only", "quantizers/rowwise", "quantizers/token-padding", "weights", "gemm"])
    printed = capfd.readouterr().out
    assert returned == 0, printed
    document = json.loads(file.read_text())
    assert document["schema"] == gpu_page.SCHEMA
    checks = {case["operator"]: case["entries"][0]["check"] for case in document["cases"]}
    assert checks.pop("rowwise") == checks.pop("token-padding") == "exact"
    assert sorted(checks) == sorted(
        "weight-columns weight-transpose weight-layouts grouped weight-gradient scaled".split()
    )
    assert not [check for check in checks.values() if check.startswith(("wrong", "failed"))]
    # What a CPU does not have is said, not hidden.
    assert "failed: NotImplementedError" in printed
    text = gpu_page.page(gpu_page.merged([document]), evidence="today.json")
    assert "## Products" in text and "### rowwise\n\n| tokens × n | share | wavecast | eager |" in text
    assert "| 96 × 256 | " in text


def test_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "groups are quantizers, weights, gemm, training" in capsys.readouterr().err
    assert main(["--list", "--only", "training"]) == 0
    assert all(line.startswith("training/") for line in capsys.readouterr().out.splitlines())


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    samples = interleaved(
        HostClock(), {name: lambda name=name: calls.append(name) for name in "abc"}, seconds=0, fewest=4
    )
    assert [len(item.device_us) for item in samples.values()] == [4, 4, 4]
    # Three calls each to learn the host's time, then rounds in rotating order.
    assert "".join(calls) == "aaabbbccc" + "abc" + "bca" + "cab" + "abc"


def example(*entries: Entry, minimum_bytes: int = 3_000_000, flop: int = 0) -> Measured:
    shape = {"tokens": 10, "n": 20}
    return Measured("quantizers", "rowwise", shape, "", minimum_bytes, flop, copy_gbs=4000.0, entries=list(entries))


def test_shares_ratios_and_targets() -> None:
    found = example(Entry("wavecast", "exact", us=1.0, spread_percent=1, host_us=5), Entry("eager", "exact", us=4.0))
    compare(found, share=0.9, ratios={"eager": 5.0, "torchao": 1.0})
    ours, eager = found.entries
    assert (ours.share, ours.slower, eager.slower) == (0.75, 1.0, 4.0)
    assert [item.text for item in found.targets] == [
        "share of copy >= 0.90: missed by 17 %, 0.75",
        "eager / ours >= 5.00: missed by 20 %, 4.00",
    ]
    product = example(Entry("wavecast", "exact", us=10.0), minimum_bytes=0, flop=10**10)
    compare(product, share=0, ratios={})
    assert product.entries[0].tflops == 1000.0


def test_nobody_is_compared_with_a_wrong_result_of_ours() -> None:
    found = example(Entry("wavecast", "wrong: part 0"), Entry("eager", "exact", us=4.0, spread_percent=1, host_us=1))
    compare(found, share=0.9, ratios={"eager": 1.0})
    assert found.entries[1].slower is None
    assert all(item.text.endswith("not measured") for item in found.targets)
    assert any("wrong: part 0" in line for line in lines_of(found))


def test_a_contestant_that_leaves_rubbish_is_not_timed() -> None:
    torch = pytest.importorskip("torch")
    from gpu_cases import Case, Ready, place_of

    from wavecast.cli.measuring.checking import check_bytes

    x = torch.ones(64, dtype=torch.bfloat16)
    memory = x.clone()  # as from an allocator that gives what was given back last, here with the right values in it

    def half_written() -> torch.Tensor:
        memory[:32] = x[:32]
        return memory

    ready = Ready({"ours": lambda: x.clone(), "rubbish": half_written}, [x.clone()], check_bytes)
    case = Case("quantizers", "copy", {"n": 64}, "", lambda _: ready)
    place = place_of("cpu", small=True, torchao=None, compile_natural=False)
    found = measure(case, place, HostClock(), seconds=0)
    assert found.entries[0].us is not None
    assert found.entries[1].us is None and found.entries[1].check.startswith("wrong: ")


def test_ends_of_groups_never_decrease() -> None:
    pytest.importorskip("torch")
    from gpu_cases import odd_ends, uneven_ends

    for tokens, groups in ((96, 12), (16640, 64), (32768, 32)):
        ends = odd_ends(tokens, groups)
        assert list(ends) == sorted(ends) and ends[-1] == tokens and len(ends) == groups
        assert any(end % 16 for end in ends) and not any(end % 16 for end in uneven_ends(tokens, groups))


def test_of_two_measurements_of_a_case_the_one_with_more_contestants_counts() -> None:
    def document(us: float, *others: str) -> dict[str, object]:
        case = example(*(Entry(name, "exact", us=us) for name in ("wavecast", *others))).__dict__
        case["entries"] = [entry.__dict__ for entry in case["entries"]]
        return {"schema": gpu_page.SCHEMA, "machine": {"gpu": "H200", "torch": "2", "triton": "3"}, "cases": [case]}

    for documents in ((document(1.0), document(2.0, "eager")), (document(2.0, "eager"), document(1.0))):
        (case,) = gpu_page.merged(documents)["cases"]
        assert [entry["us"] for entry in case["entries"]] == [2.0, 2.0]


def test_runs_are_merged_on_one_machine_only() -> None:
    def document(us: float, gpu: str = "H200") -> dict[str, object]:
        case = example(Entry("wavecast", "exact", us=us)).__dict__ | {"targets": []}
        case["entries"] = [entry.__dict__ for entry in case["entries"]]
        machine = {"gpu": gpu, "torch": "2", "triton": "3", "date": "2026-01-02"}
        return {"schema": gpu_page.SCHEMA, "machine": machine, "cases": [case]}

    (case,) = gpu_page.merged([document(1.0), document(2.0)])["cases"]
    assert case["entries"][0]["us"] == 2.0
    with pytest.raises(ValueError, match="one machine"):
        gpu_page.merged([document(1.0), document(2.0, gpu="H100")])
    with pytest.raises(ValueError, match="schema"):
        gpu_page.merged([{"schema": "other/1"}])


def test_page_is_written_from_files_and_from_what_was_printed(tmp_path: Path) -> None:
    case = example(Entry("wavecast", "exact", us=1.0)).__dict__ | {"targets": [], "entries": []}
    case["entries"] = [Entry("wavecast", "exact", us=1.0).__dict__]
    machine = {"gpu": "H200", "torch": "2", "triton": "3", "date": "2026-01-02"}
    document = {"schema": gpu_page.SCHEMA, "machine": machine, "cases": [case]}
    other = document | {"cases": [case | {"operator": "colwise"}]}
    (tmp_path / "one.json").write_text(json.dumps(document))
    (tmp_path / "two.txt").write_text(f"tables\nJSON {json.dumps(other)}\nexit 0\n")
    gpu_page.write_page([tmp_path / "one.json", tmp_path / "two.txt"], target=tmp_path / "page.md", evidence=tmp_path)
    text = (tmp_path / "page.md").read_text()
    assert "### rowwise\n" in text and "### colwise\n" in text and text.count("| 10 × 20 | – | 1.0 |") == 2
    assert len(json.loads((tmp_path / "2026-01-02-h200-operators.json").read_text())["cases"]) == 2


def test_targets_are_summed_up_with_what_bounds_those_that_are_missed() -> None:
    cases = []
    for tokens, share in ((10, 0.45), (20, 0.95), (30, 0.81)):
        case = example(Entry("wavecast", "exact", us=1.0)).__dict__
        case |= {"operator": "colwise", "shape": {"tokens": tokens, "n": 20}}
        case["entries"] = [entry.__dict__ for entry in case["entries"]]
        cases.append(case | {"targets": [Target("share of copy", 0.9, share).__dict__]})
    untimed = {"operator": "rowwise", "entries": [Entry("wavecast", "wrong: bytes").__dict__]}
    untimed["targets"] = [Target("share of copy", 0.9, None).__dict__]
    machine = {"gpu": "H200", "torch": "2", "triton": "3", "date": "2026-01-02"}
    text = gpu_page.page({"machine": machine, "cases": [*cases, cases[0] | untimed]}, evidence="today.json")
    assert "| colwise | share of copy ≥ 0.90 | 0.45 to 0.95 | **1 of 3**, missed by 10 to 50 % |" in text
    assert "* `colwise`:\n  groups of up to 2,048 rows" in text and "`weight-transpose`" not in text
    assert "Not measured: rowwise tokens × n: 10 × 20; no contestant's" in text and "### rowwise" not in text


@pytest.mark.skipif(not PAGE.exists(), reason="no run has been written down yet")
def test_page_is_what_its_evidence_gives() -> None:
    text = PAGE.read_text()
    name = text.partition("(../evidence/")[2].partition(")")[0]
    found = json.loads((EVIDENCE / name).read_text())
    assert text == gpu_page.page(gpu_page.merged([found]), evidence=name)
