"""Kernel descriptors of a code object: 64 bytes a kernel, as the directives that an assembler would make them from.

Layout from LLVM's AMDGPUUsage, "Kernel Descriptor" and "compute_pgm_rsrc1/2/3", for gfx90a to gfx950.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wavecast.simulator.errors import AssemblyError

DESCRIPTOR_BYTES = 64
# group, private and kernarg size, entry offset, three resource registers, properties, preload; the rest is reserved.
_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")
# Directive, first bit and width in a register.
_RSRC1 = (
    ("float_round_mode_32", 12, 2),
    ("float_round_mode_16_64", 14, 2),
    ("float_denorm_mode_32", 16, 2),
    ("float_denorm_mode_16_64", 18, 2),
    ("dx10_clamp", 21, 1),
    ("ieee_mode", 23, 1),
    ("fp16_overflow", 26, 1),
)
_RSRC2 = (
    ("enable_private_segment", 0, 1),
    ("user_sgpr_count", 1, 5),
    ("system_sgpr_workgroup_id_x", 7, 1),
    ("system_sgpr_workgroup_id_y", 8, 1),
    ("system_sgpr_workgroup_id_z", 9, 1),
    ("system_sgpr_workgroup_info", 10, 1),
    ("system_vgpr_workitem_id", 11, 2),
)
_PROPERTIES = (
    ("user_sgpr_private_segment_buffer", 0, 1),
    ("user_sgpr_dispatch_ptr", 1, 1),
    ("user_sgpr_queue_ptr", 2, 1),
    ("user_sgpr_kernarg_segment_ptr", 3, 1),
    ("user_sgpr_dispatch_id", 4, 1),
    ("user_sgpr_flat_scratch_init", 5, 1),
    ("user_sgpr_private_segment_size", 6, 1),
    ("uses_dynamic_stack", 11, 1),
)
_PRELOAD = (("user_sgpr_kernarg_preload_length", 0, 7), ("user_sgpr_kernarg_preload_offset", 7, 9))
_VGPR_GRANULE, _SGPR_GRANULE, _ACCUM_GRANULE = 8, 16, 4


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A kernel descriptor.

    Attributes:
        entry_offset: Bytes from the descriptor to the kernel's first instruction.
        directives: ``.amdhsa_*`` directives without the prefix. Register counts are whole granules, as only those are
            kept.
    """

    entry_offset: int
    directives: dict[str, int]


def read_descriptor(name: str, data: bytes) -> Descriptor:
    """Take a descriptor apart.

    Args:
        name: Kernel, for errors.
        data: Its 64 bytes.

    Raises:
        AssemblyError: There are fewer.
    """
    if len(data) != DESCRIPTOR_BYTES:
        raise AssemblyError(f"the descriptor of kernel {name!r} has {len(data)} bytes, wanted {DESCRIPTOR_BYTES}")
    group, private, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _LAYOUT.unpack(data)
    directives = {
        "group_segment_fixed_size": group,
        "private_segment_fixed_size": private,
        "kernarg_size": kernarg,
        "next_free_vgpr": ((rsrc1 & 0x3F) + 1) * _VGPR_GRANULE,
        "next_free_sgpr": ((rsrc1 >> 6 & 0xF) // 2 + 1) * _SGPR_GRANULE,
        "accum_offset": ((rsrc3 & 0x3F) + 1) * _ACCUM_GRANULE,
        "tg_split": rsrc3 >> 16 & 1,
    }
    for value, fields in ((rsrc1, _RSRC1), (rsrc2, _RSRC2), (properties, _PROPERTIES), (preload, _PRELOAD)):
        directives |= {key: value >> first & (1 << width) - 1 for key, first, width in fields}
    return Descriptor(entry, directives)
