"""The kernel in which ranks publish and meet, on the ranks of a virtual node."""

from __future__ import annotations

import pytest
import torch

from wavecast.cli.virtual_torch.node import NodeGroup, run_on_ranks
from wavecast.kernels.async_tp.meeting import Meetings
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, failure_record, make_workspace
from wavecast.simulator.virtual.node import NodeOptions, virtual_node

pytestmark = [pytest.mark.compile, pytest.mark.execute]
SIGNALS = 256


@pytest.mark.parametrize(("ranks", "seed"), [(2, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize(
    ("rows", "k", "dtype"), [(70, 96, torch.bfloat16), (33, 7, torch.int8), (3, 5, torch.bfloat16)]
)
def test_what_is_published_before_a_meeting_is_read_after_it(
    ranks: int, seed: int, rows: int, k: int, dtype: torch.dtype
) -> None:
    """Twice, with a meeting behind each reading; rows of any bytes, and scales; nothing is read before it is there."""
    with virtual_node("mi300x", ranks, seed, options=NodeOptions(check=True)) as node:

        def program(group: NodeGroup) -> None:
            memory = group.symmetric_memory(1 << 15, SIGNALS)
            rank, stream = group.rank(), memory.stream("compute")
            meetings = Meetings(rank, ranks, memory.signal_addresses(), failure_record(torch.device("cpu")))
            for call in range(2):
                rows_of = [torch.arange(rows * k).view(rows, k) % 100 + other + call for other in range(ranks)]
                source, scales = rows_of[rank].to(dtype), torch.full((rows, 1), float(rank + call))
                place, places = torch.zeros(2 * rows, k, dtype=dtype), torch.zeros_like(scales)
                window = memory.window(rank, (rows, k), dtype)
                window_scales = memory.window(rank, (rows, 1), torch.float32, 1 << 14)
                with memory.launching(stream):
                    meetings.publish(
                        [
                            Publication(source, ((window, 0), (place, rows))),
                            Publication(scales, ((window_scales, 0), (places, 0))),
                        ]
                    )
                found, found_scales = torch.zeros_like(source), torch.zeros_like(scales)
                other = (rank + 1) % ranks
                memory.copy(found, memory.window(other, (rows, k), dtype), stream)
                memory.copy(found_scales, memory.window(other, (rows, 1), torch.float32, 1 << 14), stream)
                with memory.launching(stream):
                    meetings.meet()
                node.rank(rank).synchronize()
                assert not place[:rows].any()
                assert torch.equal(found, rows_of[other].to(dtype)) and torch.equal(place[rows:], source)
                assert found_scales.eq(other + call).all() and torch.equal(places, scales)

        run_on_ranks(node, program)
    assert [str(finding) for finding in node.findings] == []


def test_a_rank_that_does_not_come_to_a_meeting_is_a_time_out() -> None:
    with virtual_node("mi300x", 3, 1) as node:

        def program(group: NodeGroup) -> None:
            memory = group.symmetric_memory(4, SIGNALS)
            failure = failure_record(torch.device("cpu"))
            meetings = Meetings(group.rank(), 3, memory.signal_addresses(), failure, polls=20)
            workspace = make_workspace(memory, failure)
            if group.rank() != 1:
                with memory.launching(memory.stream("compute")):
                    meetings.meet()
                node.rank(group.rank()).synchronize()
                with pytest.raises(SignalTimeoutError, match="waiting for chunk 1: its signal was to be 1 and is 0"):
                    workspace.check()

        run_on_ranks(node, program)
