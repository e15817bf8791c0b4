"""Branches of a warp: lanes that go another way wait on a stack until the others have come to where all meet again.

The lanes that do not take a branch go on first. Where they arrive at the branch's immediate post-dominator, those that
took it run to the same place; then all go on together. Lanes that end take themselves off every waiting mask.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I32, I64
from wavecast.simulator.execute.layout import CODE_BASE, CODE_STEP, Argument, Context, Fault, RowKind
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.layout import STACK, STACK_DEPTH, STACK_ENTRIES, STACK_WORDS
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.program.instruction import EXEC, RECONVERGE

_MASK, _GO_ON, _MEET = range(STACK_WORDS)


def _jump(e: WarpEmitter, target: ir.Value) -> None:
    """Go to an instruction (i64) instead of the next one."""
    e.context_store(Context.JUMP, e.b.add(I64(CODE_BASE), e.b.mul(target, I64(CODE_STEP))))


def _entry(e: WarpEmitter, depth: ir.Value, field: int) -> ir.Value:
    """Pointer to a field of the stack's entry number ``depth`` (i32)."""
    slot = e.b.add(e.b.mul(e.b.zext(depth, I64), I64(4 * STACK_WORDS)), I64(4 * (STACK + field)))
    return e.at(e.scalars, slot)


def _load(e: WarpEmitter, pointer: ir.Value) -> ir.Value:
    return e.b.load(pointer, typ=I32, align=4)


def _store(e: WarpEmitter, value: ir.Value, pointer: ir.Value) -> None:
    e.b.store(value, pointer, align=4)


def _push(e: WarpEmitter, mask: ir.Value, go_on: ir.Value, meet: ir.Value) -> None:
    """Put lanes (i32) on the stack; a stack that is full is a fault."""
    depth = e.scalar_load(STACK_DEPTH)
    with e.b.if_then(e.b.icmp_unsigned(">=", depth, I32(STACK_ENTRIES)), likely=False):
        e.context_store(Context.FAULT, I64(Fault.DIVERGENCE))
        e.b.ret_void()
    for field, value in ((_MASK, mask), (_GO_ON, go_on), (_MEET, meet)):
        _store(e, value, _entry(e, depth, field))
    e.scalar_store(STACK_DEPTH, e.b.add(depth, I32(1)))


@ptx("bra", kind=RowKind.WARP_BRANCH)
def _(e: WarpEmitter) -> None:
    e.context_store(Context.JUMP, I64(0))
    everyone, taken = e.b.trunc(e.exec_mask(), I32), e.b.trunc(e.active, I32)
    target, meet = e.runtime("target"), e.b.trunc(e.runtime("reconverge"), I32)
    with e.b.if_then(e.b.icmp_unsigned("==", taken, I32(0))):
        e.b.ret_void()
    with e.b.if_then(e.b.icmp_unsigned("==", taken, everyone)):
        _jump(e, target)
        e.b.ret_void()
    # Some do and some do not.
    others = e.b.xor(everyone, taken)
    with e.b.if_then(e.b.and_(e.b.icmp_signed(">=", meet, I32(0)), e.b.not_(_waits_there(e, meet)))):
        _push(e, everyone, meet, meet)
    place = e.b.trunc(target, I32)
    next_one = e.b.trunc(e.b.add(e.argument(Argument.INSTRUCTION), I64(1)), I32)
    with e.b.if_then(e.b.icmp_unsigned("==", next_one, meet)):
        # Those that do not take it are there already.
        e.scalar_store(EXEC, taken)
        _jump(e, target)
        e.b.ret_void()
    with e.b.if_then(e.b.icmp_unsigned("!=", place, meet)):
        _push(e, taken, place, meet)
    e.scalar_store(EXEC, others)


