"""A short part of the fuzzer with fixed seeds, the corpus, and proof that a difference is found and made small."""

from __future__ import annotations

import json
from pathlib import Path

import fuzz
import fuzz_corpus
import fuzz_functions
import fuzz_instructions
import pytest
from differential.choices import Choices, shrink
from differential.families import FAMILIES
from differential.functions import generate
from fuzz_tally import Mismatch, Tally
from semantics_integer import VECTOR

from wavecast.simulator.execute.engine import Engine

pytestmark = pytest.mark.execute

needs_clang = pytest.mark.skipif(bool(fuzz_functions.why_not()), reason=fuzz_functions.why_not() or "compiles")


@pytest.mark.parametrize("family", fuzz.INSTRUCTION_FAMILIES)
def test_instructions_do_as_the_model_says(family: str) -> None:
    for arch, tally in fuzz_instructions.run_batch(family, range(1_000_000, 1_000_001), fuzz.ARCHITECTURES).items():
        assert not tally.mismatches, arch + "\n" + "\n".join(map(str, tally.mismatches))
        assert tally.cases


@needs_clang
def test_a_function_of_each_family_writes_the_same_bytes_as_on_the_cpu(tmp_path: Path) -> None:
    programs = [(family, 1_000_000) for family in fuzz.FUNCTION_FAMILIES]
    tallies = fuzz_functions.run_batch(Engine(), programs, fuzz.ARCHITECTURES, "2", tmp_path)
    found = [str(mismatch) for tally in tallies.values() for mismatch in tally.mismatches]
    assert not found, "\n".join(found)
    assert all(tally.cases > 500 for tally in tallies.values())


@pytest.mark.parametrize("path", fuzz_corpus.entries(), ids=lambda path: path.stem)
def test_corpus(path: Path, tmp_path: Path) -> None:
    entry = fuzz_corpus.read(path)
    if entry["kind"] == "function" and fuzz_functions.why_not():
        pytest.skip(fuzz_functions.why_not())
    assert not fuzz_corpus.replay(entry, tmp_path), fuzz_corpus.described(entry)


def test_a_wrong_result_is_found_and_its_program_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of one opcode is made wrong: what is left of the program is that instruction, or little more."""
    right = VECTOR["v_add3_u32"]
    monkeypatch.setitem(VECTOR, "v_add3_u32", right._replace(compute=lambda a, b, c: a + b + c + (c >> 31)))
    seeds = (seed for seed in range(100) if _mentions("v_add3_u32", seed))
    tally = fuzz_instructions.run_batch("isa-integer", range(first := next(seeds), first + 1), ("gfx942",))["gfx942"]
    (mismatch,) = tally.mismatches
    lines = mismatch.entry["lines"]
    assert sum("v_add3_u32" in line for line in lines) == 1
    assert len(lines) <= 4
    assert "model" in mismatch.message
    # What the corpus keeps of it fails without the generator, and passes once the model is right.
    entry = json.loads(json.dumps(mismatch.entry))
    assert fuzz_corpus.replay(entry, Path()) == mismatch.message


def _mentions(opcode: str, seed: int) -> bool:
    lines = fuzz_instructions.write_program("isa-integer", "gfx942", Choices(seed)).lines
    return any(line.startswith(opcode) for line in lines)


def test_a_function_is_made_small() -> None:
    """Shrinking keeps what the predicate asks for, and makes valid functions only."""
    first = Choices(7)
    source = generate(7, FAMILIES["division"], first).source
    assert "divisor_u32" in source

    def fails(choices: list[int]) -> Choices | None:
        taken = Choices(None, choices)
        return taken if "divisor_u32" in generate(7, FAMILIES["division"], taken).source else None

    smallest = generate(7, FAMILIES["division"], Choices(None, shrink(first, fails))).source
    assert "divisor_u32" in smallest
    assert len(smallest) < 0.6 * len(source)


@needs_clang
def test_a_function_of_the_corpus_needs_no_generator(tmp_path: Path) -> None:
    function = generate(3, FAMILIES["integer"], Choices(3))
    entry = json.loads(json.dumps(fuzz_functions.entry_of(function, "gfx950", "1", "nothing")))
    assert fuzz_functions.function_of(entry) == function
    assert not fuzz_corpus.replay(entry, tmp_path)
    # The comparison can fail: the GPU's code stores something else.
    entry["source"] = [
        part
        for line in entry["source"]
        for part in (
            ["#ifdef __AMDGCN__", line.replace("= ", "= 1 + "), "#else", line, "#endif"] if "  out" in line else [line]
        )
    ]
    assert "CPU" in fuzz_corpus.replay(entry, tmp_path / "changed")


@needs_clang
def test_a_known_fault_of_the_compiler_is_named_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A program on which clang is wrong, by itself: smaller ones are not looked for here."""
    path = fuzz_corpus.CORPUS / "upper_word_lost_by_clang.json"
    entry = fuzz_corpus.read(path)
    mismatch = Mismatch("shared", "gfx942", 2, entry["found"], "2", "clang", entry)
    monkeypatch.setattr(fuzz, "perform", lambda task: {"gfx942": Tally(mismatches=[mismatch], cases=1)})
    arguments = ["--family", "shared", "--arch", "gfx942", "--cases", "1", "--report", str(tmp_path / "report.json")]
    assert fuzz.main(arguments) == 0
    assert f"known fault of the compiler: shared, gfx942, -O2, seed 2; {path}" in capsys.readouterr().out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["faults_of_the_compiler"] == [{"program": "shared, gfx942, -O2, seed 2", "entry": path.name}]
    # Another program with the same message is a failure, and so is this one if the engine gives a third result, or is
    # wrong on code of -O0 too.
    others = [("clang", {"source": entry["source"][:-1]}), ("clang", {"found": "another result"}), ("engine", {})]
    for suspect, change in others:
        other = Mismatch("shared", "gfx942", 2, entry["found"], "2", suspect, entry | change)
        assert fuzz_corpus.known_fault(other) is None
    assert fuzz_corpus.replay(entry | {"found": "another result"}, tmp_path)


def test_the_same_seed_gives_the_same_counts(tmp_path: Path) -> None:
    reports = []
    for number, jobs in enumerate(("1", "1")):
        path = tmp_path / f"{number}.json"
        arguments = ["--family", "isa-scalar", "--family", "isa-lanes", "--cases", "300", "--seed", "5", "--jobs", jobs]
        assert fuzz.main([*arguments, "--report", str(path)]) == 0
        reports.append(json.loads(path.read_text()))
    assert reports[0] == reports[1]
    assert reports[0]["cases"] >= 4 * 300
    assert set(reports[0]["families"]) == {f"{f} {a}" for f in ("isa-scalar", "isa-lanes") for a in fuzz.ARCHITECTURES}
    assert reports[0]["opcodes"]["s_cselect_b32"]["waves"] > 0
    assert "v_add_f32" in reports[0]["never"]


def test_what_differs_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_corpus, "CORPUS", tmp_path)
    path = fuzz_corpus.keep(Mismatch("isa-lds", "gfx942", 3, "LDS[0]", entry={"kind": "other"}))
    assert path.parent == tmp_path
    with pytest.raises(ValueError, match="other"):
        fuzz_corpus.read(path)


@pytest.mark.parametrize("arguments", [["--cases", "0"], ["--jobs", "0"], ["--family", "nothing"]])
def test_arguments_without_sense_are_misuse(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        fuzz.main(arguments)
    assert exit_.value.code == 2
