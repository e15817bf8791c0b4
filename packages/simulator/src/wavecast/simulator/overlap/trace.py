"""A run in the trace event format that Chrome and Perfetto show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wavecast.simulator.overlap.outcome import Outcome


def trace_events(outcome: Outcome, *, name: str = "") -> Mapping[str, Any]:
    """The document: a process a GPU, a thread a stream, times in µs; waiting for a turn is shown apart.

    Args:
        outcome: The run; one that did not end has what ended.
        name: Put into the metadata.
    """
    threads: dict[tuple[int, str], int] = {}
    for span in outcome.spans:
        threads.setdefault((span.rank, span.stream), sum(rank == span.rank for rank, _ in threads))
    events: list[dict[str, Any]] = []
    for rank in sorted({rank for rank, _ in threads}):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"GPU {rank}"}})
    for (rank, stream), number in threads.items():
        place = {"pid": rank, "tid": number}
        events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": stream}})
    for span in outcome.spans:
        place = {"pid": span.rank, "tid": threads[span.rank, span.stream]}
        if span.start_us > span.ready_us:
            waits = {"name": f"starts: {span.name}", "cat": "wait", "ts": span.ready_us}
            events.append({"ph": "X", **waits, "dur": span.start_us - span.ready_us, **place})
        facts = {
            "queue": span.queue,
            "compute_units": span.units,
            "bytes": span.size_bytes,
            "waited_us": span.waited_us,
        }
        event = {"name": span.name, "cat": span.kind, "ts": span.start_us, "dur": span.end_us - span.start_us}
        events.append({"ph": "X", **event, **place, "args": facts})
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"program": name}}
