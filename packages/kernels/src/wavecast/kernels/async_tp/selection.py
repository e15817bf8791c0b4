"""Which path a call over a group takes, and why: a pure function of facts, and the setting that overrides it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, cast, get_args

VARIABLE = "WAVECAST_ASYNC_TP"
UPSTREAM_VARIABLE = "TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP"

CODE_VARIABLE = "WAVECAST_ASYNC_TP_CODE"

Code = Literal["triton", "hip"]
"""In what the overlapped kernel is written."""

ARCHITECTURES = ("gfx942", "gfx950", "sm_90")
"""Where the overlapped kernels are compiled and checked for."""

MOST_SIGNALS = 63
"""Signals of a call: the kernels remember in a 64-bit number which have come."""

MOST_RANKS = MOST_SIGNALS
"""Ranks of a group: each has a signal at least."""


class Way(StrEnum):
    """How a call over a group is carried out."""

    OVERLAPPED = "overlapped"
    """One persistent kernel that waits for chunks, over symmetric memory."""
    DECOMPOSED = "decomposed"
    """Messages of torch.distributed and a product a chunk, in turn."""


class Setting(StrEnum):
    """What the caller asks for."""

    OFF = "0"
    ON = "1"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the choice depends on.

    Attributes:
        device: ``cpu`` or ``cuda`` (which ROCm's torch says too).
        arch: of the active device; None without one.
        ranks: size of the group.
        symmetric: whether the group's ranks reach each other's memory.
        rows, columns, length: of this rank's shard (or of a chunk of the result), and N and K.
        along_sum: whether the dimension that is gathered is the one that is summed over.
    """

    device: str
    arch: str | None
    ranks: int
    symmetric: bool
    rows: int
    columns: int
    length: int
    along_sum: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """A path, and one sentence on why."""

    way: Way
    reason: str


def select_way(facts: Facts, setting: Setting = Setting.AUTO) -> Selection:
    """Choose the path.

    Raises:
        RuntimeError: the overlapped path is asked for (``1``) where it is not possible.
    """
    if setting is Setting.OFF:
        return Selection(Way.DECOMPOSED, f"{VARIABLE} is 0")
    obstacle = _obstacle(facts)
    if obstacle is None:
        asked = "asked for" if setting is Setting.ON else "possible"
        return Selection(
            Way.OVERLAPPED, f"{asked}: {facts.ranks} ranks that reach each other's memory, on {facts.arch}"
        )
    if setting is Setting.ON:
        raise RuntimeError(
            f"the overlapped path is asked for and not possible: {obstacle}; set {VARIABLE}=auto for the decomposed one"
        )
    return Selection(Way.DECOMPOSED, obstacle)


def _obstacle(facts: Facts) -> str | None:
    """What is in the way of the overlapped path."""
    if facts.device == "cpu":
        return "tensors are on the CPU"
    if facts.arch not in ARCHITECTURES:
        return f"only {', '.join(ARCHITECTURES)} are supported, got {facts.arch}"
    if facts.ranks < 2:
        return "a group of one rank has nothing to overlap"
    if facts.ranks > MOST_RANKS:
        return f"the group has {facts.ranks} ranks, at most {MOST_RANKS} are possible"
    if not facts.symmetric:
        return "the group's ranks do not reach each other's memory"
    if facts.along_sum:
        return "the gathered dimension is the summed one: every result needs every chunk"
    if min(facts.rows, facts.columns, facts.length) == 0:
        return "nothing to multiply"
    return None


def setting_from(environment: Mapping[str, str] = os.environ) -> Setting:
    """The value of ``WAVECAST_ASYNC_TP``: ``0``, ``1`` or ``auto``, which it is where it is not set.

    Raises:
        ValueError: another value.
    """
    if VARIABLE not in environment:
        return Setting.AUTO
    value = environment[VARIABLE]
    try:
        return Setting(value)
    except ValueError:
        raise ValueError(f"{VARIABLE} is {value!r}; wanted is 0, 1 or auto") from None


def code_from(environment: Mapping[str, str] = os.environ) -> Code:
    """The value of ``WAVECAST_ASYNC_TP_CODE``: ``triton``, which it is where it is not set, or ``hip``.

    Raises:
        ValueError: another value.
    """
    if CODE_VARIABLE not in environment:
        return "triton"
    value = environment[CODE_VARIABLE]
    for code in get_args(Code):
        if value == code:
            return cast("Code", code)
    raise ValueError(f"{CODE_VARIABLE} is {value!r}; wanted is {' or '.join(get_args(Code))}")


def alias_setting_from(environment: Mapping[str, str] = os.environ) -> Setting:
    """The setting of the functions that stand for PyTorch's: ours if it is set, else whether PyTorch's is.

    PyTorch looks at whether its variable is there, not at its value.
    """
    if VARIABLE in environment:
        return setting_from(environment)
    return Setting.AUTO if UPSTREAM_VARIABLE in environment else Setting.OFF