def _waits_there(e: WarpEmitter, meet: ir.Value) -> ir.Value:
    """Whether the newest entry already is all lanes that wait at ``meet``, as after the last turn of a loop."""
    depth = e.scalar_load(STACK_DEPTH)
    empty = e.b.icmp_unsigned("==", depth, I32(0))
    top = e.b.select(empty, I32(0), e.b.sub(depth, I32(1)))
    same = e.b.and_(
        e.b.icmp_unsigned("==", _load(e, _entry(e, top, _MEET)), meet),
        e.b.icmp_unsigned("==", _load(e, _entry(e, top, _GO_ON)), meet),
    )
    return e.b.and_(e.b.not_(empty), same)


@ptx(RECONVERGE, kind=RowKind.WARP_BRANCH)
def _(e: WarpEmitter) -> None:
    e.context_store(Context.JUMP, I64(0))
    here = e.b.trunc(e.argument(Argument.INSTRUCTION), I32)
    _resume(e, lambda top: e.b.icmp_unsigned("==", _load(e, _entry(e, top, _MEET)), here), here)


@ptx(("ret", "exit"), kind=RowKind.WARP_BRANCH)
def _(e: WarpEmitter) -> None:
    e.context_store(Context.JUMP, I64(0))
    remaining = e.b.trunc(e.b.and_(e.exec_mask(), e.b.not_(e.active)), I32)
    gone = e.b.not_(e.b.trunc(e.active, I32))
    with e.for_each(e.b.zext(e.scalar_load(STACK_DEPTH), I64)) as number:
        place = _entry(e, e.b.trunc(number, I32), _MASK)
        _store(e, e.b.and_(_load(e, place), gone), place)
    with e.b.if_then(e.b.icmp_unsigned("!=", remaining, I32(0))):
        e.scalar_store(EXEC, remaining)
        e.b.ret_void()
    _resume(e, lambda _: I1(1), None)
    # Nobody is left: on to the end of the warp.
    e.scalar_store(EXEC, I32(0))
    end = e.runtime("target")
    next_one = e.b.add(e.argument(Argument.INSTRUCTION), I64(1))
    with e.b.if_then(e.b.icmp_unsigned("!=", end, next_one)):
        _jump(e, end)


def _resume(e: WarpEmitter, wanted, here: ir.Value | None) -> None:  # type: ignore[no-untyped-def]
    """Take entries off the stack while they are wanted, until one has lanes that go on elsewhere.

    Args:
        e: The helper. What follows this call runs if there is no such entry; those of ``here`` have gone on by then.
        wanted: Number of the newest entry (i32) → whether to take it.
        here: Instruction at which entries go on without a jump; None to leave at the first that has lanes.
    """
    head, body = e.b.append_basic_block("stack"), e.b.append_basic_block("entry")
    check, done = e.b.append_basic_block("wanted"), e.b.append_basic_block("empty")
    e.b.branch(head)
    e.b.position_at_end(head)
    depth = e.scalar_load(STACK_DEPTH)
    e.b.cbranch(e.b.icmp_unsigned("!=", depth, I32(0)), check, done)
    e.b.position_at_end(check)
    top = e.b.sub(depth, I32(1))
    e.b.cbranch(wanted(top), body, done)
    e.b.position_at_end(body)
    mask, go_on = _load(e, _entry(e, top, _MASK)), _load(e, _entry(e, top, _GO_ON))
    e.scalar_store(STACK_DEPTH, top)
    with e.b.if_then(e.b.icmp_unsigned("!=", mask, I32(0))):
        e.scalar_store(EXEC, mask)
        elsewhere = I1(1) if here is None else e.b.icmp_unsigned("!=", go_on, here)
        with e.b.if_then(elsewhere):
            _jump(e, e.b.zext(go_on, I64))
            e.b.ret_void()
    e.b.branch(head)
    e.b.position_at_end(done)


@ptx("trap", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    with e.b.if_then(e.b.icmp_unsigned("!=", e.active, I64(0))):
        e.context_store(Context.FAULT, I64(Fault.TRAP))
