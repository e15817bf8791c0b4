"""The page and the evidence file from the JSON of runs of ``gpu_operators``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/h200-operators.md"
EVIDENCE = ROOT / "docs/evidence"
SCHEMA = "wavecast.gpu-operators/1"

HEAD = """# Operators on an H200

{machine}.
Figures: [{evidence}](../evidence/{evidence});
`gpu_operators.py --page` writes this page from them.

*Share of copy* is the bandwidth at the minimum bytes, inputs and outputs once, over that of a copy of the input. It can
exceed 1: half of a copy's bytes are written, of a quantizer's a third. *X / ours* is the time of X over ours.
"""
MEASURED = """## How it was measured

Every contestant's result is checked first, in memory filled with rubbish; who is wrong is not timed. Times are medians
in µs with a cold cache, all contestants and the copy in turn in each of 20 to 60 rounds; the device sleeps while the
host enqueues, so that the host's time is not in them. `–` did not take part. *Spread* is half the distance between the
first and the last decile. *Next* are FP8 bytes that are the neighbouring value, since a scale was rounded otherwise.
*Error* is relative, in the worst 64th of a result.
"""
BOUNDS = {
    ("colwise", "wgrad-operands", "dual-layout"): """
groups of up to 2,048 rows are held in registers. Two workgroups share a multiprocessor, and their loads and stores
alternate instead of overlapping. Instructions do not matter: without the amax and the scale a tile reaches 77 instead
of 75 %, and neither leaving out the exchange between lanes nor halving the instructions of the amax gains anything.
Uneven groups also have masked rows, and rows beyond the tile, which are read twice. The kernel of longer groups, which
the tensor memory accelerator feeds, takes as long for equal groups of 1,024 rows and 252 us instead of 313 for 32
uneven ones of 7,168 columns; it is not taken there, since no virtual H200 can execute it. `dual-layout` reads each
value twice, at best from L2; under 4,096 columns it is two launches, and for few long groups three.""",
    ("rowwise-per-group",): """
even groups leave nothing to gain, ours takes no longer than a copy; what uneven ones lose was not looked into.""",
    ("weight-transpose", "weight-layouts"): """
one program a multiprocessor has 12 pieces of a column in shared memory; it can fetch one piece of what comes next
while it waits for the amax of the other programs. `weight-layouts` is `weight-columns` and `weight-transpose`, so it
reads twice.""",
    ("weight-gradient",): """
few long uneven groups: the columns of a neighbouring group are trimmed from a tile in shared memory.""",
    ("scaled",): """
cuBLAS is faster on every shape, most where K is short.""",
    ("linear",): """
the column-wise quantizers, which the weight gradient in FP8 needs: with that in bf16 the layer is faster.""",
}
"""Operators, and what was found to bound them where they miss a target on an H200."""

PREDICTED = "-predicted.json"
PREDICTED_HEAD = """## Predicted without a GPU

What executing the PTX of our quantizers says (µs, cold caches, the first launch alone between two events), beside the
times above. No constant was fitted to them: those of `h200.toml` come from microbenchmarks and datasheets. But five
(lines under way of an SM, crowding, rates of copies in HBM and L2, hot channels) were taken from there after a first
comparison with these times had shown that those taken over from AMD's devices would not do, and what the L2 keeps comes
from the profiler's counts of such kernels: this is no hold-out.
[PTX and the H200](../concepts/ptx.md) says what is left out.
`python tests/benchmarks/gpu_predicted.py docs/evidence/FILE` computes them; figures:
[{evidence}](../evidence/{evidence}), {spec}, Triton {triton} (the GPU had 3.6).
"""
TITLES = {
    "quantizers": "Quantizers",
    "weights": "Weights",
    "gemm": "Products",
    "training": "Forward and backward of a layer",
}


def merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of several runs on one machine.

    Of a case that was measured twice, the one with more contestants counts, of equals the later.

    Raises:
        ValueError: another schema, or runs on different machines.
    """
    cases: dict[str, dict[str, Any]] = {}
    machine: dict[str, str] = {}
    for found in documents:
        if found.get("schema") != SCHEMA:
            raise ValueError(
                f"schema {found.get('schema')!r}; wanted is {SCHEMA!r}, as gpu_operators.py --json writes it"
            )
        here = found["machine"]
        if machine and (here["gpu"], here["torch"], here["triton"]) != tuple(
            machine[key] for key in ("gpu", "torch", "triton")
        ):
            raise ValueError(f"runs on {machine} and {here}; measure all groups on one machine")
        machine = here
        for case in found["cases"]:
            before = cases.get(name_of(case))
            if before is None or len(case["entries"]) >= len(before["entries"]):
                cases[name_of(case)] = case
    order = list(TITLES)
    ordered = sorted(cases.values(), key=lambda case: order.index(case["group"]))
    return {"schema": SCHEMA, "machine": machine, "cases": ordered}


