"""From the data of a picture to a figure; the only part that needs matplotlib."""

from __future__ import annotations

from wavecast.cli.plots.drawing.gantt import draw_gantt
from wavecast.cli.plots.drawing.intervals import draw_intervals
from wavecast.cli.plots.drawing.roofline import draw_roofline
from wavecast.cli.plots.drawing.style import save
from wavecast.cli.plots.drawing.traffic import draw_traffic
from wavecast.cli.plots.drawing.waterfall import draw_waterfall

__all__ = ["draw_gantt", "draw_intervals", "draw_roofline", "draw_traffic", "draw_waterfall", "save"]
