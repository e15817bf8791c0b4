"""What a kernel learns of its launch, as clang's code reads it: ids, sizes, hidden arguments, the dispatch packet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.assembly import parse_assembly

from .toolchain import assembly, why_not

pytestmark = [pytest.mark.execute, pytest.mark.skipif(bool(why_not()), reason=why_not() or "compiles")]

SOURCE = """
__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1, 256)))
void ids(GLOBAL u32 *out, u8 tag) {
  u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
  u32 gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y();
  u32 gz = __builtin_amdgcn_workgroup_id_z();
  u32 sx = __builtin_amdgcn_workgroup_size_x(), sy = __builtin_amdgcn_workgroup_size_y();
  u32 sz = __builtin_amdgcn_workgroup_size_z();
  u32 nx = __builtin_amdgcn_grid_size_x(), ny = __builtin_amdgcn_grid_size_y(), nz = __builtin_amdgcn_grid_size_z();
  u64 place = ((u64)(gz * sz + z) * ny + (gy * sy + y)) * nx + gx * sx + x;
  GLOBAL u32 *mine = out + place * 8;
  mine[0] = x | y << 8 | z << 16 | (u32)tag << 24;
  mine[1] = gx | gy << 8 | gz << 16;
  mine[2] = sx | sy << 8 | sz << 16;
  mine[3] = nx; mine[4] = ny; mine[5] = nz;
}
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("version", ["4", "5", "6"])
@pytest.mark.parametrize(("block", "grid"), [((64, 1, 1), (3, 1, 1)), ((8, 4, 2), (2, 3, 2)), ((7, 5, 3), (2, 1, 3))])
def test_ids_and_sizes(
    tmp_path: Path, arch: str, version: str, block: tuple[int, int, int], grid: tuple[int, int, int]
) -> None:
    source = tmp_path / "ids.c"
    source.write_text(SOURCE)
    kernel = parse_assembly(assembly(source, arch, "2", f"-mcode-object-version={version}"))
    size = np.array(block) * grid
    out = np.zeros((size[2], size[1], size[0], 8), np.uint32)
    memory = AddressSpace()
    pointer = memory.map_array(out, "out")
    Engine().execute(kernel, grid=grid, block=block, arguments=[pointer, 0xA5], memory=memory)
    z, y, x = np.indices(out.shape[:3])
    np.testing.assert_array_equal(out[..., 0], x % block[0] | y % block[1] << 8 | z % block[2] << 16 | 0xA5 << 24)
    np.testing.assert_array_equal(out[..., 1], x // block[0] | y // block[1] << 8 | z // block[2] << 16)
    assert (out[..., 2] == block[0] | block[1] << 8 | block[2] << 16).all()
    for axis in range(3):
        assert (out[..., 3 + axis] == size[axis]).all()
