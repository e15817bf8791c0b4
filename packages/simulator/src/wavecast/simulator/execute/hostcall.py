"""The host's side of hostcalls, with which device code prints.

The layout is that of the AMD device library: a wave takes a packet from a stack of free ones, fills in a service number
and 8 x 64 bit a lane, puts the packet on a stack of ready ones, rings a doorbell (``s_sendmsg``) and waits until the
host clears a bit of the packet. Text comes as messages, each in one or more packets: bit 0 of the first word of a lane
says that one begins, bit 1 that it ends, bits 5 to 7 how many words follow, bits 8 to 63 its number.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import TextIO

import numpy as np

from wavecast.simulator.errors import ExecutionError
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.memory import AddressSpace

_SERVICE_PRINTF = 2
# More than the waves of a workgroup, of which each holds at most one, and a power of two.
_PACKETS = 32
_WORDS = 8
# 64-bit words of the buffer: six of its head, eight of the doorbell, the mailbox, headers, payloads.
_HEADERS, _PAYLOADS, _DOORBELL, _FREE, _READY, _MASK = range(6)
_SIGNAL = 8
_SIGNAL_MAILBOX = _SIGNAL + 2
_MAILBOX = 16
_FIRST_HEADER = 24
_HEADER_WORDS = 3
_FIRST_PAYLOAD = _FIRST_HEADER + _PACKETS * _HEADER_WORDS
_TOTAL = _FIRST_PAYLOAD + _PACKETS * LANES * _WORDS
_BEGIN, _END = 1, 2
_TO_STDERR = 1
_CONVERSION = re.compile(r"%(?:%|([-+ #0]*)(\d+)?(?:\.(\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp]))")
_BITS = {"hh": 8, "h": 16, "": 32}


class Hostcalls:
    """The buffer through which the waves of one launch call the host, and the services that it offers.

    Attributes:
        errors: Text that the kernel wrote to its standard error, without repetitions: every lane writes its own.
    """

    def __init__(self, memory: AddressSpace, name: str) -> None:
        self._memory = memory
        self._words = np.zeros(_TOTAL, dtype=np.uint64)
        self._messages: dict[int, list[int]] = {}
        self._next = 1
        self.errors: dict[str, int] = {}
        self.address = memory.map(self._words.ctypes.data, self._words.nbytes, f"{name} hostcall buffer")
        self._lay_out()

    def _lay_out(self) -> None:
        def address(word: int) -> int:
            return self.address + 8 * word

        words = self._words
        words[_HEADERS], words[_PAYLOADS] = address(_FIRST_HEADER), address(_FIRST_PAYLOAD)
        words[_DOORBELL], words[_MASK] = address(_SIGNAL), _PACKETS - 1
        words[_SIGNAL_MAILBOX] = address(_MAILBOX)
        # Above the index of a packet stands a tag, so that none of them is the null that ends the stack.
        tagged = [_PACKETS | index for index in range(_PACKETS)]
        words[_FREE] = tagged[0]
        for index, following in enumerate([*tagged[1:], 0]):
            words[_FIRST_HEADER + index * _HEADER_WORDS] = following

    def unmap(self) -> None:
        """Take the buffer out of the device's memory."""
        self._memory.unmap(self._words.ctypes.data, self._words.nbytes)

    def serve(self) -> None:
        """Answer every packet that is ready.

        Raises:
            ExecutionError: A service that this host does not have.
        """
        packet = int(self._words[_READY])
        self._words[_READY] = 0
        ready = []
        while packet:
            index = packet & (_PACKETS - 1)
            ready.append(index)
            packet = int(self._words[_FIRST_HEADER + index * _HEADER_WORDS])
        for index in reversed(ready):
            self._answer(index)

    def _answer(self, index: int) -> None:
        header = _FIRST_HEADER + index * _HEADER_WORDS
        control = int(self._words[header + 2])
        service = control & 0xFFFFFFFF
        if service != _SERVICE_PRINTF:
            raise ExecutionError(
                f"the kernel calls service {service} of the host, and only printing ({_SERVICE_PRINTF}) is there",
                hint="allocation and calls of host functions from device code are not modelled",
            )
        active = int(self._words[header + 1])
        first = _FIRST_PAYLOAD + index * LANES * _WORDS
        lanes = self._words[first : first + LANES * _WORDS].reshape(LANES, _WORDS)
        for lane in range(LANES):
            if active >> lane & 1:
                self._append(lanes[lane])
        self._words[header + 2] = service | control >> 33 << 33

    def _append(self, payload: np.ndarray) -> None:
        """One lane's part of its message."""
        descriptor = int(payload[0])
        number = descriptor >> 8
        if descriptor & _BEGIN:
            number = self._next
            self._next += 1
            self._messages[number] = []
        words = self._messages[number]
        words += [int(word) for word in payload[1 : 1 + (descriptor >> 5 & 7)]]
        if descriptor & _END:
            del self._messages[number]
            self._print(words)
            payload[0] = 0
        else:
            payload[0] = number << 8

    def _print(self, words: list[int]) -> None:
        text = format_message(words[1:])
        if words[0] & _TO_STDERR:
            self.errors[text] = self.errors.get(text, 0) + 1
        else:
            _stdout().write(text)


def _stdout() -> TextIO:
    return sys.stdout


def format_message(words: list[int]) -> str:
    """What ``printf`` makes of a message: a format, then its arguments; strings are padded to whole words."""
    form, rest = _string(words)
    queue = iter(rest)
    position = 0

    def take() -> int:
        nonlocal position
        position += 1
        return next(queue, 0)

    def replacement(match: re.Match[str]) -> str:
        nonlocal queue, position
        flags, width, precision, length, kind = match.groups()
        if kind is None:
            return "%"
        shape = f"%{flags or ''}{width or ''}" + (f".{precision}" if precision is not None else "")
        if kind == "s":
            value, left = _string(rest[position:])
            position = len(rest) - len(left)
            queue = iter(left)
            return f"{shape}s" % value
        word = take()
        if kind in "eEfFgG":
            return (shape + kind) % struct.unpack("<d", struct.pack("<Q", word))
        if kind in "aA":
            return struct.unpack("<d", struct.pack("<Q", word))[0].hex()
        if kind == "p":
            return f"{shape}s" % f"{word:#x}"
        bits = _BITS.get(length or "", 64)
        word &= (1 << bits) - 1
        if kind == "c":
            return f"{shape}s" % chr(word & 0xFF)
        if kind in "di" and word >> (bits - 1):
            word -= 1 << bits
        return (shape + ("d" if kind in "iu" else kind)) % word

    return _CONVERSION.sub(replacement, form)


def _string(words: list[int]) -> tuple[str, list[int]]:
    """The zero-terminated string at the head of words, and the words behind it."""
    data = b""
    for count, word in enumerate(words, start=1):
        data += word.to_bytes(8, "little")
        if b"\0" in data[-8:]:
            return data.partition(b"\0")[0].decode("utf-8", "replace"), words[count:]
    return data.decode("utf-8", "replace"), []
