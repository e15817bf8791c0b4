"""Where lanes that a branch parts meet again: immediate post-dominators of basic blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def block_starts(length: int, targets: Mapping[int, int], ends: Sequence[int]) -> list[int]:
    """First instruction of each basic block, ascending.

    Args:
        length: Number of instructions.
        targets: Branch to the instruction that it jumps to.
        ends: Instructions after which another block begins although they are no branches.
    """
    leaders = {0, *targets.values()}
    leaders.update(index + 1 for index in (*targets, *ends))
    return sorted(leader for leader in leaders if leader < length)


def successors(
    starts: Sequence[int], length: int, targets: Mapping[int, int], always: Sequence[int], exits: Sequence[int]
) -> list[tuple[int, ...]]:
    """Blocks that may follow each block; none follows one that ends the lanes.

    Args:
        starts: From ``block_starts``.
        length: Number of instructions.
        targets: Branch to the instruction that it jumps to.
        always: Branches that all lanes take.
        exits: Instructions that end all lanes that reach them.
    """
    number = {start: block for block, start in enumerate(starts)}
    result: list[tuple[int, ...]] = []
    for block in range(len(starts)):
        end = starts[block + 1] if block + 1 < len(starts) else length
        last = end - 1
        following = [number[targets[last]]] if last in targets else []
        if last not in always and last not in exits and end < length:
            following.append(block + 1)
        result.append(tuple(dict.fromkeys(following)))
    return result


def post_dominators(following: Sequence[Sequence[int]]) -> list[int | None]:
    """Immediate post-dominator of each block; None where there is none but the end of the kernel.

    Args:
        following: From ``successors``.
    """
    count = len(following)
    everything = (1 << count) - 1
    # Bit i of sets[b]: block i lies on every way from b to the end.
    sets = [everything if following[block] else 1 << block for block in range(count)]
    changed = True
    while changed:
        changed = False
        for block in reversed(range(count)):
            if not following[block]:
                continue
            common = everything
            for successor in following[block]:
                common &= sets[successor]
            common |= 1 << block
            if common != sets[block]:
                sets[block], changed = common, True
    return [_nearest(sets, block) for block in range(count)]


def _nearest(sets: Sequence[int], block: int) -> int | None:
    """Of the blocks that post-dominate ``block``, the one that all others of them post-dominate."""
    strict = sets[block] & ~(1 << block)
    for candidate in range(len(sets)):
        if strict >> candidate & 1 and sets[candidate] == strict:
            return candidate
    return None


def live_after(
    following: Sequence[Sequence[int]], uses: Sequence[set[int]], definitions: Sequence[set[int]]
) -> list[set[int]]:
    """Registers that some way onward from the end of each block reads before it writes them.

    Args:
        following: From ``successors``.
        uses: Registers that each block reads before it writes them.
        definitions: Registers that each block writes for certain.
    """
    count = len(following)
    live_in: list[set[int]] = [set(block) for block in uses]
    live_out: list[set[int]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for block in reversed(range(count)):
            out = set().union(*(live_in[successor] for successor in following[block]))
            if out != live_out[block]:
                live_out[block], changed = out, True
                live_in[block] = uses[block] | (out - definitions[block])
    return live_out
