"""What runs under a profiler: each variant is warmed up, then called once with the profiler on.

    python -m wavecast.cli.measuring.counted CASES.json LAUNCHES.jsonl [--range]

LAUNCHES.jsonl gets a line for each launch: which kernel, of which case and variant, and whether it is to be counted.
With --range the profiler is told where the counted call begins and ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.measuring.launched import recorded_launches
from wavecast.cli.measuring.timing import FLUSH_BYTES
from wavecast.cli.measuring.values import filled


def main(cases: Path, launches: Path, *, tell_range: bool) -> None:
    """Call every variant of every case."""
    scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
    with launches.open("w", encoding="utf-8") as file:
        for number, case in enumerate(json.loads(cases.read_text(encoding="utf-8"))):
            experiment = EXPERIMENTS[case["experiment"]]
            for variant in case["variants"]:
                inputs = filled(experiment.operands(variant).make_inputs(case["shape"]), device="cuda")
                for counted in (False, True):
                    scratch.sum()
                    torch.cuda.synchronize()
                    with recorded_launches() as seen:
                        if counted and tell_range:
                            torch.cuda.profiler.start()
                        experiment.run(variant, inputs)
                        torch.cuda.synchronize()
                        if counted and tell_range:
                            torch.cuda.profiler.stop()
                    for launch in seen:
                        line = {"case": number, "variant": variant, "kernel": launch.name, "counted": counted}
                        file.write(json.dumps(line) + "\n")
                    file.flush()
                del inputs
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), tell_range="--range" in sys.argv[3:])
