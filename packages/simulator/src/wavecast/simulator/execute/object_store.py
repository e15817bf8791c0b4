"""Compiled objects on disk, one file each: a line that says what it defines, then the object.

Files come into being whole or not at all, and their content is checked before the linker sees it, since that ends the
process over a broken object.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from wavecast.simulator.kept_file import write_whole

_SUFFIX = ".helpers"


class ObjectStore:
    """Objects in one directory, which need not exist and need not be writable.

    Args:
        directory: Only for objects of one compiler, processor and version of the emitters.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()
        self._files: dict[str, Path] = {}

    def find(self, symbols: Iterable[str]) -> Iterator[tuple[bytes, list[str]]]:
        """Objects that define some of the symbols, each with all that it defines; damaged ones are removed."""
        self._scan()
        for path in sorted({self._files[symbol] for symbol in symbols if symbol in self._files}):
            found = _read(path)
            if found is not None:
                yield found
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def keep(self, code: bytes, symbols: list[str]) -> None:
        """Write an object; a directory that cannot be written is no error."""
        name = hashlib.sha256("\n".join(symbols).encode()).hexdigest()[:24]
        header = json.dumps({"digest": _digest(code), "symbols": symbols}).encode()
        write_whole(self._directory / f"{name}{_SUFFIX}", header + b"\n" + code)

    def _scan(self) -> None:
        """Note what the files define that have come since the last time."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return
        # Names, and of all but the new ones nothing else: there may be a thousand, and every new kernel looks again.
        for name in sorted(name for name in names if name.endswith(_SUFFIX) and name not in self._seen):
            self._seen.add(name)
            path = self._directory / name
            with contextlib.suppress(OSError), path.open("rb") as file:
                header = _header(file.readline())
                for symbol in header[1] if header else ():
                    self._files[symbol] = path


def _digest(code: bytes) -> str:
    return hashlib.blake2b(code, digest_size=16).hexdigest()


def _header(line: bytes) -> tuple[str, list[str]] | None:
    """Digest and symbols of the first line, or None if that is not what it holds."""
    try:
        content = json.loads(line)
        return str(content["digest"]), [str(symbol) for symbol in content["symbols"]]
    except (ValueError, TypeError, KeyError):
        return None


def _read(path: Path) -> tuple[bytes, list[str]] | None:
    """Object and symbols of a file, or None if it is gone or damaged."""
    try:
        line, _, code = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    header = _header(line)
    return (code, header[1]) if header is not None and header[0] == _digest(code) else None
