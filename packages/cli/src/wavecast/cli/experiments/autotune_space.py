"""``autotune-space``: what searching 16 or 36 configurations gains over one, and what compiling them costs."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment, Published, Shape
from wavecast.cli.experiments.weight_transpose import LARGE, SMALL, make_inputs, minimum_bytes
from wavecast.cli.rows import DIRTY

# Llama 4 with 128 experts (LARGE), DeepSeek-V3 on one of eight GPUs, DeepSeek 16B on one of eight (SMALL).
DEEPSEEK_V3: Shape = {"experts": 32, "k": 7168, "n": 2048}
ONE = "pytorch/ao#4024: MI300X, median of do_bench; the single configuration that was kept"
EXPANDED = "pytorch/ao#4024: MI300X, median of do_bench; expanded to 24 or more configurations, which are not listed"


def _published(variant: str, shape: Shape, time_us: float, source: str) -> Published:
    return Published(variant=variant, shape=shape, time_us=time_us, device="mi300x", source=source, caches=DIRTY)


EXPERIMENT = Experiment(
    name="autotune-space",
    summary="transposing quantizer with atomic scales: one configuration against the best of 16 and of 36",
    variants=("one", "sixteen", "thirty-six"),
    shapes=(LARGE, DEEPSEEK_V3, SMALL),
    device="mi300x",
    dtype="bf16",
    published=(
        _published("one", LARGE, 10430, ONE),
        _published("thirty-six", LARGE, 10560, EXPANDED),
        _published("one", SMALL, 72, ONE),
        _published("thirty-six", SMALL, 68, EXPANDED),
    ),
    remark="pytorch/ao#4024 took the wider search of #3952 back: no gain on Llama 4 shapes, a choice that changed from "
    "run to run, a first call of 4.4 s instead of 1.9 s; times with 8 and 16 configurations are not published",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.cli.tuned_operators",
    by_default=False,
)
