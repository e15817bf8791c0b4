"""Memory, LDS, atomics and exchange between lanes, one random instruction a call."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from fuzz_program import (
    FLOAT_TYPES,
    GLOBAL_BYTES,
    LANES,
    LDS_BYTES,
    S_EXEC,
    S_PAIRS,
    SCRATCH_BYTES,
    WORDS,
    Program,
    s,
    v,
)
from semantics_atomics import GLOBAL, Meaning, lds_opcodes, simulate
from semantics_float import floats
from semantics_lanes import DPP_CONTROLS, dpp_lanes
from semantics_memory import (
    LOADS,
    SMALL_LOADS,
    STORES,
    loaded,
    read,
    stored,
    transposed,
    width_of_load,
    width_of_store,
    words_of,
    write,
)

_WORD = (1 << 32) - 1
# Descriptor and base of the mapped memory; what a run puts there differs from run to run.
DESCRIPTOR, BASE = 92, 96
ADDRESS_SCALARS = frozenset(range(DESCRIPTOR, BASE + 2))
_LDS_LOADS = {"b32": "dword", "b64": "dwordx2", "b96": "dwordx3", "b128": "dwordx4", "u8": "ubyte", "i8": "sbyte"}
_LDS_LOADS |= {"u16": "ushort", "i16": "sshort", "u8_d16": "ubyte_d16", "u8_d16_hi": "ubyte_d16_hi"}
_LDS_LOADS |= {"i8_d16": "sbyte_d16", "i8_d16_hi": "sbyte_d16_hi", "u16_d16": "short_d16", "u16_d16_hi": "short_d16_hi"}
_DIRECT_LOADS = ("ubyte", "sbyte", "ushort", "sshort", "dword")
_LDS_STORES = {"b32": "dword", "b64": "dwordx2", "b96": "dwordx3", "b128": "dwordx4", "b8": "byte", "b16": "short"}
_LDS_STORES |= {"b8_d16_hi": "byte_d16_hi", "b16_d16_hi": "short_d16_hi"}
_MEMORIES = {"ds_": "lds", "global_": "memory", "flat_": "memory", "buffer_": "memory", "scratch_": "scratch"}


def reads(lines: list[str], name: str) -> bool:
    """Whether a program touches a memory."""
    return any(
        line.startswith(start) or (name == "lds" and "lds" in line)
        for line in lines
        for start, memory in _MEMORIES.items()
        if memory == name
    )


def addressed(p: Program, base: int) -> tuple[np.ndarray, list[int]]:
    """Registers before the program, with the addresses of this run."""
    scalar = list(p.start.scalar)
    scalar[DESCRIPTOR : DESCRIPTOR + 4] = [base & _WORD, base >> 32, GLOBAL_BYTES, 0x27000]
    scalar[BASE : BASE + 2] = [base & _WORD, base >> 32]
    return p.start.vector, scalar


def _offsets(p: Program, width: int, limit: int, *, align: int = 1) -> np.ndarray:
    """A byte offset a lane: in a row, backwards, any, the same, a stride."""
    top = (limit - width) // align
    lanes = np.arange(LANES)
    rng = np.random.default_rng(p.rng.getrandbits(32))
    dense = lanes * width // align
    if dense[-1] > top:
        dense = lanes % (top + 1)
    pattern = p.rng.randrange(5)
    if pattern == 0:
        places = dense
    elif pattern == 1:
        places = dense[::-1]
    elif pattern == 2:
        places = rng.integers(0, top + 1, LANES)
    elif pattern == 3:
        places = np.full(LANES, p.rng.randrange(top + 1))
    else:
        places = lanes * p.rng.randrange(1, 40) % (top + 1)
    return places * align


def _split(p: Program, places: np.ndarray, top: int) -> tuple[np.ndarray, int]:
    """Offsets as a register and a constant of the instruction."""
    constant = p.rng.randrange(min(int(places.min()), top) + 1) if p.rng.random() < 0.5 else 0
    return places - constant, constant


def _data(p: Program, words: int) -> tuple[int, np.ndarray]:
    """First register and (words, 64) values of data."""
    row = p.rng.choice([row for row in (0, 2, 4, 6, 8, 12, 14, 16, 18) if row % 2 == 0])
    return row, p.state.vector[row : row + words].copy()


def _write_rows(p: Program, row: int, values: np.ndarray) -> None:
    for number, part in enumerate(values):
        p.write(row + number, part)
    # One load is one case a lane.
    p.cases -= (len(values) - 1) * int(np.count_nonzero(p.active))


def _stored(p: Program) -> None:
    p.cases += int(np.count_nonzero(p.active))


# ---- LDS ------------------------------------------------------------------------------------------------------------


def lds_load(p: Program) -> None:
    name = p.rng.choice(list(_LDS_LOADS))
    suffix = _LDS_LOADS[name]
    width, words = width_of_load(suffix), words_of(suffix)
    places = _offsets(p, width, LDS_BYTES, align=p.rng.choice([1, min(width, 4)]))
    register, constant = _split(p, places, 65535)
    address, row = p.given(register), p.results(words)
    data = read(p.state.lds, places, width, p.active)
    p.add(f"ds_read_{name} {v(row, words)}, v{address}{f' offset:{constant}' if constant else ''}")
    _write_rows(p, row, loaded(suffix, data, p.state.vector[row : row + words]))


def lds_store(p: Program) -> None:
    name = p.rng.choice(list(_LDS_STORES))
    suffix = _LDS_STORES[name]
    width, words = width_of_store(suffix), words_of(suffix)
    places = _offsets(p, width, LDS_BYTES, align=p.rng.choice([1, min(width, 4)]))
    register, constant = _split(p, places, 65535)
    address, (row, values) = p.given(register), _data(p, words)
    p.add(f"ds_write_{name} v{address}, {v(row, words)}{f' offset:{constant}' if constant else ''}")
    p.state.lds = write(p.state.lds, places, stored(suffix, values), p.active)
    _stored(p)


def lds_pairs(p: Program) -> None:
    """Two places of one address register, a word or 64 words apart."""
    words = p.rng.choice([1, 2])
    stride = p.rng.random() < 0.4
    unit = 4 * words * (64 if stride else 1)
    offsets = [p.rng.randrange(256), p.rng.randrange(256)]
    while max(offsets) * unit + 4 * words > LDS_BYTES:
        offsets = [offset // 2 for offset in offsets]
    places = _offsets(p, max(offsets) * unit + 4 * words, LDS_BYTES, align=4)
    address = p.given(places)
    name = f"{'2st64' if stride else '2'}_b{32 * words}"
    tail = f" offset0:{offsets[0]} offset1:{offsets[1]}"
    if p.rng.random() < 0.5:
        row = p.results(2 * words)
        parts = [read(p.state.lds, places + offset * unit, 4 * words, p.active).view(np.uint32).T for offset in offsets]
        p.add(f"ds_read{name} {v(row, 2 * words)}, v{address}{tail}")
        _write_rows(p, row, np.concatenate(parts))
        return
    # The order of two stores to one place is not said: lanes and offsets have places of their own.
    if offsets[0] == offsets[1] or len(_touched(places, offsets, unit, 4 * words)) < 2 * LANES * words:
        return
    (first, a), (second, b) = _data(p, words), _data(p, words)
    p.add(f"ds_write{name} v{address}, {v(first, words)}, {v(second, words)}{tail}")
    for offset, values in zip(offsets, (a, b), strict=True):
        data = np.ascontiguousarray(values.T).view(np.uint8).reshape(LANES, -1)
        p.state.lds = write(p.state.lds, places + offset * unit, data, p.active)
    _stored(p)


def _touched(places: np.ndarray, offsets: list[int], unit: int, width: int) -> set[int]:
    return {int(place) + offset * unit + word for place in places for offset in offsets for word in range(0, width, 4)}


# ---- global, flat, buffer and scratch memory ------------------------------------------------------------------------


def _address(p: Program, register: np.ndarray) -> tuple[str, str]:
    """Operands of a global access: offset register and base, or a pair of registers with the whole address."""
    if p.rng.random() < 0.5:
        return f"v{p.given(register)}", f", {s(BASE, 2)}"
    return _whole_address(p, register), ", off"


def _whole_address(p: Program, register: np.ndarray) -> str:
    row, pair = p.results(2), p.results(2)
    for number, values in enumerate((register, np.zeros(LANES))):
        p.start.vector[row + number] = p.state.vector[row + number] = values.astype(np.uint32)
    p.add(f"v_lshl_add_u64 {v(pair, 2)}, {v(row, 2)}, 0, {s(BASE, 2)}")
    p.unchecked |= {pair, pair + 1}
    return v(pair, 2)


def _access(p: Program, places: np.ndarray) -> tuple[str, str, str]:
    """Segment, operands before the data of a store, and operands behind."""
    segment = p.rng.choice(["global", "global", "flat", "buffer"])
    register, constant = _split(p, places, 4095)
    tail = f" offset:{constant}" if constant else ""
    if segment == "global":
        address, base = _address(p, register)
        return segment, address, f"{base}{tail}"
    if segment == "flat":
        return segment, _whole_address(p, register), tail
    return segment, f"v{p.given(register)}", f", {s(DESCRIPTOR, 4)}, 0 offen{tail}"


def memory_load(p: Program) -> None:
    suffix = p.rng.choice(list(LOADS))
    width, words = width_of_load(suffix), words_of(suffix)
    places = _offsets(p, width, GLOBAL_BYTES, align=p.rng.choice([1, min(width, 4)]))
    segment, address, tail = _access(p, places)
    row = p.results(words)
    data = read(p.state.memory, places, width, p.active)
    p.add(f"{segment}_load_{suffix} {v(row, words)}, {address}{tail}")
    _write_rows(p, row, loaded(suffix, data, p.state.vector[row : row + words]))


def memory_store(p: Program) -> None:
    suffix = p.rng.choice(list(STORES))
    width, words = width_of_store(suffix), words_of(suffix)
    places = _offsets(p, width, GLOBAL_BYTES, align=p.rng.choice([1, min(width, 4)]))
    segment, address, tail = _access(p, places)
    row, values = _data(p, words)
    if segment == "buffer":
        p.add(f"buffer_store_{suffix} {v(row, words)}, {address}{tail}")
    else:
        p.add(f"{segment}_store_{suffix} {address}, {v(row, words)}{tail}")
    p.state.memory = write(p.state.memory, places, stored(suffix, values), p.active)
    _stored(p)


def load_into_lds(p: Program) -> None:
    """A load whose element goes to LDS: a slot a lane from M0 on, small elements as words."""
    suffix = p.rng.choice([*_DIRECT_LOADS, *(("dwordx3", "dwordx4") if p.arch == "gfx950" else ())])
    width, slot = width_of_load(suffix), 4 * words_of(suffix)
    places = _offsets(p, width, GLOBAL_BYTES, align=p.rng.choice([1, min(width, 4)]))
    # The constant counts in both memories.
    register, constant = _split(p, places, LDS_BYTES - LANES * slot)
    start = 4 * p.rng.randrange((LDS_BYTES - LANES * slot - constant) // 4 + 1)
    tail = f" offset:{constant}" if constant else ""
    p.add(f"s_mov_b32 m0, {start:#x}")
    if p.rng.random() < 0.5:
        address, base = _address(p, register)
        p.add(f"global_load_lds_{suffix} {address}{base}{tail}")
    else:
        p.add(f"buffer_load_{suffix} v{p.given(register)}, {s(DESCRIPTOR, 4)}, 0 offen{tail} lds")
    p.add("s_mov_b32 m0, s0")
    data = read(p.state.memory, places, width, p.active)
    if suffix in SMALL_LOADS:
        values = np.ascontiguousarray(data).view(SMALL_LOADS[suffix][0])[:, 0]
        data = values.astype(np.int64).astype(np.uint32)[:, None].view(np.uint8)
    p.state.lds = write(p.state.lds, start + constant + slot * np.arange(LANES), data, p.active)
    _stored(p)


def buffer_range(p: Program) -> None:
    """Loads beyond the end of a buffer are zero, word by word; stores there do nothing."""
    suffix = p.rng.choice(["dword", "dwordx2", "dwordx3", "dwordx4"])
    words = words_of(suffix)
    # Lanes have places of their own: which of two stores to one place comes last is not said. One may straddle the end.
    slots = np.random.default_rng(p.rng.getrandbits(32)).permutation(GLOBAL_BYTES // 8)[:LANES]
    places = slots * 16 + 4 * p.rng.randrange(4)
    address = p.given(places)
    inside = places[:, None] + 4 * np.arange(1, words + 1) <= GLOBAL_BYTES
    if p.rng.random() < 0.5:
        padded = np.concatenate([p.state.memory, np.zeros(GLOBAL_BYTES + 64, np.uint8)])
        data = read(padded, places, 4 * words, p.active).view(np.uint32)
        row = p.results(words)
        p.add(f"buffer_load_{suffix} {v(row, words)}, v{address}, {s(DESCRIPTOR, 4)}, 0 offen")
        _write_rows(p, row, np.where(inside, data, 0).T)
        return
    row, values = _data(p, words)
    p.add(f"buffer_store_{suffix} {v(row, words)}, v{address}, {s(DESCRIPTOR, 4)}, 0 offen")
    for lane in np.flatnonzero(p.active):
        for word in np.flatnonzero(inside[lane]):
            place = int(places[lane]) + 4 * int(word)
            p.state.memory[place : place + 4] = np.frombuffer(values[word, lane].tobytes(), np.uint8)
    _stored(p)


def scratch(p: Program) -> None:
    """Each lane's own memory."""
    is_load = p.rng.random() < 0.5
    suffix = p.rng.choice(list(LOADS if is_load else STORES))
    width, words = (width_of_load if is_load else width_of_store)(suffix), words_of(suffix)
    places = _offsets(p, width, SCRATCH_BYTES)
    register, constant = _split(p, places, 4095)
    address, tail = p.given(register), f" offset:{constant}" if constant else ""
    flat, own = p.state.scratch.reshape(-1), places + np.arange(LANES) * SCRATCH_BYTES
    if is_load:
        row = p.results(words)
        p.add(f"scratch_load_{suffix} {v(row, words)}, v{address}, off{tail}")
        data = read(flat, own, width, p.active)
        _write_rows(p, row, loaded(suffix, data, p.state.vector[row : row + words]))
        return
    row, values = _data(p, words)
    p.add(f"scratch_store_{suffix} v{address}, {v(row, words)}, off{tail}")
    p.state.scratch = write(flat, own, stored(suffix, values), p.active).reshape(LANES, -1)
    _stored(p)


