"""What the integer opcodes compute, on plain Python integers: written from the instruction set's description.

Sources arrive as unsigned numbers of their width; results are cut to the width of the destination by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Opcode(NamedTuple):
    """Operand widths and meaning of one opcode.

    Attributes:
        results: Width of each destination: 16, 32 or 64 bits, 1 for a lane mask.
        sources: The same for the sources.
        compute: Sources to result, or to a tuple of results.
        keeps_high: A 16-bit result leaves the high half of its register alone.
    """

    results: tuple[int, ...]
    sources: tuple[int, ...]
    compute: Callable[..., int | tuple[int, ...]]
    keeps_high: bool = False


def signed(value: int, width: int = 32) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _s24(value: int) -> int:
    return signed(value, 24)


def _u24(value: int) -> int:
    return value % (1 << 24)


def _leading(value: int, width: int = 32) -> int:
    """Zeros above the highest set bit, -1 if there is none."""
    return width - value.bit_length() if value else -1


def _trailing(value: int) -> int:
    return (value & -value).bit_length() - 1


def _leading_signed(value: int, width: int = 32) -> int:
    bits = format(value, f"0{width}b")
    other = "1" if bits[0] == "0" else "0"
    return bits.find(other)


def _reverse(value: int, width: int = 32) -> int:
    return int(format(value, f"0{width}b")[::-1], 2)


def _field(value: int, offset: int, size: int) -> int:
    return value >> offset % 32 & (1 << size % 32) - 1


def _signed_field(value: int, offset: int, size: int) -> int:
    size %= 32
    field = signed(value) >> offset % 32 & (1 << size) - 1
    return signed(field, size) if size else 0


def permute_bytes(high: int, low: int, selectors: int) -> int:
    """v_perm_b32."""
    pool = (high << 32 | low).to_bytes(8, "little")
    result = []
    for selector in selectors.to_bytes(4, "little"):
        if selector < 8:
            result.append(pool[selector])
        elif selector < 12:
            top = pool[(1, 3, 5, 7)[selector - 8]]
            result.append(0xFF if top & 0x80 else 0)
        else:
            result.append(0 if selector == 12 else 0xFF)
    return int.from_bytes(bytes(result), "little")


def lookup(table: int) -> Callable[[int, int, int], int]:
    """v_bitop3 with this truth table, bit by bit."""

    def compute(a: int, b: int, c: int) -> int:
        result = 0
        for bit in range(32):
            index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
            result |= (table >> index & 1) << bit
        return result

    return compute


def _carry(a: int, b: int, carry: int = 0) -> tuple[int, int]:
    return a + b + carry, int(a + b + carry >= 1 << 32)


def _borrow(a: int, b: int, borrow: int = 0) -> tuple[int, int]:
    return a - b - borrow, int(a - b - borrow < 0)


def _mad_signed(a: int, b: int, c: int) -> tuple[int, int]:
    total = signed(a) * signed(b) + signed(c, 64)
    return total, total >> 64 & 1


def _mad_unsigned(a: int, b: int, c: int) -> tuple[int, int]:
    total = a * b + c
    return total, total >> 64


def _sad(a: int, b: int, size: int) -> int:
    x, y = a.to_bytes(4, "little"), b.to_bytes(4, "little")
    parts = [
        (int.from_bytes(x[i : i + size], "little"), int.from_bytes(y[i : i + size], "little"))
        for i in range(0, 4, size)
    ]
    return sum(abs(p - q) for p, q in parts)


_ONE, _TWO, _THREE = (32,), (32, 32), (32, 32, 32)

VECTOR: dict[str, Opcode] = {
    "v_mov_b32_e32": Opcode(_ONE, _ONE, lambda a: a),
    "v_mov_b64_e32": Opcode((64,), (64,), lambda a: a),
    "v_not_b32_e32": Opcode(_ONE, _ONE, lambda a: ~a),
    "v_bfrev_b32_e32": Opcode(_ONE, _ONE, _reverse),
    "v_ffbh_u32_e32": Opcode(_ONE, _ONE, _leading),
    "v_ffbh_i32_e32": Opcode(_ONE, _ONE, _leading_signed),
    "v_ffbl_b32_e32": Opcode(_ONE, _ONE, _trailing),
    "v_prng_b32_e32": Opcode(_ONE, _ONE, lambda a: a << 1 ^ (197 if a >> 31 else 0)),
    "v_add_u32_e32": Opcode(_ONE, _TWO, lambda a, b: a + b),
    "v_sub_u32_e32": Opcode(_ONE, _TWO, lambda a, b: a - b),
    "v_subrev_u32_e32": Opcode(_ONE, _TWO, lambda a, b: b - a),
    "v_add_i32": Opcode(_ONE, _TWO, lambda a, b: a + b),
    "v_sub_i32": Opcode(_ONE, _TWO, lambda a, b: a - b),
    "v_add_u16_e32": Opcode((16,), (16, 16), lambda a, b: a + b),
    "v_sub_u16_e32": Opcode((16,), (16, 16), lambda a, b: a - b),
    "v_subrev_u16_e32": Opcode((16,), (16, 16), lambda a, b: b - a),
    "v_add_i16": Opcode((16,), (16, 16), lambda a, b: a + b, True),
    "v_sub_i16": Opcode((16,), (16, 16), lambda a, b: a - b, True),
    "v_add_co_u32_e64": Opcode((32, 1), _TWO, _carry),
    "v_sub_co_u32_e64": Opcode((32, 1), _TWO, _borrow),
    "v_subrev_co_u32_e64": Opcode((32, 1), _TWO, lambda a, b: _borrow(b, a)),
    "v_addc_co_u32_e64": Opcode((32, 1), (32, 32, 1), _carry),
    "v_subb_co_u32_e64": Opcode((32, 1), (32, 32, 1), _borrow),
    "v_subbrev_co_u32_e64": Opcode((32, 1), (32, 32, 1), lambda a, b, c: _borrow(b, a, c)),
    "v_add3_u32": Opcode(_ONE, _THREE, lambda a, b, c: a + b + c),
    "v_xad_u32": Opcode(_ONE, _THREE, lambda a, b, c: (a ^ b) + c),
    "v_mul_lo_u32": Opcode(_ONE, _TWO, lambda a, b: a * b),
    "v_mul_hi_u32": Opcode(_ONE, _TWO, lambda a, b: a * b >> 32),
    "v_mul_hi_i32": Opcode(_ONE, _TWO, lambda a, b: signed(a) * signed(b) >> 32),
    "v_mul_lo_u16_e32": Opcode((16,), (16, 16), lambda a, b: a * b),
    "v_mul_u32_u24_e32": Opcode(_ONE, _TWO, lambda a, b: _u24(a) * _u24(b)),
    "v_mul_i32_i24_e32": Opcode(_ONE, _TWO, lambda a, b: _s24(a) * _s24(b)),
    "v_mul_hi_u32_u24_e32": Opcode(_ONE, _TWO, lambda a, b: _u24(a) * _u24(b) >> 32),
    "v_mul_hi_i32_i24_e32": Opcode(_ONE, _TWO, lambda a, b: _s24(a) * _s24(b) >> 32),
    "v_mad_u32_u24": Opcode(_ONE, _THREE, lambda a, b, c: _u24(a) * _u24(b) + c),
    "v_mad_i32_i24": Opcode(_ONE, _THREE, lambda a, b, c: _s24(a) * _s24(b) + c),
    "v_mad_u32_u16": Opcode(_ONE, (16, 16, 32), lambda a, b, c: a * b + c),
    "v_mad_i32_i16": Opcode(_ONE, (16, 16, 32), lambda a, b, c: signed(a, 16) * signed(b, 16) + c),
    "v_mad_legacy_u16": Opcode((16,), (16, 16, 16), lambda a, b, c: a * b + c),
    "v_mad_legacy_i16": Opcode((16,), (16, 16, 16), lambda a, b, c: a * b + c),
    "v_mad_u16": Opcode((16,), (16, 16, 16), lambda a, b, c: a * b + c, True),
    "v_mad_i16": Opcode((16,), (16, 16, 16), lambda a, b, c: a * b + c, True),
    "v_mad_u64_u32": Opcode((64, 1), (32, 32, 64), _mad_unsigned),
    "v_mad_i64_i32": Opcode((64, 1), (32, 32, 64), _mad_signed),
    "v_sad_u8": Opcode(_ONE, _THREE, lambda a, b, c: _sad(a, b, 1) + c),
    "v_sad_hi_u8": Opcode(_ONE, _THREE, lambda a, b, c: (_sad(a, b, 1) << 16) + c),
    "v_sad_u16": Opcode(_ONE, _THREE, lambda a, b, c: _sad(a, b, 2) + c),
    "v_sad_u32": Opcode(_ONE, _THREE, lambda a, b, c: _sad(a, b, 4) + c),
    "v_and_b32_e32": Opcode(_ONE, _TWO, lambda a, b: a & b),
    "v_or_b32_e32": Opcode(_ONE, _TWO, lambda a, b: a | b),
    "v_xor_b32_e32": Opcode(_ONE, _TWO, lambda a, b: a ^ b),
    "v_xnor_b32_e32": Opcode(_ONE, _TWO, lambda a, b: ~(a ^ b)),
    "v_and_or_b32": Opcode(_ONE, _THREE, lambda a, b, c: a & b | c),
    "v_or3_b32": Opcode(_ONE, _THREE, lambda a, b, c: a | b | c),
    "v_bfi_b32": Opcode(_ONE, _THREE, lambda a, b, c: a & b | ~a & c),
    "v_lshlrev_b32_e32": Opcode(_ONE, _TWO, lambda n, a: a << n % 32),
    "v_lshrrev_b32_e32": Opcode(_ONE, _TWO, lambda n, a: a >> n % 32),
    "v_ashrrev_i32_e32": Opcode(_ONE, _TWO, lambda n, a: signed(a) >> n % 32),
    "v_lshlrev_b16_e32": Opcode((16,), (16, 16), lambda n, a: a << n % 16),
    "v_lshrrev_b16_e32": Opcode((16,), (16, 16), lambda n, a: a >> n % 16),
    "v_ashrrev_i16_e32": Opcode((16,), (16, 16), lambda n, a: signed(a, 16) >> n % 16),
    "v_lshlrev_b64": Opcode((64,), (32, 64), lambda n, a: a << n % 64),
    "v_lshrrev_b64": Opcode((64,), (32, 64), lambda n, a: a >> n % 64),
    "v_ashrrev_i64": Opcode((64,), (32, 64), lambda n, a: signed(a, 64) >> n % 64),
    "v_lshl_add_u32": Opcode(_ONE, _THREE, lambda a, n, b: (a << n % 32) + b),
    "v_lshl_add_u64": Opcode((64,), (64, 32, 64), lambda a, n, b: (a << (n % 8 if n % 8 <= 4 else 0)) + b),
    "v_add_lshl_u32": Opcode(_ONE, _THREE, lambda a, b, n: a + b << n % 32),
    "v_lshl_or_b32": Opcode(_ONE, _THREE, lambda a, n, b: a << n % 32 | b),
    "v_alignbit_b32": Opcode(_ONE, _THREE, lambda a, b, n: (a << 32 | b) >> n % 32),
    "v_alignbyte_b32": Opcode(_ONE, _THREE, lambda a, b, n: (a << 32 | b) >> 8 * (n % 4)),
    "v_bfe_u32": Opcode(_ONE, _THREE, _field),
    "v_bfe_i32": Opcode(_ONE, _THREE, _signed_field),
    "v_bfm_b32": Opcode(_ONE, _TWO, lambda n, o: (1 << n % 32) - 1 << o % 32),
    "v_bcnt_u32_b32": Opcode(_ONE, _TWO, lambda a, b: a.bit_count() + b),
    "v_perm_b32": Opcode(_ONE, _THREE, permute_bytes),
    "v_cndmask_b32_e64": Opcode(_ONE, (32, 32, 1), lambda a, b, c: b if c else a),
}
for _type, _width in (("i32", 32), ("u32", 32), ("i16", 16), ("u16", 16)):

    def _order(value: int, type_: str = _type, width: int = _width) -> int:
        return signed(value, width) if type_[0] == "i" else value

    _pair, _triple = (_width,) * 2, (_width,) * 3
    _keeps = _width == 16
    for _name, _pick in (("min", min), ("max", max)):
        VECTOR[f"v_{_name}_{_type}_e32"] = Opcode(
            (_width,), _pair, lambda a, b, pick=_pick, order=_order: pick(a, b, key=order)
        )
        VECTOR[f"v_{_name}3_{_type}"] = Opcode(
            (_width,), _triple, lambda a, b, c, pick=_pick, order=_order: pick(a, b, c, key=order), _keeps
        )
    VECTOR[f"v_med3_{_type}"] = Opcode(
        (_width,), _triple, lambda a, b, c, order=_order: sorted((a, b, c), key=order)[1], _keeps
    )


def _scalar_field(value: int, field: int, width: int) -> int:
    return value >> field % width & (1 << (field >> 16 & 0x7F)) - 1


def _scalar_signed_field(value: int, field: int, width: int) -> int:
    size = min(field >> 16 & 0x7F, width)
    return signed(signed(value, width) >> field % width, size) if size else 0


def _first(value: int, width: int, bit: int) -> int:
    return format(value, f"0{width}b")[::-1].find(str(bit))


def _groups(value: int, width: int) -> int:
    return sum(0xF << place for place in range(0, width, 4) if value >> place & 0xF)


class ScalarOpcode(NamedTuple):
    """As ``Opcode``, with SCC after it: a function of the sources, ``"nonzero"`` of the result, or None: unchanged.

    ``reads_scc`` adds the old SCC as last argument of ``compute`` and ``scc``.
    """

    result: int
    sources: tuple[int, ...]
    compute: Callable[..., int]
    scc: Callable[..., bool] | str | None = None
    reads_scc: bool = False


def _overflows(total: int) -> bool:
    return not -(1 << 31) <= total < 1 << 31


SCALAR: dict[str, ScalarOpcode] = {
    "s_mov_b32": ScalarOpcode(32, (32,), lambda a: a),
    "s_mov_b64": ScalarOpcode(64, (64,), lambda a: a),
    "s_cselect_b32": ScalarOpcode(32, _TWO, lambda a, b, c: a if c else b, None, True),
    "s_cselect_b64": ScalarOpcode(64, (64, 64), lambda a, b, c: a if c else b, None, True),
    "s_add_u32": ScalarOpcode(32, _TWO, lambda a, b: a + b, lambda a, b: a + b >= 1 << 32),
    "s_sub_u32": ScalarOpcode(32, _TWO, lambda a, b: a - b, lambda a, b: a < b),
    "s_addc_u32": ScalarOpcode(32, _TWO, lambda a, b, c: a + b + c, lambda a, b, c: a + b + c >= 1 << 32, True),
    "s_subb_u32": ScalarOpcode(32, _TWO, lambda a, b, c: a - b - c, lambda a, b, c: a - b - c < 0, True),
    "s_add_i32": ScalarOpcode(32, _TWO, lambda a, b: a + b, lambda a, b: _overflows(signed(a) + signed(b))),
    "s_sub_i32": ScalarOpcode(32, _TWO, lambda a, b: a - b, lambda a, b: _overflows(signed(a) - signed(b))),
    "s_mul_i32": ScalarOpcode(32, _TWO, lambda a, b: a * b),
    "s_mul_hi_u32": ScalarOpcode(32, _TWO, lambda a, b: a * b >> 32),
    "s_mul_hi_i32": ScalarOpcode(32, _TWO, lambda a, b: signed(a) * signed(b) >> 32),
    "s_min_i32": ScalarOpcode(32, _TWO, lambda a, b: min(signed(a), signed(b)), lambda a, b: signed(a) < signed(b)),
    "s_max_i32": ScalarOpcode(32, _TWO, lambda a, b: max(signed(a), signed(b)), lambda a, b: signed(a) >= signed(b)),
    "s_min_u32": ScalarOpcode(32, _TWO, min, lambda a, b: a < b),
    "s_max_u32": ScalarOpcode(32, _TWO, max, lambda a, b: a >= b),
    "s_abs_i32": ScalarOpcode(32, _ONE, lambda a: abs(signed(a)), "nonzero"),
    "s_absdiff_i32": ScalarOpcode(32, _TWO, lambda a, b: abs(signed(a - b)), "nonzero"),
    "s_not_b32": ScalarOpcode(32, _ONE, lambda a: ~a, "nonzero"),
    "s_not_b64": ScalarOpcode(64, (64,), lambda a: ~a, "nonzero"),
    "s_wqm_b32": ScalarOpcode(32, _ONE, lambda a: _groups(a, 32), "nonzero"),
    "s_wqm_b64": ScalarOpcode(64, (64,), lambda a: _groups(a, 64), "nonzero"),
    "s_brev_b32": ScalarOpcode(32, _ONE, _reverse),
    "s_brev_b64": ScalarOpcode(64, (64,), lambda a: _reverse(a, 64)),
    "s_lshl_b32": ScalarOpcode(32, _TWO, lambda a, n: a << n % 32, "nonzero"),
    "s_lshr_b32": ScalarOpcode(32, _TWO, lambda a, n: a >> n % 32, "nonzero"),
    "s_ashr_i32": ScalarOpcode(32, _TWO, lambda a, n: signed(a) >> n % 32, "nonzero"),
    "s_lshl_b64": ScalarOpcode(64, (64, 32), lambda a, n: a << n % 64, "nonzero"),
    "s_lshr_b64": ScalarOpcode(64, (64, 32), lambda a, n: a >> n % 64, "nonzero"),
    "s_ashr_i64": ScalarOpcode(64, (64, 32), lambda a, n: signed(a, 64) >> n % 64, "nonzero"),
    "s_bfe_u32": ScalarOpcode(32, _TWO, lambda a, f: _scalar_field(a, f, 32), "nonzero"),
    "s_bfe_i32": ScalarOpcode(32, _TWO, lambda a, f: _scalar_signed_field(a, f, 32), "nonzero"),
    "s_bfe_u64": ScalarOpcode(64, (64, 32), lambda a, f: _scalar_field(a, f, 64), "nonzero"),
    "s_bfe_i64": ScalarOpcode(64, (64, 32), lambda a, f: _scalar_signed_field(a, f, 64), "nonzero"),
    "s_bfm_b32": ScalarOpcode(32, _TWO, lambda n, o: (1 << n % 32) - 1 << o % 32),
    "s_bfm_b64": ScalarOpcode(64, _TWO, lambda n, o: (1 << n % 64) - 1 << o % 64),
    "s_bcnt0_i32_b32": ScalarOpcode(32, _ONE, lambda a: 32 - a.bit_count(), "nonzero"),
    "s_bcnt1_i32_b32": ScalarOpcode(32, _ONE, lambda a: a.bit_count(), "nonzero"),
    "s_bcnt0_i32_b64": ScalarOpcode(32, (64,), lambda a: 64 - a.bit_count(), "nonzero"),
    "s_bcnt1_i32_b64": ScalarOpcode(32, (64,), lambda a: a.bit_count(), "nonzero"),
    "s_ff0_i32_b32": ScalarOpcode(32, _ONE, lambda a: _first(a, 32, 0)),
    "s_ff1_i32_b32": ScalarOpcode(32, _ONE, lambda a: _first(a, 32, 1)),
    "s_ff0_i32_b64": ScalarOpcode(32, (64,), lambda a: _first(a, 64, 0)),
    "s_ff1_i32_b64": ScalarOpcode(32, (64,), lambda a: _first(a, 64, 1)),
    "s_flbit_i32_b32": ScalarOpcode(32, _ONE, _leading),
    "s_flbit_i32_b64": ScalarOpcode(32, (64,), lambda a: _leading(a, 64)),
    "s_flbit_i32": ScalarOpcode(32, _ONE, _leading_signed),
    "s_flbit_i32_i64": ScalarOpcode(32, (64,), lambda a: _leading_signed(a, 64)),
    "s_sext_i32_i8": ScalarOpcode(32, _ONE, lambda a: signed(a, 8)),
    "s_sext_i32_i16": ScalarOpcode(32, _ONE, lambda a: signed(a, 16)),
    "s_pack_ll_b32_b16": ScalarOpcode(32, _TWO, lambda a, b: a % 65536 + (b % 65536 << 16)),
    "s_pack_lh_b32_b16": ScalarOpcode(32, _TWO, lambda a, b: a % 65536 + (b >> 16 << 16)),
    "s_pack_hh_b32_b16": ScalarOpcode(32, _TWO, lambda a, b: (a >> 16) + (b >> 16 << 16)),
}
for _places in (1, 2, 3, 4):
    SCALAR[f"s_lshl{_places}_add_u32"] = ScalarOpcode(
        32,
        _TWO,
        lambda a, b, n=_places: (a << n) + b,
        lambda a, b, n=_places: (a << n) + b >= 1 << 32,
    )
LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _name, _compute in LOGIC.items():
    SCALAR[f"s_{_name}_b32"] = ScalarOpcode(32, _TWO, _compute, "nonzero")
    SCALAR[f"s_{_name}_b64"] = ScalarOpcode(64, (64, 64), _compute, "nonzero")
