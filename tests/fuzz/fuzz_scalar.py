"""Instructions of the scalar unit, one random instruction a call."""

from __future__ import annotations

from fuzz_program import S_PAIRS, Program, s
from semantics_integer import LOGIC, SCALAR, signed

_WORD, _LONG = (1 << 32) - 1, (1 << 64) - 1
_RELATIONS = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def _source(p: Program, width: int, *, literal: bool = True) -> tuple[str, int]:
    """Text and value of a source: register, inline constant, VCC, or a literal."""
    choice = p.rng.random()
    if choice < 0.65:
        if width == 64:
            register = p.rng.choice(list(S_PAIRS))
            return s(register, 2), p.scalar_pair(register)
        register = p.rng.choice(p.s_words)
        return s(register), p.state.scalar[register]
    if choice < 0.75 and width == 64:
        return "vcc", p.state.vcc
    if choice < 0.85 and literal and width == 32:
        value = p.rng.getrandbits(32)
        return f"{value:#x}", value
    value = p.rng.randint(-16, 64)
    return str(value), value & ((1 << width) - 1)


def _observe_scc(p: Program) -> None:
    """SCC as a register, before the next instruction changes it."""
    if p.rng.random() < 0.5:
        register = p.scalar_results(1)
        p.add(f"s_cselect_b32 {s(register)}, 1, 0")
        p.set_scalar(register, p.state.scc)