def name_of(case: dict[str, Any]) -> str:
    return f"{case['operator']} {' × '.join(case['shape'])}: {sizes_of(case)}"


def sizes_of(case: dict[str, Any]) -> str:
    sizes = " × ".join(f"{value:,}" for value in case["shape"].values())
    return f"{sizes} {case['groups']}".rstrip()


def timed(case: dict[str, Any]) -> bool:
    return any(entry["us"] is not None for entry in case["entries"])


def page(found: dict[str, Any], *, evidence: str) -> str:
    """The text of the page."""
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items() if value)
    lines = [HEAD.format(evidence=evidence, machine=machine), *_summary(found["cases"]), "", MEASURED]
    for group, title in TITLES.items():
        cases = [case for case in found["cases"] if case["group"] == group and timed(case)]
        if cases:
            lines.append(f"## {title}\n")
        for operator in dict.fromkeys(case["operator"] for case in cases):
            lines += _operator(operator, [case for case in cases if case["operator"] == operator])
    lines += _predicted(EVIDENCE / evidence.replace(".json", PREDICTED))
    return "\n".join(lines).rstrip("\n") + "\n"


def _predicted(file: Path) -> list[str]:
    """What `gpu_predicted.py` wrote for the same evidence, if it did."""
    if not file.is_file():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    errors = found["summary"]
    lines = [PREDICTED_HEAD.format(evidence=file.name, spec=found["spec"], triton=found["triton"])]
    lines.append(
        f"{errors['cases']} cases: the size of the error is {errors['median_percent']:.1f} % in the median, "
        f"{errors['p90_percent']:.0f} % at the 90th percentile and {errors['worst_percent']:.0f} % at worst; "
        f"with its sign {errors['signed_median_percent']:+.1f} % in the median.\n"
    )
    lines += ["| operator | sizes | predicted | measured | error | bound |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for case in found["cases"]:
        sizes = f"{' × '.join(f'{value:,}' for value in case['shape'].values())} {case['groups']}".rstrip()
        times = f"{case['predicted_us']:,.1f} | {case['measured_us']:,.1f} | {case['error_percent']:+.0f} %"
        lines.append(f"| {case['operator']} | {sizes} | {times} | {case['bound']} |")
    return lines


def _summary(cases: Sequence[dict[str, Any]]) -> list[str]:
    """Every target: how many shapes meet it, and what bounds those that do not."""
    reached: dict[tuple[str, str, float], list[float]] = {}
    for case in cases:
        for target in case["targets"]:
            if target["value"] is not None:
                reached.setdefault((case["operator"], target["what"], target["wanted"]), []).append(target["value"])
    whole = sum(min(values) >= wanted for (_, _, wanted), values in reached.items())
    lines = ["## Targets\n", f"{whole} of {len(reached)} targets are met on every shape that was measured.\n"]
    lines += ["| operator | target | reached | shapes that meet it |", "| --- | --- | ---: | --- |"]
    missing = set()
    order = list(dict.fromkeys(operator for operator, _, _ in reached))
    for (operator, what, wanted), values in sorted(reached.items(), key=lambda item: order.index(item[0][0])):
        missed = [100 * (1 - value / wanted) for value in values if value < wanted]
        met = f"{len(values) - len(missed)} of {len(values)}"
        by = f"**{met}**, missed by {_range(missed, 0)} %" if missed else met
        lines.append(f"| {operator} | {what} ≥ {wanted:.2f} | {_range(values, 2)} | {by} |")
        missing |= {operator} if missed else set()
    bounds = [(operators, text) for operators, text in BOUNDS.items() if missing.intersection(operators)]
    if bounds:
        lines.append("\nWhat bounds those that miss one:\n")
    for operators, text in bounds:
        names = ", ".join(f"`{name}`" for name in operators if name in missing)
        lines.append(f"* {names}:{indent(text, '  ')}")
    for case in cases:
        if not timed(case):
            lines.append(f"\nNot measured: {name_of(case)}; no contestant's result was as it should be.")
    return lines


def _range(values: Sequence[float], digits: int) -> str:
    low, high = (_number(value, digits) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _operator(operator: str, cases: Sequence[dict[str, Any]]) -> list[str]:
    """A table with a row for each shape and a column for each contestant, and what its figures are worth."""
    products = bool(cases[0]["flop"])
    names = list(dict.fromkeys(entry["name"] for case in cases for entry in case["entries"]))
    lines = [f"### {operator}\n"]
    lines.append(f"| {' × '.join(cases[0]['shape'])} | {'TFLOP/s' if products else 'share'} | {' | '.join(names)} |")
    lines.append("| --- " + "| ---: " * (1 + len(names)) + "|")
    for case in cases:
        entries = {entry["name"]: entry for entry in case["entries"]}
        ours = case["entries"][0]
        rate = _number(ours["tflops"], 0) if products else _number(ours["share"], 2)
        times = [_time(entries.get(name)) for name in names]
        lines.append(f"| {sizes_of(case)} | {rate} | {' | '.join(times)} |")
    measured = [entry for case in cases for entry in case["entries"] if entry["us"] is not None]
    spreads = [entry["spread_percent"] for entry in measured if entry["spread_percent"] is not None]
    hosts = [case["entries"][0]["host_us"] for case in cases if case["entries"][0]["host_us"] is not None]
    words = [f"Ours: {_checks([case['entries'][0] for case in cases])}"]
    words += [f"{_range(hosts, 0)} µs of the host's time a call"] if hosts else []
    words += [f"spread of all at most {max(spreads):.1f} %"] if spreads else []
    others = {name: [e for case in cases for e in case["entries"] if e["name"] == name] for name in names[1:]}
    checks = "; ".join(f"{name}: {_checks(entries)}" for name, entries in others.items())
    return [*lines, "", f"{', '.join(words)}.", *([f"{checks}."] if checks else []), ""]


def _time(entry: dict[str, Any] | None) -> str:
    return "–" if entry is None or entry["us"] is None else _number(entry["us"], 1 if entry["us"] < 1000 else 0)


def _checks(entries: Sequence[dict[str, Any]]) -> str:
    """What the checks said: the worst error or the most neighbouring bytes of all shapes, and every other remark."""
    texts = dict.fromkeys(entry["check"] for entry in entries)
    errors = [float(text.split()[1]) for text in texts if text.startswith("error ")]
    nexts = [int(text.split()[0]) for text in texts if text.endswith(" bytes next")]
    rest = [text for text in texts if not text.startswith("error ") and not text.endswith(" bytes next")]
    words = [f"error ≤ {max(errors):g}" if max(errors) else "error 0"] if errors else []
    words += [f"≤ {max(nexts):,} next"] if nexts else []
    return ", ".join([*rest, *words])


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _document(file: Path) -> dict[str, Any]:
    """The figures of a run: its JSON file, or what it printed with its JSON in the last line that begins with it."""
    text = file.read_text(encoding="utf-8")
    if not text.startswith("{"):
        text = next((line[5:] for line in reversed(text.splitlines()) if line.startswith("JSON {")), "{}")
    return dict(json.loads(text))


def write_page(files: Sequence[Path], *, target: Path = PAGE, evidence: Path = EVIDENCE) -> None:
    """Merge the runs, write the dated evidence file and the page."""
    found = merged([_document(file) for file in files])
    name = f"{found['machine']['date']}-h200-operators.json"
    (evidence / name).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    target.write_text(page(found, evidence=name), encoding="utf-8")
    print(f"wrote {target} and {evidence / name}")
