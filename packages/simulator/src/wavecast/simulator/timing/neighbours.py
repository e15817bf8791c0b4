"""What the launches around one change of its traffic."""

from __future__ import annotations

from dataclasses import replace

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.prediction import Position
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic
from wavecast.simulator.traffic.dirty import Residue, writes_back, written_among

_READS = (AccessKind.LOAD, AccessKind.LDS_DIRECT)


def among_neighbours(
    traffic: Traffic, device: Device, *, position: Position, warm: bool, fresh: bool = False
) -> Traffic:
    """The traffic of a launch where it stands.

    Two things depend on it:

    * Only where another launch follows does something wait for the L2s to write back what is dirty in them. The end of
      a launch that is timed alone comes before: its last writes count with those that leave while it runs. Stencils
      whose launches are timed one by one, but hand on what they write, take as long as those in a chain.
    * An equal launch before one that is timed alone leaves its lines in the L2s, as far as they hold them. Each finds
      those again that it read, since workgroups go to the same XCDs; but what launches rewrite, a launch reads anew,
      for another XCD may have written it. In a chain a launch reads what the one before it wrote, and finds nothing.

    Args:
        traffic: As executed, with L2s that are empty at first.
        device: The constants.
        position: Where the launch stands in its stream.
        warm: Whether an equal launch came just before.
        fresh: Whether other launches wrote just before what this one reads, and read next what it writes.
    """
    if position.is_alone and not fresh:
        traffic = replace(traffic, last_write_back_bytes=0)
    kept = l2_kept_share(traffic, device) if warm and position.is_alone and not fresh else 0.0
    if kept:
        beyond = 1 - kept
        traffic = replace(
            traffic,
            l2_hit_rate=1 - (1 - traffic.l2_hit_rate) * beyond,
            fabric_read_bytes=round(traffic.fabric_read_bytes * beyond),
            hbm_read_bytes=round(traffic.hbm_read_bytes * beyond),
            instructions=tuple(_with_more_hits(row, kept) for row in traffic.instructions),
        )
    plain = traffic.with_plain_map
    if plain is None:
        return traffic
    return replace(traffic, with_plain_map=among_neighbours(plain, device, position=position, warm=warm, fresh=fresh))


def after_writes(traffic: Traffic, device: Device, *, before: Residue) -> tuple[Traffic, Residue]:
    """A launch's traffic where what was written stays in the last cache before memory, and what it leaves to the next.

    Args:
        traffic: As executed, with an L2 that is empty at first.
        device: The constants.
        before: What earlier launches of the stream left.
    """
    # Lines that it reads only where it has written them itself never came from HBM.
    rewritten = min(
        traffic.rewritten_share * traffic.minimum_read_bytes, traffic.hbm_read_bytes, traffic.hbm_write_bytes
    )
    written, left = written_among(
        traffic.hbm_read_bytes, traffic.hbm_write_bytes, device, before=before, rewritten_bytes=rewritten
    )
    changed = replace(traffic, hbm_write_bytes=round(written))
    if writes_back(device) and traffic.with_plain_map is not None:
        plain, _ = after_writes(traffic.with_plain_map, device, before=before)
        changed = replace(changed, with_plain_map=plain)
    return changed, left


def l2_kept_share(traffic: Traffic, device: Device) -> float:
    """Part of the lines beyond L1 that a launch finds in its L2 because an equal one came before it.

    All of what is not rewritten if an XCD's lines fit its L2, and less from there to nothing at ``l2.kept_reach`` times
    its capacity.
    """
    l2 = device.l2
    per_xcd = (traffic.fabric_read_bytes + traffic.minimum_write_bytes) / device.compute.num_xcd
    over = per_xcd / l2.bytes_per_xcd - 1
    held = 1.0 if over <= 0 else max(0.0, 1 - over / (l2.kept_reach - 1))
    return held * (1 - traffic.rewritten_share)


def _with_more_hits(row: InstructionTraffic, kept: float) -> InstructionTraffic:
    if row.kind not in _READS:
        return row
    found = round((row.l2_requests - row.l2_hits) * kept)
    left = 1 - kept
    return replace(
        row,
        l2_hits=row.l2_hits + found,
        mall_hits=round(row.mall_hits * left),
        l2_joined=round(row.l2_joined * left),
        mall_joined=round(row.mall_joined * left),
    )