def arithmetic(p: Program) -> None:
    """An opcode of the table of integer semantics."""
    name = p.rng.choice(list(SCALAR))
    opcode = SCALAR[name]
    first = p.scalar_results(opcode.result // 32)
    texts, values = [], []
    for number, width in enumerate(opcode.sources):
        # One literal at most.
        text, value = _source(p, width, literal=number == 0)
        texts.append(text)
        values.append(value)
    if opcode.reads_scc:
        values.append(p.state.scc)
    result = opcode.compute(*values) & ((1 << opcode.result) - 1)
    p.add(f"{name} {s(first, opcode.result // 32)}, {', '.join(texts)}")
    p.set_scalar(first, result, opcode.result // 32)
    if opcode.scc == "nonzero":
        p.state.scc = int(result != 0)
    elif callable(opcode.scc):
        p.state.scc = int(opcode.scc(*values))
    if opcode.result == 32:
        p.s_words.append(first)
    _observe_scc(p)


def compare(p: Program) -> None:
    """Comparisons and bit tests, which set SCC."""
    choice = p.rng.randrange(4)
    if choice == 0:
        width = p.rng.choice([32, 64])
        (a_text, a), (b_text, b) = _source(p, width), _source(p, 32, literal=False)
        wanted = p.rng.randrange(2)
        p.add(f"s_bitcmp{wanted}_b{width} {a_text}, {b_text}")
        p.state.scc = int(a >> b % width & 1 == wanted)
    elif choice == 1:
        relation = p.rng.choice(["eq", "lg"])
        (a_text, a), (b_text, b) = _source(p, 64), _source(p, 64)
        p.add(f"s_cmp_{relation}_u64 {a_text}, {b_text}")
        p.state.scc = int(_RELATIONS[relation](a, b))
    else:
        relation, letter = p.rng.choice(list(_RELATIONS)), p.rng.choice("iu")
        a_text, a = _source(p, 32, literal=False)
        if choice == 2:
            b_text, b = _source(p, 32)
            p.add(f"s_cmp_{relation}_{letter}32 {a_text}, {b_text}")
        else:
            register = p.rng.choice(p.s_words)
            b = p.rng.randint(-32768, 32767) if letter == "i" else p.rng.randrange(65536)
            a = p.state.scalar[register]
            p.add(f"s_cmpk_{relation}_{letter}32 {s(register)}, {b:#x}")
            b &= _WORD
        order = signed if letter == "i" else int
        p.state.scc = int(_RELATIONS[relation](order(a), order(b)))
    p.cases += 1
    register = p.scalar_results(1)
    p.add(f"s_cselect_b32 {s(register)}, 1, 0")
    p.set_scalar(register, p.state.scc)


def constant(p: Program) -> None:
    """Opcodes with a 16-bit constant, and those that change part of their destination."""
    first = p.scalar_results(2)
    low = p.rng.randint(-32768, 32767)
    old = p.state.scalar[first]
    choice = p.rng.randrange(6)
    if choice == 0:
        p.add(f"s_movk_i32 {s(first)}, {low}")
        p.set_scalar(first, low)
    elif choice == 1:
        p.add(f"s_addk_i32 {s(first)}, {low}")
        total = signed(old) + low
        p.set_scalar(first, total)
        p.state.scc = int(not -(1 << 31) <= total < 1 << 31)
    elif choice == 2:
        p.add(f"s_mulk_i32 {s(first)}, {low}")
        p.set_scalar(first, signed(old) * low)
    elif choice == 3:
        p.add(f"s_cmovk_i32 {s(first)}, {low}")
        p.set_scalar(first, low if p.state.scc else old)
    elif choice == 4:
        width = p.rng.choice([32, 64])
        text, value = _source(p, width)
        p.add(f"s_cmov_b{width} {s(first, width // 32)}, {text}")
        before = old if width == 32 else p.scalar_pair(first)
        p.set_scalar(first, value if p.state.scc else before, width // 32)
    else:
        width, bit = p.rng.choice([32, 64]), p.rng.randrange(2)
        text, value = _source(p, 32)
        before = old if width == 32 else p.scalar_pair(first)
        place = 1 << value % width
        p.add(f"s_bitset{bit}_b{width} {s(first, width // 32)}, {text}")
        p.set_scalar(first, before | place if bit else before & ~place, width // 32)
    _observe_scc(p)


def save_exec(p: Program) -> None:
    """Opcodes that change EXEC; it is looked at and put back."""
    names = {
        **LOGIC,
        "andn1": lambda a, b: ~a & b,
        "orn1": lambda a, b: ~a | b,
    }
    text, value = _source(p, 64)
    # All results first: a program that ends in between would leave EXEC changed.
    first, seen, before = p.scalar_results(2), p.scalar_results(2), p.state.exec
    if p.rng.random() < 0.25:
        name = p.rng.choice(["andn1", "andn2"])
        result = names[name](value, before) & _LONG
        p.add(f"s_{name}_wrexec_b64 {s(first, 2)}, {text}")
        p.set_scalar(first, result, 2)
    else:
        name = p.rng.choice(list(names))
        result = names[name](value, before) & _LONG
        p.add(f"s_{name}_saveexec_b64 {s(first, 2)}, {text}")
        p.set_scalar(first, before, 2)
    p.state.scc = int(result != 0)
    p.add(f"s_mov_b64 {s(seen, 2)}, exec")
    p.set_scalar(seen, result, 2)
    p.add("s_mov_b64 exec, s[32:33]")
    _observe_scc(p)


def mode_fields(p: Program) -> None:
    """FP16_OVFL is set and put back, and fields of MODE are read in between."""
    bit = p.rng.randrange(2)
    p.add(f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), {bit}")
    mode = p.mode & ~(1 << 23) | bit << 23
    first = p.rng.randrange(32)
    size, register = p.rng.randint(1, 32 - first), p.scalar_results(2)
    p.add(f"s_getreg_b32 {s(register)}, hwreg(HW_REG_MODE, {first}, {size})")
    p.set_scalar(register, mode >> first & ((1 << size) - 1))
    p.add(f"s_movk_i32 {s(register + 1)}, {p.mode >> 23 & 1}")
    p.state.scalar[register + 1] = p.mode >> 23 & 1
    p.add(f"s_setreg_b32 hwreg(HW_REG_MODE, 23, 1), {s(register + 1)}")


def call(p: Program) -> None:
    """A function behind the end of the program, which writes a register and returns."""
    # Addresses need not be those of a GPU, so that what held them is overwritten. All results first, as above.
    address, back = p.scalar_results(2), p.scalar_results(2)
    register = p.scalar_results(1)
    text, value = _source(p, 32)
    name = f"function{len(p.functions)}"
    p.add(f"s_getpc_b64 {s(address, 2)}")
    p.add(f"s_add_u32 {s(address)}, {s(address)}, {name}@rel32@lo+4")
    p.add(f"s_addc_u32 {s(address + 1)}, {s(address + 1)}, {name}@rel32@hi+12")
    p.add(f"s_swappc_b64 {s(back, 2)}, {s(address, 2)}")
    p.functions += [f".Lfunc_end{len(p.functions) + 1}:", f"\t.type\t{name},@function", f"{name}:"]
    p.functions += [f"s_mov_b32 {s(register)}, {text}", f"s_setpc_b64 {s(back, 2)}"]
    p.set_scalar(register, value)
    for pair in (address, back):
        p.add(f"s_mov_b64 {s(pair, 2)}, 0")
        p.state.scalar[pair : pair + 2] = 0, 0
    p.add(f"s_cmp_eq_u32 {s(register)}, 0")
    p.state.scc = int(value == 0)
    _observe_scc(p)


def clock(p: Program) -> None:
    """Two readings of a clock: the later one is not smaller. What they are differs, so that it is overwritten."""
    name = p.rng.choice(["s_memtime", "s_memrealtime"])
    earlier, later = p.scalar_results(2), p.scalar_results(2)
    p.add(f"{name} {s(earlier, 2)}")
    p.add("s_waitcnt lgkmcnt(0)")
    p.add(f"{name} {s(later, 2)}")
    p.add("s_waitcnt lgkmcnt(0)")
    p.add(f"s_sub_u32 {s(later)}, {s(later)}, {s(earlier)}")
    p.add(f"s_subb_u32 {s(later + 1)}, {s(later + 1)}, {s(earlier + 1)}")
    p.state.scc = 0
    p.cases += 1
    for pair in (earlier, later):
        p.add(f"s_mov_b64 {s(pair, 2)}, 0")
        p.state.scalar[pair : pair + 2] = 0, 0
    _observe_scc(p)
