"""What a compiler of HIP source wrote, kept on disk with all that it read.

Triton has such a cache of its own, clang has none. An entry is found by the command line, the version of the compiler
and the source; it holds good as long as the files that the source includes are what they were. Headers of compiler and
libraries belong to the version. A compilation beside which one of its files was written is not kept: nobody knows which
content it read.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from wavecast.simulator.kept_file import write_whole

_STANDARD_INPUT = ("-", "<stdin>")


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
        rule, begun = Path(folder) / "rule", time.time()
        output = compile_(rule)
        if rule.is_file():
            names = [name for name in _prerequisites(rule.read_text()) if name not in _STANDARD_INPUT]
            files = {name: _digest_of(Path(name)) for name in names}
            if None not in files.values() and all(Path(name).stat().st_mtime < begun for name in names):
                _write(path, output, files)
    return output


def _directory() -> Path:
    return Path(platformdirs.user_cache_dir("wavecast", appauthor=False)) / "hip"


def _prerequisites(rule: str) -> list[str]:
    """Files after the colon of a rule; in names blanks and number signs follow a backslash, and dollars are doubled."""
    names = rule.replace("\\\n", " ").partition(": ")[2].replace("\\ ", "\0").split()
    return [name.replace("\0", " ").replace("\\#", "#").replace("$$", "$") for name in names]


def _digest_of(path: Path) -> str | None:
    """None for what is no file, or not any more."""
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
