"""Time of a matrix multiplication without its code: from shape, tile and device.

For the project's own kernels, whose code is at hand, execution says more; this is for libraries whose code is not, and
for shapes before there is a kernel.
"""

from __future__ import annotations

from wavecast.simulator.timing.gemm.libraries import LIBRARIES, Library, library
from wavecast.simulator.timing.gemm.model import Mechanisms, evaluate_gemm
from wavecast.simulator.timing.gemm.predict import GemmPrediction, predict_gemm, rank_kernels
from wavecast.simulator.timing.gemm.problem import GemmError, GemmProblem, Scaling, Shape
from wavecast.simulator.timing.gemm.tile import Configuration, Tile

__all__ = [
    "LIBRARIES",
    "Configuration",
    "GemmError",
    "GemmPrediction",
    "GemmProblem",
    "Library",
    "Mechanisms",
    "Scaling",
    "Shape",
    "Tile",
    "evaluate_gemm",
    "library",
    "predict_gemm",
    "rank_kernels",
]
