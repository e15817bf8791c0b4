"""Pictures of a comparison: roofline, traffic by level, waterfall of causes, intervals; each beside its data.

What a picture shows is made by a pure function of this package, and is what stands in the CSV file; ``drawing`` turns
it into a figure, and is the only part that needs matplotlib.
"""

from __future__ import annotations

from wavecast.cli.plots.files import check_place, write, write_rows

__all__ = ["check_place", "write", "write_rows"]
