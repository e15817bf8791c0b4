"""A Triton backend whose driver is a virtual device, found by Triton itself when ``WAVECAST_DEVICE`` names one.

So ``WAVECAST_DEVICE=mi300x python script.py`` needs no change to the script. Triton loads this while it imports itself:
the modules import nothing of Wavecast until the driver is asked for.
"""

# Triton loads both modules while it imports itself. Imported on their own they wait for it, or it would find them half
# made.
import triton  # noqa: F401
