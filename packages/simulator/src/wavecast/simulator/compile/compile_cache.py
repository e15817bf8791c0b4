"""What a compiler of HIP source wrote, kept on disk with all that it read.

Triton has such a cache of its own, clang has none. An entry is found by the command line, the version of the compiler
and the source; it holds good as long as the files that the source includes are what they were. Headers of compiler and
libraries belong to the version.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from wavecast.simulator.kept_file import write_whole


def kept(key: Sequence[str], compile_: Callable[[Path], str]) -> str:
    """The output of a compilation, from the disk if it is there.

    Args:
        key: Everything that decides about the output but the files that are included.
        compile_: Compiles anew. Is told where to write the rule of ``make`` that names the source and what it includes;
            what names none is not kept.
    """
    path = _directory() / f"{hashlib.sha256(json.dumps([*key]).encode()).hexdigest()}.json"
    found = _read(path)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        rule = Path(folder) / "rule"
        output = compile_(rule)
        if rule.is_file():
            _write(path, output, {name: _digest_of(Path(name)) for name in _prerequisites(rule.read_text())})
    return output


def _directory() -> Path:
    return Path(platformdirs.user_cache_dir("wavecast", appauthor=False)) / "hip"


def _prerequisites(rule: str) -> list[str]:
    """Files after the colon of a rule; blanks in names are written as backslash and blank."""
    names = rule.replace("\\\n", " ").partition(": ")[2].replace("\\ ", "\0").split()
    return [name.replace("\0", " ") for name in names]


def _digest_of(path: Path) -> str | None:
    """None for what is no file: standard input, or what is gone."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _read(path: Path) -> str | None:
    """The output of an entry, or None if there is none, it is damaged, or what it was made from has changed."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        output, files = str(entry["output"]), dict(entry["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if hashlib.sha256(output.encode()).hexdigest() != entry.get("digest"):
        return None
    return output if all(_digest_of(Path(name)) == digest for name, digest in files.items()) else None


def _write(path: Path, output: str, files: dict[str, str | None]) -> None:
    digest = hashlib.sha256(output.encode()).hexdigest()
    write_whole(path, json.dumps({"files": files, "digest": digest, "output": output}).encode())