# ---- atomics --------------------------------------------------------------------------------------------------------


def _kind_of(name: str) -> str:
    return next((kind for kind in ("bf16", "f16", "f32", "f64") if kind in name), "")


def _begin_atomics(p: Program) -> str:
    """All atomics of a program work on integers or on floats of one type, which memory holds from the beginning."""
    if p.atomic_kind is None:
        p.atomic_kind = p.float_memory = p.rng.choice(["", "", "", "f32", "f64", "f16", "bf16"])
        if p.atomic_kind:
            for name in ("lds", "memory"):
                before = _floats(p, p.atomic_kind, len(getattr(p.start, name)))
                setattr(p.start, name, before)
                setattr(p.state, name, before.copy())
    return p.atomic_kind


def _floats(p: Program, kind: str, size: int) -> np.ndarray:
    """Bytes of floats without a NaN, whose bits would differ."""
    dtype = FLOAT_TYPES.get(kind, np.float32)
    values = floats(dtype, size // np.dtype(dtype).itemsize, p.rng.getrandbits(31))
    values = np.where(np.isnan(values), dtype(1), values)
    if kind == "bf16":
        with np.errstate(all="ignore"):
            values = np.tile(values.astype(ml_dtypes.bfloat16), 2)
    return np.ascontiguousarray(values).view(np.uint8)[:size].copy()


def _atomic_data(p: Program, kind: str, words: int) -> tuple[int, list[int]]:
    if not kind:
        row, values = _data(p, words)
    else:
        row = p.results(words)
        values = _floats(p, kind, 4 * words * LANES).view(np.uint32).reshape(LANES, words).T
        p.start.vector[row : row + words] = p.state.vector[row : row + words] = values
    return row, [sum(int(values[word, lane]) << 32 * word for word in range(words)) for lane in range(LANES)]


def _returned(p: Program, row: int, olds: list[int], words: int, kind: str) -> None:
    bits = np.array(olds, np.uint64).astype(np.uint32 if words == 1 else np.uint64)
    p.write(row, bits, kind=kind)


def memory_atomic(p: Program) -> None:
    kind = _begin_atomics(p)
    name, meaning, width = p.rng.choice([entry for entry in GLOBAL if _kind_of(entry[0]) == kind])
    _update_memory(p, name, meaning, width, kind)


def _update_memory(p: Program, name: str, meaning: Meaning, width: int, kind: str) -> None:
    words = width // 32
    places = _offsets(p, width // 8, GLOBAL_BYTES, align=width // 8)
    segment, address, tail = _access(p, places)
    row, values = _atomic_data(p, kind, words)
    memory, olds = simulate(
        p.state.memory, places, p.active, width, lambda old, lane: meaning(old, values[lane], width)
    )
    returns = p.rng.random() < 0.6
    target = p.results(words)
    if segment == "buffer":
        data = row
        if returns:
            # The result takes the place of the data.
            p.start.vector[target : target + words] = p.state.vector[target : target + words] = p.state.vector[
                row : row + words
            ]
            data = target
        p.add(f"buffer_atomic_{name} {v(data, words)}, {address}{tail}{' sc0' * returns}")
    else:
        result = f"{v(target, words)}, " if returns else ""
        p.add(f"{segment}_atomic_{name} {result}{address}, {v(row, words)}{tail}{' sc0' * returns}")
    p.state.memory = memory
    if returns:
        _returned(p, target, olds, words, kind)
    else:
        _stored(p)


def lds_atomic(p: Program) -> None:
    kind = _begin_atomics(p)
    name, meaning, width = p.rng.choice([entry for entry in lds_opcodes() if _kind_of(entry[0]) == kind])
    words = width // 32
    places = _offsets(p, width // 8, LDS_BYTES, align=width // 8)
    register, constant = _split(p, places, 65535)
    address, (row, values) = p.given(register), _atomic_data(p, kind, words)
    lds, olds = simulate(p.state.lds, places, p.active, width, lambda old, lane: meaning(old, values[lane], width))
    tail = f" offset:{constant}" if constant else ""
    if p.rng.random() < 0.6:
        target = p.results(words)
        p.add(f"ds_{name.format('_rtn')} {v(target, words)}, v{address}, {v(row, words)}{tail}")
        p.state.lds = lds
        _returned(p, target, olds, words, kind)
        return
    p.add(f"ds_{name.format('')} v{address}, {v(row, words)}{tail}")
    p.state.lds = lds
    _stored(p)


def compare_and_swap(p: Program) -> None:
    """Half of the lanes find what they expect."""
    kind = _begin_atomics(p)
    if kind:
        return
    words = p.rng.choice([1, 2])
    width = 32 * words
    places = _offsets(p, width // 8, GLOBAL_BYTES, align=width // 8)
    in_lds = p.rng.random() < 0.5
    memory = p.state.lds if in_lds else p.state.memory
    row = p.results(4)
    for lane in range(LANES):
        for word in range(words):
            new, expected = p.state.vector[word + 2, lane], p.state.vector[word, lane]
            if lane % 2:
                place = int(places[lane]) + 4 * word
                expected = memory[place : place + 4].view(np.uint32)[0]
            for state in (p.start, p.state):
                state.vector[row + word, lane] = new
                state.vector[row + words + word, lane] = expected
    new_values, expected_values = (
        [sum(int(p.state.vector[first + word, lane]) << 32 * word for word in range(words)) for lane in range(LANES)]
        for first in (row, row + words)
    )
    after, olds = simulate(
        memory, places, p.active, width, lambda old, lane: new_values[lane] if old == expected_values[lane] else old
    )
    target, returns = p.results(words), p.rng.random() < 0.6
    if in_lds:
        operands = f"v{p.given(places)}, {v(row + words, words)}, {v(row, words)}"
        p.add(f"ds_cmpst_rtn_b{width} {v(target, words)}, {operands}" if returns else f"ds_cmpst_b{width} {operands}")
        p.state.lds = after
    else:
        name, data = f"atomic_cmpswap{'_x2' * (words - 1)}", v(row, 2 * words)
        segment, address, tail = _access(p, places)
        result = f"{v(target, words)}, " if returns else ""
        if segment == "buffer":
            # The result takes the place of the new value.
            p.add(f"buffer_{name} {data}, {address}{tail}{' sc0' * returns}")
            target = row
        else:
            p.add(f"{segment}_{name} {result}{address}, {data}{tail}{' sc0' * returns}")
        p.state.memory = after
    if returns:
        _returned(p, target, olds, words, "")
    else:
        _stored(p)


def compare_floats(p: Program) -> None:
    """A swap in LDS where two floats are equal: zeros of both signs are, and NaN is equal to nothing."""
    if _begin_atomics(p):
        return
    words = p.rng.choice([1, 2])
    width, dtype = 32 * words, (np.float32, np.float64)[words - 1]
    places, rng = _offsets(p, width // 8, LDS_BYTES, align=width // 8), np.random.default_rng(p.rng.getrandbits(32))
    special = np.array([0.0, -0.0, np.nan, 1.0], dtype)
    before, wanted = rng.choice(special, LDS_BYTES // (width // 8)), rng.choice(special, LANES)
    if not p.lines:
        for state in (p.start, p.state):
            state.lds[:] = before.view(np.uint8)
    new = rng.integers(0, 1 << 32, (words, LANES), dtype=np.uint32)
    row, expected = p.given(new), p.given(wanted.view(np.uint32).reshape(LANES, words).T)
    whole = [sum(int(new[word, lane]) << 32 * word for word in range(words)) for lane in range(LANES)]

    def replace(old: int, lane: int) -> int:
        there = np.array([old], f"u{width // 8}").view(dtype)[0]
        return whole[lane] if there == wanted[lane] else old

    p.state.lds, olds = simulate(p.state.lds, places, p.active, width, replace)
    target, returns = p.results(words), p.rng.random() < 0.6
    operands = f"v{p.given(places)}, {v(expected, words)}, {v(row, words)}"
    result = f"_rtn_f{width} {v(target, words)}, " if returns else f"_f{width} "
    p.add(f"ds_cmpst{result}{operands}")
    if returns:
        _returned(p, target, olds, words, "")
    else:
        _stored(p)


def lds_exchange(p: Program) -> None:
    """Exchange, and replacement of the bits of a mask."""
    if _begin_atomics(p):
        return
    words = p.rng.choice([1, 2])
    width = 32 * words
    places = _offsets(p, width // 8, LDS_BYTES, align=width // 8)
    address, (row, values), target = p.given(places), _atomic_data(p, "", words), p.results(words)
    if p.rng.random() < 0.5:
        p.add(f"ds_wrxchg_rtn_b{width} {v(target, words)}, v{address}, {v(row, words)}")
        p.state.lds, olds = simulate(p.state.lds, places, p.active, width, lambda old, lane: values[lane])
        _returned(p, target, olds, words, "")
        return
    second, others = _atomic_data(p, "", words)
    p.state.lds, olds = simulate(
        p.state.lds, places, p.active, width, lambda old, lane: old & ~values[lane] | others[lane]
    )
    operands = f"v{address}, {v(row, words)}, {v(second, words)}"
    if p.rng.random() < 0.5:
        p.add(f"ds_mskor_b{width} {operands}")
        _stored(p)
        return
    p.add(f"ds_mskor_rtn_b{width} {v(target, words)}, {operands}")
    _returned(p, target, olds, words, "")


def scalar_load(p: Program) -> None:
    """Words of memory to scalar registers."""
    words = p.rng.choice([1, 2, 4, 8, 16])
    offset = 4 * p.rng.randrange((GLOBAL_BYTES - 4 * words) // 4)
    first = p.scalar_results(words)
    p.add(f"s_load_dword{'' if words == 1 else f'x{words}'} {s(first, words)}, {s(BASE, 2)}, {offset:#x}")
    for number, word in enumerate(p.state.memory[offset : offset + 4 * words].view(np.uint32)):
        p.set_scalar(first + number, int(word))


def transposing_load(p: Program) -> None:
    """Every 16 lanes are rows of elements, and each gets a column."""
    element = p.rng.choice([4, 6, 8, 16])
    size = 12 if element == 6 else 8
    # What the columns of lanes that are off are, is left open.
    if p.state.exec != (1 << LANES) - 1:
        return
    places = _offsets(p, 16, LDS_BYTES, align=16)
    address, row = p.given(places), p.results(size // 4)
    data = np.stack([p.state.lds[place : place + size] for place in places])
    p.add(f"ds_read_b{8 * size}_tr_b{element} {v(row, size // 4)}, v{address}")
    _write_rows(p, row, np.ascontiguousarray(transposed(data, element)).view(np.uint32).T)


# ---- lanes ----------------------------------------------------------------------------------------------------------


def _word(p: Program) -> int:
    return p.rng.choice(p.words)


def read_lane(p: Program) -> None:
    row, register = _word(p), p.scalar_results(1)
    if p.rng.random() < 0.4:
        first = (p.state.exec & -p.state.exec).bit_length() - 1 if p.state.exec else 0
        p.add(f"v_readfirstlane_b32 {s(register)}, v{row}")
        p.set_scalar(register, int(p.state.vector[row, first]))
        return
    if p.rng.random() < 0.5:
        lane, text = p.rng.randrange(64), None
    else:
        chosen = p.rng.choice(p.s_words)
        lane, text = p.state.scalar[chosen] % 64, s(chosen)
    p.add(f"v_readlane_b32 {s(register)}, v{row}, {text or lane}")
    p.set_scalar(register, int(p.state.vector[row, lane]))


def write_lane(p: Program) -> None:
    row, source, lane = p.results(1), p.rng.choice(p.s_words), p.rng.randrange(64)
    p.add(f"v_writelane_b32 v{row}, {s(source)}, {lane}")
    p.state.vector[row, lane] = p.state.scalar[source]
    p.cases += 1


def count_below(p: Program) -> None:
    half = p.rng.choice(["lo", "hi"])
    mask, addend, row = p.rng.choice(p.s_words), _word(p), p.results(1)
    word = p.state.scalar[mask]
    counts = []
    for lane in range(LANES):
        below = (1 << min(lane, 32)) - 1 if half == "lo" else (1 << max(lane - 32, 0)) - 1
        counts.append((word & below).bit_count() + int(p.state.vector[addend, lane]) & _WORD)
    p.add(f"v_mbcnt_{half}_u32_b32 v{row}, {s(mask)}, v{addend}")
    p.write(row, np.array(counts, np.uint32))


def permute(p: Program) -> None:
    """Pull from, or push to, the lane that a register names in bytes."""
    rng = np.random.default_rng(p.rng.getrandbits(32))
    address = p.given(rng.integers(0, 1 << 10, LANES))
    source, row = _word(p), p.results(1)
    values, lanes = p.state.vector[source], p.state.vector[address] // 4 % 64
    constant = p.rng.choice([0, 0, 4 * p.rng.randrange(64)])
    lanes = (p.state.vector[address] + constant) // 4 % 64
    tail = f" offset:{constant}" if constant else ""
    if p.rng.random() < 0.5:
        p.add(f"ds_bpermute_b32 v{row}, v{address}, v{source}{tail}")
        p.write(row, np.where(p.active[lanes], values[lanes], 0).astype(np.uint32))
        return
    result = np.zeros(LANES, np.uint32)
    for lane in np.flatnonzero(p.active):
        result[lanes[lane]] = values[lane]
    p.add(f"ds_permute_b32 v{row}, v{address}, v{source}{tail}")
    p.write(row, result)


def swizzle(p: Program) -> None:
    """Exchange by a pattern: of four lanes, or by masks within 32."""
    source, row = _word(p), p.results(1)
    if p.rng.random() < 0.4:
        picks = [p.rng.randrange(4) for _ in range(4)]
        pattern = 0x8000 | sum(pick << 2 * number for number, pick in enumerate(picks))
        lanes = np.array([lane & ~3 | picks[lane & 3] for lane in range(LANES)])
    else:
        keep, set_, flip = (p.rng.randrange(32) for _ in range(3))
        pattern = keep | set_ << 5 | flip << 10
        lanes = np.array([lane & 32 | ((lane & 31 & keep) | set_) ^ flip for lane in range(LANES)])
    p.add(f"ds_swizzle_b32 v{row}, v{source} offset:{pattern}")
    p.write(row, np.where(p.active[lanes], p.state.vector[source][lanes], 0).astype(np.uint32))


def move(p: Program) -> None:
    """A move that takes its source from another lane."""
    control = p.rng.choice(list(DPP_CONTROLS))
    masks = p.rng.choice(["row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0xf", "row_mask:0x7 bank_mask:0x9"])
    bound = p.rng.choice(["", " bound_ctrl:1"])
    source, row = _word(p), p.results(1)
    moved = dpp_lanes(control, masks, bound, p.state.vector[source], p.state.exec)
    p.add(f"v_mov_b32_dpp v{row}, v{source} {control} {masks}{bound}")
    p.write(row, np.array([value for _, value in moved], np.uint32), np.array([on for on, _ in moved]))
    p.words.append(row)


def swap(p: Program) -> None:
    """Two registers exchange their values."""
    first, second = p.results(1), p.results(1)
    a, b = p.state.vector[first].copy(), p.state.vector[second].copy()
    p.add(f"v_swap_b32 v{first}, v{second}")
    p.write(first, b)
    p.write(second, a)


def select(p: Program) -> None:
    """One of two registers by a mask."""
    a, b, mask, row = _word(p), _word(p), p.rng.choice(list(S_PAIRS)), p.results(1)
    bits = np.array([p.scalar_pair(mask) >> lane & 1 for lane in range(LANES)], dtype=bool)
    p.add(f"v_cndmask_b32_e64 v{row}, v{a}, v{b}, {s(mask, 2)}")
    p.write(row, np.where(bits, p.state.vector[b], p.state.vector[a]).astype(np.uint32))


def swap_groups(p: Program) -> None:
    """Upper groups of one register against lower groups of another, where both lanes are active."""
    group = p.rng.choice([16, 32])
    first, second = p.results(1), p.results(1)
    for base in range(0, LANES, 2 * group):
        for low in range(base, base + group):
            high = low + group
            if p.state.exec >> low & 1 and p.state.exec >> high & 1:
                vector = p.state.vector
                vector[second, low], vector[first, high] = vector[first, high], vector[second, low]
                p.cases += 2
    p.add(f"v_permlane{group}_swap_b32_e32 v{first}, v{second}")


def indexed_move(p: Program) -> None:
    """A move whose source or destination is a register that the wave computes."""
    index, source = p.rng.randrange(6), p.rng.choice(list(WORDS)[:6])
    to = p.rng.random() < 0.5
    # Words stand in the first twelve registers; a destination is one of six fresh ones.
    row = p.results(6) if to else p.results(1)
    target = row + index if to else row
    value = p.state.vector[source if to else source + index]
    register = p.scalar_results(1)
    p.add(f"s_movk_i32 s{register}, {index}")
    p.state.scalar[register] = index
    mode = f"gpr_idx({'DST' if to else 'SRC0'})"
    if p.rng.random() < 0.5:
        p.add(f"s_set_gpr_idx_on s{register}, {mode}")
    else:
        p.add(f"s_set_gpr_idx_on s{S_EXEC}, {mode}")
        p.add(f"s_set_gpr_idx_idx s{register}")
    p.add(f"v_mov_b32_e32 v{row}, v{source}")
    p.add("s_set_gpr_idx_off")
    p.add("s_mov_b32 m0, s0")
    p.write(target, value)


LANE_WRITERS = (
    read_lane,
    write_lane,
    count_below,
    permute,
    permute,
    swizzle,
    swizzle,
    move,
    move,
    swap,
    select,
    indexed_move,
)
GFX950_LANE_WRITERS = (swap_groups,)
GFX950_LDS_WRITERS = (transposing_load,)
LDS_WRITERS = (lds_load, lds_store, lds_pairs, load_into_lds)
MEMORY_WRITERS = (memory_load, memory_load, memory_store, memory_store, buffer_range, scratch, scalar_load)
ATOMIC_WRITERS = (memory_atomic, memory_atomic, lds_atomic, lds_atomic, compare_and_swap, compare_floats, lds_exchange)
