"""Running a program of several ranks on a virtual node, and what its ranks did as plain data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wavecast.cli import simulate
from wavecast.cli.errors import misuse
from wavecast.cli.findings import CheckFinding, findings_to_json
from wavecast.cli.script import as_main, traceback_of

RANKS_SCHEMA = "wavecast.ranks/1"


@dataclass(frozen=True, slots=True)
class Activity:
    """Operations of one kind that streams executed.

    Attributes:
        kind: ``kernel``, ``copy``, ``signal``, ``wait``, ``barrier``, ``host``.
        name: What the operations are called; one name for all signals.
        ranks: How many ranks executed any.
        count: Operations of all ranks.
        bytes: What they copied.
    """

    kind: str
    name: str
    ranks: int
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RanksRun:
    """What came of a script of several ranks.

    Attributes:
        script: Its path.
        arguments: Its arguments.
        device: Name of each rank's device.
        arch: Its architecture.
        ranks: How many ranks there were.
        seed: What drew the interleaving.
        activities: What streams executed, in the order in which each kind first ended.
        failure: How it failed, or None.
        hint: What helps against the failure.
        findings: What the check of acquires found, if it was asked for.
    """

    script: str
    arguments: tuple[str, ...]
    device: str
    arch: str
    ranks: int
    seed: int
    activities: tuple[Activity, ...]
    failure: str | None
    hint: str
    findings: tuple[CheckFinding, ...] = ()


def ranks_run_to_json(run: RanksRun) -> dict[str, Any]:
    """The run as plain JSON data of schema ``wavecast.ranks/1``."""
    from wavecast.cli import __version__

    document = asdict(run)
    del document["hint"]
    document["findings"] = findings_to_json(run.findings)
    return {"schema": RANKS_SCHEMA, **document, "wavecast": __version__}


def run_ranks_script(
    script: str,
    arguments: Sequence[str],
    *,
    device: str,
    ranks: int,
    seed: int,
    check: bool = False,
    quiet: bool = False,
) -> RanksRun:
    """Run a script as ``__main__`` once for every rank, as ``torchrun`` would, on the devices of a virtual node.

    A rank that fails has its traceback printed on stderr and ends the others.

    Args:
        script: A file.
        arguments: What the script finds in ``sys.argv`` behind its name.
        device: Name of each rank's device.
        ranks: How many there are.
        seed: Draws the interleaving.
        check: Look for reads of what other ranks or copies wrote, without an acquire.
        quiet: Send what the script prints to stderr.

    Raises:
        CliError: There is no such script.
    """
    if not Path(script).is_file():
        raise misuse(f"{script} is no file", hint="give a Python file")
    code = compile(Path(script).read_text(encoding="utf-8"), script, "exec")

    def program(rank: int) -> None:
        # As a process of its own has: what it defines is not the other ranks'.
        exec(code, {"__name__": "__main__", "__file__": script, "__builtins__": __builtins__})

    with (
        as_main(script, arguments, is_module=False),
        redirect_stdout(sys.stderr) if quiet else nullcontext(),
        simulate.script_node(device, ranks, seed, check=check) as node,
    ):
        failure, hint = _outcome(lambda: node.run(program), script)
    return RanksRun(
        script=script,
        arguments=tuple(arguments),
        device=device,
        arch=node.arch,
        ranks=ranks,
        seed=seed,
        activities=tuple(Activity(*item) for item in node.activities()),
        failure=failure,
        hint=hint,
        findings=node.findings,
    )


def _outcome(run: Any, script: str) -> tuple[str | None, str]:
    """Run it; how it failed, and what helps."""
    try:
        run()
    except SystemExit as error:
        if error.code is None or error.code == 0:
            return None, ""
        return f"{script} ended: {error.code}", ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.stderr.write(traceback_of(error))
        hint = getattr(error, "hint", "")
        reason = str(error).strip() or type(error).__name__
        return f"{script} failed: {type(error).__name__}: {reason}", hint if isinstance(hint, str) else ""
    return None, ""
