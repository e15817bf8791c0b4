"""Clang's offload bundles: one file with the code objects of several architectures, alone or inside a host program.

Layout from Clang's "Offload Bundler" page: a magic string, the number of entries, and for each its offset, its size and
the length and text of its id, ``hipv4-amdgcn-amd-amdhsa--gfx942``; numbers are 64-bit, little-endian.
"""

from __future__ import annotations

import re
import struct

from wavecast.simulator.errors import AssemblyError

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC = b"CCOB"
_ENTRY = struct.Struct("<QQQ")
_ARCH = re.compile(r"-(gfx\w+)(?::[\w:+-]*)?$")


def unbundle(data: bytes) -> list[tuple[str, bytes]]:
    """The device code objects of a bundle, or of several one behind the other: architecture and content.

    Raises:
        AssemblyError: The bundle is compressed, or ends too early.
    """
    found = []
    start = data.find(MAGIC)
    if start < 0 and COMPRESSED_MAGIC in data:
        raise AssemblyError(
            "the offload bundle is compressed",
            hint="compile with --no-offload-compress, or take the code out with clang-offload-bundler --unbundle",
        )
    while start >= 0:
        found += _entries(data, start)
        start = data.find(MAGIC, start + len(MAGIC))
    return found


def _entries(data: bytes, start: int) -> list[tuple[str, bytes]]:
    entries = []
    try:
        place = start + len(MAGIC)
        (count,) = struct.unpack_from("<Q", data, place)
        place += 8
        for _ in range(count):
            offset, size, length = _ENTRY.unpack_from(data, place)
            place += _ENTRY.size
            name = data[place : place + length].decode()
            place += length
            content = data[start + offset : start + offset + size]
            if len(content) != size:
                raise AssemblyError(f"the offload bundle ends within its entry {name}")
            if content and (match := _ARCH.search(name)):
                entries.append((match[1], content))
    except (struct.error, UnicodeDecodeError) as error:
        raise AssemblyError("the offload bundle ends within its table, or is damaged") from error
    return entries
