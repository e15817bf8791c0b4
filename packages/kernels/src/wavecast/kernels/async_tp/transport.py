"""How the chunks of a call move, and what a kernel that waits for them must leave free: pure functions, explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wavecast.kernels.device import compute_units
from wavecast.kernels.grouped_gemm.plan import XCDS

Engine = Literal["copy-engine", "blit", "fetcher"]
"""What moves bytes: an engine of its own, a copy that runs as a kernel, or workgroups of the kernel that needs them."""

ENGINES: tuple[Engine, ...] = ("copy-engine", "blit", "fetcher")

BLIT_BYTES = 1 << 20
"""Largest device copy that HIP carries out as a kernel on the stream's own queue; larger ones go to a copy engine."""

SHADER_ENGINES_PER_XCD = 4
"""On gfx942 and gfx950. Workgroups are dealt to shader engines in turn, whatever is free elsewhere on the die."""

ENGINE_CHUNK_BYTES = 32 << 20
"""Chunk from which a copy engine is worth its stall on ROCm. Going from an engine back to the kernel that writes the
signal holds a stream for about 100 us; a link moves this much in about 700 us."""

FETCHERS = 2 * XCDS
"""Workgroups that fetch: a multiple of the dies that workgroups are dealt to in turn. On an H200, 16 copying programs
come within 1 % of the rate of 132."""


@dataclass(frozen=True, slots=True)
class TransportPlan:
    """How chunks move.

    Attributes:
        engine: what moves them.
        piece_bytes: size of the largest single copy; None: a chunk at a time.
        fetchers: workgroups of the kernel that fetch, 0 if none does.
        free_units: compute units that the waiting kernel must leave free.
        most_units: compute units that the waiting kernel may fill.
        reason: one or two sentences on why.
    """

    engine: Engine
    piece_bytes: int | None
    fetchers: int
    free_units: int
    most_units: int
    reason: str


@lru_cache
def plan_transport(
    *, arch: str | None, chunk_bytes: int, engine: Engine | None = None, units: int | None = None
) -> TransportPlan:
    """Choose what moves chunks of a size on an architecture.

    Args:
        arch: ``gfx942``, ``gfx950``, ``sm_NN``; None counts as gfx942.
        chunk_bytes: what one rank sends to another.
        engine: asked for; None leaves it to the plan.
        units: compute units of the device; None: as many as the architecture's usual one has. All programs of a grid
            must run at a time: one that has not begun might be what the others wait for.

    Raises:
        ValueError: an engine that is none.
    """
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; wanted is one of {', '.join(ENGINES)}, or None for the plan's choice")
    units = compute_units(arch) if units is None else units
    if arch is not None and arch.startswith("sm_"):
        return _on_cuda(units, engine)
    asked = engine is not None
    chosen: Engine = engine or ("copy-engine" if chunk_bytes >= ENGINE_CHUNK_BYTES else "fetcher")
    if chosen == "fetcher":
        why = "asked for" if asked else f"chunks of less than {ENGINE_CHUNK_BYTES >> 20} MiB"
        return TransportPlan(
            chosen, None, FETCHERS, 0, units,
            f"{why}: {FETCHERS} workgroups of the kernel fetch and signal, so that nothing else has to start while it "
            "waits and no compute unit is left free",
        )  # fmt: skip
    engines = SHADER_ENGINES_PER_XCD * XCDS
    most = max(units // engines - 1, 0) * engines
    free = (
        f"a signal is a kernel on ROCm, and workgroups are dealt to {engines} shader engines whatever is free on the "
        f"others: one compute unit of each stays free, {most} of {units} are filled"
    )
    if chosen == "blit":
        return TransportPlan(
            chosen, BLIT_BYTES, 0, units - most, most,
            f"asked for: copies of at most {BLIT_BYTES >> 20} MiB run as kernels on the stream's own queue; {free}",
        )  # fmt: skip
    why = "asked for" if asked else f"chunks of {ENGINE_CHUNK_BYTES >> 20} MiB or more outlast an engine's stalls"
    return TransportPlan(chosen, None, 0, units - most, most, f"{why}; {free}")


def _on_cuda(units: int, engine: Engine | None) -> TransportPlan:
    if engine == "fetcher":
        return TransportPlan(
            engine, None, FETCHERS, 0, units, f"asked for: {FETCHERS} programs of the kernel fetch and signal"
        )
    if engine == "blit":
        raise ValueError(
            "engine is 'blit', which CUDA does not have: its copies of any size go to a copy engine; ask for "
            "'copy-engine' or 'fetcher'"
        )
    why = "asked for" if engine else "the copy engines come within a few percent of the links' rate and take no SM"
    return TransportPlan(
        "copy-engine", None, 0, 1, units - 1, f"{why}; one SM stays free for what a driver carries out as a kernel"
    )
