"""What asks the simulator: all that other modules of the command line get is plain data.

No module here imports the simulator before it is asked something: ``measure`` works where it is not installed.
"""

from wavecast.cli.simulate.errors import translated_errors
from wavecast.cli.simulate.files import (
    FileLaunch,
    FileRun,
    LoadedKernel,
    disassembler,
    facts_of_file,
    is_from_clean_caches,
    load_kernel,
    prediction_of_file,
    run_file,
)
from wavecast.cli.simulate.instructions import facts_of_kernel, facts_of_run
from wavecast.cli.simulate.lines import LineTimes, inspect_launch, inspect_run
from wavecast.cli.simulate.modelled import ModelledResult
from wavecast.cli.simulate.prediction import Prediction
from wavecast.cli.simulate.runs import predict_run
from wavecast.cli.simulate.scripts import (
    Launches,
    ScriptLaunches,
    ScriptNode,
    TakesLaunches,
    script_device,
    script_node,
)
from wavecast.cli.simulate.specs import check_device, device_facts, device_name, device_names, spec_facts
from wavecast.cli.simulate.times import combined_us, floor_us, stream_times
from wavecast.cli.simulate.tuning import choose_predicted, has_virtual_device

__all__ = [
    "FileLaunch",
    "FileRun",
    "Launches",
    "LineTimes",
    "LoadedKernel",
    "ModelledResult",
    "Prediction",
    "ScriptLaunches",
    "ScriptNode",
    "TakesLaunches",
    "check_device",
    "choose_predicted",
    "combined_us",
    "device_facts",
    "device_name",
    "device_names",
    "disassembler",
    "facts_of_file",
    "facts_of_kernel",
    "facts_of_run",
    "floor_us",
    "has_virtual_device",
    "inspect_launch",
    "inspect_run",
    "is_from_clean_caches",
    "load_kernel",
    "predict_run",
    "prediction_of_file",
    "run_file",
    "script_device",
    "script_node",
    "spec_facts",
    "stream_times",
    "translated_errors",
]
