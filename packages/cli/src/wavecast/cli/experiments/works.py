"""What kernels do that an H200 runs beside its warps, for experiments whose shapes say it.

Such kernels are counted and timed, not executed; their tiles are those that the operators plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wavecast.cli.experiments.experiment import Shape

if TYPE_CHECKING:
    from wavecast.simulator.timing.gemm import GemmProblem
    from wavecast.simulator.timing.modelled import Work

Works = Mapping[str, Sequence["Work"]]
PRODUCT_KERNEL, COLUMNS_KERNEL = "gemm_tma_kernel", "colwise_tma_kernel"
_IN_BYTES, _OUT_BYTES = 2, 1


def product(problem: GemmProblem) -> Works:
    """A product by the operators' kernel for sm_90."""
    from wavecast.kernels.grouped_gemm.plan_tma import BLOCK_K_BYTES, plan_tma_grouped
    from wavecast.simulator.timing.gemm import Configuration, Tile
    from wavecast.simulator.timing.modelled import TiledProduct

    plan = plan_tma_grouped(element_bytes=problem.bits // 8, out_bytes=problem.out_bytes)
    # Two groups of four warps multiply the upper and the lower half of a tile.
    tile = Tile(plan.block_m, plan.block_n, BLOCK_K_BYTES, plan.stages, plan.stages - 1, wave_rows=2, wave_columns=1)
    how = Configuration(tile, persistent=True, window=plan.band, workgroups_per_cu=1, bulk=True)
    return {PRODUCT_KERNEL: (TiledProduct(problem, how),)}


def columns_of(*matrices: tuple[int, int, int]) -> Works:
    """Quantizing by columns, a launch for each matrix.

    Args:
        matrices: Groups, rows of each, and columns.
    """
    return {COLUMNS_KERNEL: tuple(_columns(*matrix) for matrix in matrices)}


def _columns(groups: int, rows: int, columns: int) -> Work:
    from wavecast.kernels.colwise_per_group.plan_tma import plan_tma
    from wavecast.simulator.timing.modelled import StagedCopy

    plan = plan_tma()
    parts = -(-rows // (plan.rows * plan.part))
    values = groups * rows * columns
    return StagedCopy(
        items=groups * parts * -(-columns // plan.columns),
        programs=plan.programs,
        read_bytes=_IN_BYTES * values,
        write_bytes=_OUT_BYTES * values,
        joined=parts > 1,
    )


def of_weights(_: str, shape: Shape) -> Works:
    """Expert weights by the rows of their k: an expert is a group of n rows of k columns."""
    return columns_of((shape["experts"], shape["n"], shape["k"]))
