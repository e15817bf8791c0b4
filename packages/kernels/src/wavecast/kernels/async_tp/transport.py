"""How the chunks of a call move, and what a kernel that waits for them must leave free: pure functions, explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wavecast.kernels.async_tp.selection import MOST_SIGNALS
from wavecast.kernels.device import compute_units
from wavecast.kernels.grouped_gemm.plan import XCDS

Engine = Literal["copy-engine", "blit", "fetcher"]
"""What moves bytes: an engine of its own, a copy that runs as a kernel, or workgroups of the kernel that needs them."""

ENGINES: tuple[Engine, ...] = ("copy-engine", "blit", "fetcher")

BLIT_BYTES = 1 << 20
"""Largest device copy that HIP carries out as a kernel on the stream's own queue; larger ones go to a copy engine."""

COPIED_AT_ONCE_BYTES = 4 << 20
"""Own chunks up to this size are copied to the gathered matrix on the caller's stream: on an H200 that takes about
4 us, and two more waits between streams take the host as long."""

SHADER_ENGINES_PER_XCD = 4
"""On gfx942 and gfx950. Workgroups are dealt to shader engines in turn, whatever is free elsewhere on the die."""

FETCHERS_PER_PEER = XCDS
"""Workgroups that fetch from one peer over a link of its own: eight compute units saturate an xGMI link, and one on
every die shares the load out evenly."""

FETCHERS = 2 * XCDS
"""Workgroups that fetch where all links lead to a switch. On an H200, 16 copying programs come within 1 % of the rate
of 132."""

TIMEOUT_POLLS = 1_000_000_000
"""Polls of a signal before a kernel gives up. On an H200 200,000 took 51 ms, so this is four minutes: a rank may still
compile its kernels when the others wait for it."""

SIGNALS_PER_CHUNK = 4
"""Signals of a chunk, at most, where they cost next to nothing."""

SIGNAL_ROWS = 256
"""Rows that a signal tells of are a multiple of these: of all tiles' rows, so that whole tiles come with each."""


@dataclass(frozen=True, slots=True)
class TransportPlan:
    """How chunks move.

    Attributes:
        engine: what moves them.
        peers: other ranks that chunks come from at a time.
        signal_rows: rows of a chunk that one signal tells of; the last one of a chunk may tell of fewer.
        piece_bytes: size of the largest single copy; None: all rows of a signal at a time.
        fetchers: workgroups of the kernel that fetch, 0 if none does.
        free_units: compute units that the waiting kernel must leave free.
        most_units: compute units that the waiting kernel may fill.
        reason: one or two sentences on why.
    """

    engine: Engine
    peers: int
    signal_rows: int
    piece_bytes: int | None
    fetchers: int
    free_units: int
    most_units: int
    reason: str


@lru_cache
def plan_transport(
    *,
    arch: str | None,
    ranks: int,
    shard_rows: int,
    full_mesh: bool,
    short: bool = False,
    engine: Engine | None = None,
    units: int | None = None,
) -> TransportPlan:
    """Choose what moves chunks on an architecture.

    Args:
        arch: ``gfx942``, ``gfx950``, ``sm_NN``; None counts as gfx942.
        ranks: size of the group.
        shard_rows: rows of a chunk.
        full_mesh: whether a link of its own leads to each other rank, as between Instinct GPUs of a node; else all
            links lead to a switch, and one peer can have all of them.
        short: whether the product takes a GPU less time than copies and signals on other streams take the host.
        engine: asked for; None leaves it to the plan.
        units: compute units of the device; None: as many as the architecture's usual one has. All programs of a grid
            must run at a time: one that has not begun might be what the others wait for.

    Raises:
        ValueError: an engine that is none.
    """
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; wanted is one of {', '.join(ENGINES)}, or None for the plan's choice")
    units = compute_units(arch) if units is None else units
    on_cuda = arch is not None and arch.startswith("sm_")
    peers = max(ranks - 1, 1) if full_mesh else 1
    links = f"each of {peers} peers has a link of its own, so chunks of all come at once"
    if peers == 1:
        links = "chunks come from one peer after another"
    fine, whole = signal_rows(shard_rows, ranks), max(shard_rows, 1)
    if engine == "fetcher" or (engine is None and (short or not on_cuda)):
        each = FETCHERS_PER_PEER if full_mesh else FETCHERS
        # A small device, a die of a partitioned one say, keeps three quarters of its units for the product.
        each = max(min(each, units // 4 // peers), 1)
        why = "signals of other engines are kernels, which need free units, and stall them"
        if engine or on_cuda:
            why = (
                "asked for" if engine else "copies and signals on other streams take the host longer than this product"
            )
        return TransportPlan(
            "fetcher", peers, fine, None, each * peers, 0, units,
            f"{links}; {why}: {each * peers} workgroups of the kernel fetch and signal, "
            f"{-(-shard_rows // fine)} times a chunk, and no compute unit is left free",
        )  # fmt: skip
    if on_cuda:
        return _on_cuda(units, engine, peers, whole, links)
    engines = SHADER_ENGINES_PER_XCD * XCDS
    most = max(units // engines - 1, 0) * engines
    free = (
        f"a signal is a kernel on ROCm, and workgroups are dealt to {engines} shader engines whatever is free on the "
        f"others: one compute unit of each stays free, {most} of {units} are filled"
    )
    if engine == "blit":
        return TransportPlan(
            "blit", peers, fine, BLIT_BYTES, 0, units - most, most,
            f"{links}; asked for: copies of at most {BLIT_BYTES >> 20} MiB run as kernels on the stream's own queue; "
            f"{free}",
        )  # fmt: skip
    return TransportPlan(
        "copy-engine", peers, whole, None, 0, units - most, most,
        f"{links}; asked for, with one signal a chunk, since each stalls an engine; {free}",
    )  # fmt: skip


def signal_rows(shard_rows: int, ranks: int) -> int:
    """Rows of a chunk that one signal tells of, where signals are as fine as is of use: whole tiles of any size."""
    signals = max(min(SIGNALS_PER_CHUNK, MOST_SIGNALS // max(ranks, 1)), 1)
    rows = -(-shard_rows // signals)
    return max(-(-rows // SIGNAL_ROWS) * SIGNAL_ROWS, SIGNAL_ROWS)


def _on_cuda(units: int, engine: Engine | None, peers: int, rows: int, links: str) -> TransportPlan:
    if engine == "blit":
        raise ValueError(
            "engine is 'blit', which CUDA does not have: its copies of any size go to a copy engine; ask for "
            "'copy-engine' or 'fetcher'"
        )
    why = "asked for" if engine else "the copy engines come within a few percent of the links' rate and take no SM"
    return TransportPlan(
        "copy-engine", peers, rows, None, 0, 1, units - 1,
        f"{links}; {why}; one SM stays free for what a driver carries out as a kernel",
    )  # fmt: skip
