"""The page and the evidence file from the JSON of runs of ``gpu_operators``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/h200-operators.md"
EVIDENCE = ROOT / "docs/evidence"
SCHEMA = "wavecast.gpu-operators/1"

HEAD = """# Operators on an H200

Measured with `tests/benchmarks/gpu_operators.py`: contestants are checked first, in memory filled with rubbish; times
are medians with a cold cache, contestants taking turns in every round. Written by its `--page`, from
[{evidence}](../evidence/{evidence}).

{machine}.

*Share* is the bandwidth at the minimum bytes, inputs and outputs once, over that of a copy of the input measured in the
same rounds. *× ours* is a contestant's time over ours. *Spread* is half the distance between the first and the last
decile. *Bytes next* are FP8 bytes that are the neighbouring value, since a scale was rounded otherwise. A contestant
whose result is wrong, or that cannot run, has no time but a remark.
"""
TITLES = {
    "quantizers": "Quantizers",
    "weights": "Weights",
    "gemm": "Products",
    "training": "Forward and backward of a layer",
}


def merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of several runs on one machine; of a case that was measured twice, the later one counts.

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
            cases[name_of(case)] = case
    order = list(TITLES)
    ordered = sorted(cases.values(), key=lambda case: order.index(case["group"]))
    return {"schema": SCHEMA, "machine": machine, "cases": ordered}


def name_of(case: dict[str, Any]) -> str:
    sizes = " × ".join(f"{value:,} {key}" for key, value in case["shape"].items())
    return " ".join(filter(None, (case["operator"], sizes, case["groups"] and f"({case['groups']} groups)")))


def target_text(target: dict[str, Any]) -> str:
    """A target and whether it is met, or by how much it is missed."""
    value, wanted = target["value"], target["wanted"]
    if value is None:
        return f"{target['what']} ≥ {wanted:.2f} not measured"
    if value >= wanted:
        return f"{target['what']} ≥ {wanted:.2f} met ({value:.2f})"
    return f"**{target['what']} ≥ {wanted:.2f} missed by {100 * (1 - value / wanted):.0f} %** ({value:.2f})"


def page(found: dict[str, Any], *, evidence: str) -> str:
    """The text of the page."""
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items() if value)
    lines = [HEAD.format(evidence=evidence, machine=machine)]
    for group, title in TITLES.items():
        cases = [case for case in found["cases"] if case["group"] == group]
        if not cases:
            continue
        lines += [f"## {title}\n", *_overview(cases), ""]
        for case in cases:
            lines += _case(case)
    return "\n".join(lines).rstrip("\n") + "\n"


def _overview(cases: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["| operator | ours µs | targets |", "| --- | ---: | --- |"]
    for case in cases:
        first = case["entries"][0]
        us = f"{first['us']:,.1f}" if first["us"] is not None else first["check"]
        lines.append(f"| {name_of(case)} | {us} | {'; '.join(target_text(item) for item in case['targets'])} |")
    return lines


def _case(case: dict[str, Any]) -> list[str]:
    products = bool(case["flop"])
    copy = f"Copy: {case['copy_gbs']:,.0f} GB/s. " if case["copy_gbs"] else ""
    lines = [f"### {name_of(case)}\n", f"{copy}{case['rounds']} rounds.\n"]
    lines.append(f"| who | µs | spread % | {'TFLOP/s' if products else 'share %'} | × ours | host µs | checked |")
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for entry in case["entries"]:
        rate = entry["tflops"] if products else entry["share"] and 100 * entry["share"]
        cells = [
            _number(entry["us"], 1),
            _number(entry["spread_percent"], 1),
            _number(rate, 0),
            _number(entry["slower"], 2),
            _number(entry["host_us"], 0),
            entry["check"],
        ]
        lines.append(f"| {entry['name']} | {' | '.join(cells)} |")
    return [*lines, ""]


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
