"""FP8 operators for AMD Instinct MI300X, MI325X and MI355X, with plain torch references.

Operators live in one folder each and are imported from there (``from wavecast.kernels.colwise_per_group import
colwise_per_group``); this module exports what every caller needs: the formats and the path taken.
"""

from __future__ import annotations

from wavecast.kernels.device import Path, active_arch, last_path, native_format, plain_torch
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, FORMATS, Fp8Format, format_named, format_of

__all__ = [
    "E4M3FN",
    "E4M3FNUZ",
    "E5M2",
    "E5M2FNUZ",
    "FORMATS",
    "Fp8Format",
    "Path",
    "active_arch",
    "format_named",
    "format_of",
    "last_path",
    "native_format",
    "plain_torch",
]
