"""The corpus: small programs on which the engine once was wrong, with all that is needed to run them again.

An entry with ``fault_of`` is one on which the compiler is wrong: somebody looked at its code, and ``why`` says what was
seen. Such a program differs, and the engine is right.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import fuzz_functions
import fuzz_instructions
from fuzz_tally import Mismatch

from wavecast.simulator.execute.engine import Engine

CORPUS = Path(__file__).with_name("corpus")


def keep(mismatch: Mismatch) -> Path:
    """Write the smallest program of a mismatch; the same program found again takes the same name."""
    name = f"{mismatch.family}_{mismatch.arch}_{mismatch.seed}{mismatch.level and '_O' + mismatch.level}.json"
    path = CORPUS / name
    path.write_text(json.dumps(mismatch.entry, indent=1) + "\n")
    return path


def entries() -> list[Path]:
    """Files of the corpus."""
    return sorted(CORPUS.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """An entry.

    Raises:
        ValueError: It is of no kind that can be replayed.
    """
    entry = json.loads(path.read_text())
    if entry.get("kind") not in ("function", "instructions"):
        raise ValueError(f"{path}: kind is {entry.get('kind')!r}, not 'function' or 'instructions'")
    return dict(entry)


def replay(entry: dict[str, Any], directory: Path) -> str:
    """What differs between engine and reference on an entry; empty if nothing does.

    Where the compiler is at fault, its code of ``-O0`` must give the reference's result, and the code at fault that
    result or, as long as the compiler has the fault, the one that was found.
    """
    if entry["kind"] == "instructions":
        return fuzz_instructions.replay(entry)
    found = fuzz_functions.replay(Engine(), entry, directory)
    if "fault_of" in entry and found == entry["found"]:
        return fuzz_functions.replay(Engine(), entry | {"level": "0"}, directory / "unoptimised")
    return found


def known_fault(mismatch: Mismatch) -> Path | None:
    """The entry that says of a mismatch's smallest program that its compiler is wrong, if there is one.

    Its code of ``-O0`` must be right and the result the one that was found: the engine may be wrong on it as well.
    """
    for path in entries():
        entry = read(path)
        if mismatch.suspect != entry.get("fault_of"):
            continue
        if all(entry[key] == mismatch.entry.get(key) for key in ("source", "found")):
            return path
    return None


def described(entry: dict[str, Any]) -> str:
    """An entry for people."""
    lines = entry["source"] if entry["kind"] == "function" else entry["lines"]
    return f"{entry['arch']}: {entry['found']}\n" + textwrap.indent("\n".join(lines), "  ")
